// SPDX-License-Identifier: BSD-2-Clause
#include "inject/internal.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "elf/image.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RTLD_NOW_FLAG	     2
#define RTLD_DLOPEN_FLAG     0x80000000u /* of __libc_dlopen_mode: the caller is dlopen */
#define LOADER_DATA_MAX	     (64u << 10)
#define MUTEX_RECURSIVE_KIND 1

/*
 * Functions of glibc that hold a lock of their own while they call what may be a breakpoint, or
 * that begin and end threads and processes. Those inside them that have no name are called by
 * these.
 */
static const char *const busy_functions[] = {
	/* the allocator: malloc may be interposed and call itself */
	"malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign",
	"valloc", "pvalloc", "malloc_trim", "malloc_info", "mallinfo", "mallinfo2", "mallopt",
	"malloc_stats", "reallocarray", "cfree",
	/* the loader's door in libc, and its list of files */
	"dlopen", "dlmopen", "dlclose", "dlsym", "dlvsym", "dladdr", "dladdr1", "dlinfo", "dlerror",
	"dl_iterate_phdr", "__libc_dlopen_mode", "__libc_dlsym", "__libc_dlclose",
	/* processes and threads that begin or end */
	"fork", "_Fork", "vfork", "posix_spawn", "posix_spawnp", "system", "popen", "clone",
	"daemon", "forkpty", "exit", "quick_exit", "_exit", "abort", "__cxa_finalize",
	"__cxa_atexit", "__cxa_at_quick_exit", "on_exit", "__cxa_thread_atexit_impl",
	"__register_atfork", "pthread_create", "pthread_exit", "pthread_cancel",
	"pthread_getattr_np", "pthread_setattr_default_np", NULL};

/* Where a thread that waits holds no lock of libc, and an interrupted wait goes on as if nothing
 * had been. Not pthread_mutex_lock: an allocator may be waiting there. */
static const char *const sleep_functions[] = {
	/* system calls */
	"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "nanosleep",
	"clock_nanosleep", "pause", "sigsuspend", "read", "readv", "write", "accept", "accept4",
	"recv", "recvfrom", "recvmsg", "waitpid", "wait4", "waitid", "syscall",
	/* waits for threads */
	"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_join",
	"pthread_timedjoin_np", "pthread_clockjoin_np", "pthread_barrier_wait", "sem_wait",
	"sem_timedwait", "sem_clockwait", NULL};

/* Functions that most programs call all the time, CPython among them: it has an allocator of its
 * own for what is small. As many as there are debug registers. */
static const char *const entry_functions[] = {"malloc",	       "free", "PyObject_Malloc",
					      "clock_gettime", "poll", NULL};

__attribute__((format(printf, 3, 4))) static int refuse(char why[INJECT_WHY_BYTES], int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, INJECT_WHY_BYTES, format, args);
	va_end(args);
	return err;
}

static int check_state(const struct process_info *info, const char *status,
		       char why[INJECT_WHY_BYTES])
{
	uint64_t tracer = keyed_number(status, "TracerPid:");
	const char *features = strstr(status, "x86_Thread_features:"), *shadow_stack;

	if (info->kernel_thread)
		return refuse(why, -ENOTSUP, "it is a kernel thread");
	if (process_has_ended(info->pid))
		return refuse(why, -ESRCH, "it has ended");
	if (tracer && tracer != UINT64_MAX)
		return refuse(why, -EBUSY, "pid %llu traces it already",
			      (unsigned long long)tracer);
	if (info->state == 'T' || info->state == 't')
		return refuse(why, -EBUSY, "it is stopped: continue it first");
	if (keyed_number(status, "CoreDumping:") == 1)
		return refuse(why, -ESRCH, "its memory is being dumped");
	/* A vfork child runs in its parent's memory: what is loaded there stays when it is gone. */
	if (info->ppid > 1 && syscall(SYS_kcmp, info->pid, info->ppid, KCMP_VM, 0, 0) == 0)
		return refuse(why, -ENOTSUP, "it is about to exec, in the memory of pid %d",
			      info->ppid);
	if (info->is_32bit)
		return refuse(why, -ENOTSUP, "it is a 32-bit program");
	shadow_stack = features ? strstr(features, "shstk") : NULL;
	if (shadow_stack && shadow_stack < strchrnul(features, '\n'))
		return refuse(why, -ENOTSUP, "it runs with a shadow stack (CET)");
	if (keyed_number(status, "Seccomp:") == 1)
		return refuse(why, -ENOTSUP, "it is in seccomp's strict mode");
	return 0;
}

/* dlopen finds a memory file by its name there. A process that is about to end has no root. */
static int check_proc(pid_t pid, char why[INJECT_WHY_BYTES])
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/root/proc/uptime", pid);
	if (!access(name, F_OK))
		return 0;
	snprintf(name, sizeof(name), "/proc/%d/root/", pid);
	if (access(name, F_OK))
		return refuse(why, -ESRCH, "it has ended");
	return refuse(why, -ENOTSUP, "it has no /proc: mount one in its root");
}

static int check_process(struct target *target, char why[INJECT_WHY_BYTES])
{
	/* The signal of our notices does nothing by default, and the process does not handle it: if
	 * we die, it may be left with one. */
	static const int candidates[] = {SIGCHLD, SIGWINCH, SIGURG}; /* the last is the best */
	struct process_info info;
	char *status = NULL, *memfd = NULL;
	const char *caught;
	uint64_t handled;
	int err = process_info(target->pid, &info);

	if (!err && proc_read_pid(target->pid, "status", &status, 0) <= 0)
		err = -ESRCH;
	if (err) {
		free(status);
		return refuse(why, err, err == -ESRCH ? "it has ended" : "/proc does not show it");
	}
	err = check_state(&info, status, why);
	target->has_seccomp = keyed_number(status, "Seccomp:") == 2;
	caught = strstr(status, "SigCgt:");
	handled = caught ? strtoull(caught + strlen("SigCgt:"), NULL, 16) : 0;
	for (size_t i = 0; i < sizeof(candidates) / sizeof(*candidates); i++)
		if (!(handled >> (candidates[i] - 1) & 1))
			target->notify_signal = candidates[i];
	if (!err)
		err = check_proc(target->pid, why);
	if (!err && proc_read("/proc/sys/vm/memfd_noexec", &memfd, 16) > 0 && *memfd == '2')
		err = refuse(why, -EPERM, "vm.memfd_noexec is 2: no code in memory files");
	free(memfd);
	free(status);
	return err;
}

int target_refused(pid_t pid, int err, char why[INJECT_WHY_BYTES])
{
	char *scope = NULL;
	bool nobody =
		proc_read("/proc/sys/kernel/yama/ptrace_scope", &scope, 16) > 0 && *scope == '3';

	free(scope);
	if (err == ESRCH || process_has_ended(pid))
		return refuse(why, -ESRCH, "it has ended");
	if (nobody)
		return refuse(why, -EPERM, "kernel.yama.ptrace_scope is 3: nobody may trace");
	if (err == EPERM)
		return refuse(why, -EPERM, "not allowed to trace it, or another tracer has it");
	return refuse(why, -err, "ptrace: %s", strerror(err));
}

static enum module_kind kind_of(const struct target_module *module,
				const struct inject_request *request)
{
	const char *soname = module->image ? image__soname(module->image) : "";

	if (begins_with(soname, "ld-linux"))
		return MODULE_LOADER;
	if (!strcmp(soname, "libc.so.6") || !strcmp(soname, "libpthread.so.0"))
		return MODULE_LIBC;
	/* another allocator, the old libdl: busy as a whole */
	if (!strcmp(soname, "libdl.so.2"))
		return MODULE_BUSY;
	if (module->image && *soname && image__exports(module->image, "malloc"))
		return MODULE_BUSY;
	for (const char *const *name = request->busy_modules; name && *name; name++)
		if (begins_with(module->name, *name))
			return MODULE_BUSY;
	return MODULE_OTHER;
}

static int read_modules(struct target *target, const struct inject_request *request,
			char why[INJECT_WHY_BYTES])
{
	target->maps = maps__read(target->pid);
	if (!target->maps && (errno == EPERM || errno == EACCES))
		return refuse(why, -EPERM, "not allowed to read its memory");
	if (!target->maps)
		return refuse(why, -ESRCH, "it has ended");
	for (size_t i = 0; i < maps__count(target->maps); i++) {
		const struct mapping *mapping = maps__at(target->maps, i);
		struct target_module *module;

		if (!mapping->executable || !mapping->inode)
			continue;
		if (GROW_BY_ONE(target->modules))
			return refuse(why, -ENOMEM, "out of memory");
		module = &target->modules[target->modules_count++];
		module->start = mapping->start;
		module->end = mapping->end;
		module->name = base_name(mapping->path);
		module->image = mapped_image_open(target->pid, mapping, &module->bias);
		module->kind = kind_of(module, request);
	}
	/* a process that is about to end has no maps */
	return target->modules_count ? 0 : refuse(why, -ESRCH, "it has ended");
}

const struct target_module *target_module(const struct target *target, uint64_t address)
{
	size_t at = PARTITION_POINT(i, target->modules_count, target->modules[i].end <= address);

	return at < target->modules_count && target->modules[at].start <= address
		       ? &target->modules[at]
		       : NULL;
}

static const struct target_module *module_with(const struct target *target, const char *soname)
{
	FOR_EACH (module, target->modules)
		if (module->image && !strcmp(image__soname(module->image), soname))
			return module;
	return NULL;
}

/* 0: it exports none. */
static uint64_t exported(const struct target_module *module, const char *name, uint64_t *size)
{
	if (!module || !module->image)
		return 0;
	return mapped_symbol(module->image, module->bias, name, size);
}

static const char *listed(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(*list, name))
			return *list;
	return NULL;
}

static bool wants_range(const char *name, void *ctx)
{
	(void)ctx;
	return listed(busy_functions, name) || listed(sleep_functions, name);
}

struct libc_ranges {
	struct target *target;
	const struct target_module *module;
};

static int add_libc_function(const struct symbol *symbol, void *ctx)
{
	struct libc_ranges *libc = ctx;
	struct target *target = libc->target;
	uint64_t start = libc->module->bias + symbol->vaddr, end = start + symbol->size;
	const char *busy = listed(busy_functions, symbol->name);
	const char *sleeps = listed(sleep_functions, symbol->name);

	if (busy && LIST_ADD(target->busy, (struct target_range){start, end, busy}))
		return -ENOMEM;
	return sleeps ? LIST_ADD(target->sleeps, (struct target_range){start, end, sleeps}) : 0;
}

static int add_ranges(struct target *target)
{
	int err = 0;

	for (size_t i = 0; i < target->modules_count && !err; i++) {
		const struct target_module *module = &target->modules[i];
		struct libc_ranges libc = {target, module};

		if (!module->image)
			continue;
		if (module->kind == MODULE_LIBC) {
			/* all versions of each: pthread_cond_timedwait is two functions */
			image__narrow(module->image, wants_range, NULL);
			err = image__each_function(module->image, add_libc_function, &libc);
			continue;
		}
		/* the program itself, or a library, may have an allocator, too */
		for (const char *const *name = busy_functions;
		     module->kind == MODULE_OTHER && *name && !err; name++) {
			uint64_t size = 0, start = exported(module, *name, &size);

			if (start)
				err = LIST_ADD(target->busy,
					       (struct target_range){start, start + size, *name});
		}
	}
	return err;
}

const struct target_range *target_range_of(const struct target_range *ranges, size_t count,
					   uint64_t address)
{
	for (size_t i = 0; i < count; i++)
		if (address >= ranges[i].start && address < ranges[i].end)
			return &ranges[i];
	return NULL;
}

static bool add_entry_of(struct target *target, const char *name, bool of_libc)
{
	for (size_t i = 0; i < target->modules_count; i++) {
		const struct target_module *module = &target->modules[i];
		uint64_t size = 0, address = 0;

		if (module->kind != MODULE_LOADER && (module->kind == MODULE_LIBC) == of_libc)
			address = exported(module, name, &size);
		if (!address || target_module(target, address) != module)
			continue;
		target->entries[target->entries_count++] =
			(struct target_range){address, address + size, name};
		return true;
	}
	return false;
}

/* A malloc that is not libc's is the one that is called. */
static void add_entry(struct target *target, const char *name)
{
	if (target->entries_count < TARGET_ENTRIES_MAX && !add_entry_of(target, name, false))
		add_entry_of(target, name, true);
}

/* Where in a file's code some bytes are; 0: nowhere. */
static uint64_t find_code(const struct target_module *module, const void *bytes, size_t count)
{
	uint64_t vaddr, size;
	const uint8_t *code;

	for (size_t i = 0; (code = image__code_segment(module->image, i, &vaddr, &size)); i++) {
		const uint8_t *found = memmem(code, size, bytes, count);
		uint64_t address = found ? module->bias + vaddr + (uint64_t)(found - code) : 0;

		if (found && address >= module->start && address < module->end)
			return address;
	}
	return 0;
}

/* dlopen has been part of libc since 2.34, of libdl before; a program that has no libdl got
 * libc's own, for its own use: __libc_dlopen_mode. */
static void find_dlopen(struct target *target, const struct target_module *libc)
{
	const struct target_module *libdl = module_with(target, "libdl.so.2");

	target->dlopen_flags = RTLD_NOW_FLAG;
	target->dlopen = exported(libc, "dlopen", NULL);
	target->dlerror = exported(libc, "dlerror", NULL);
	if (!target->dlopen && libdl) {
		target->dlopen = exported(libdl, "dlopen", NULL);
		target->dlerror = exported(libdl, "dlerror", NULL);
	}
	if (!target->dlopen) {
		target->dlopen = exported(libc, "__libc_dlopen_mode", NULL);
		target->dlopen_flags |= RTLD_DLOPEN_FLAG;
		target->dlerror = 0;
	}
}

static int find_functions(struct target *target, char why[INJECT_WHY_BYTES])
{
	static const uint8_t syscall_return[] = {0x0f, 0x05, 0xc3};
	static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	const struct target_module *libc = module_with(target, "libc.so.6"), *loader = NULL;

	for (size_t i = 0; i < target->modules_count && !loader; i++)
		if (target->modules[i].kind == MODULE_LOADER)
			loader = &target->modules[i];
	for (size_t i = 0; !libc && i < maps__count(target->maps); i++)
		if (strstr(maps__at(target->maps, i)->path, "musl"))
			return refuse(why, -ENOTSUP, "its C library is musl, not glibc");
	if (!loader)
		return refuse(why, -ENOTSUP, "it is a static program: it has no dlopen");
	if (!libc)
		return refuse(why, -ENOTSUP, "its C library is not glibc");
	find_dlopen(target, libc);
	target->errno_location = exported(libc, "__errno_location", NULL);
	target->syscall_return = find_code(libc, syscall_return, sizeof(syscall_return));
	target->sigreturn = find_code(libc, sigreturn, sizeof(sigreturn));
	target->loader_data = exported(loader, "_rtld_global", &target->loader_data_bytes);
	if (!target->dlopen || !target->errno_location)
		return refuse(why, -ENOTSUP, "its C library has no dlopen");
	if (!target->syscall_return || !target->sigreturn)
		return refuse(why, -ENOTSUP, "its C library is not one that is known");
	return 0;
}

int target_inspect(struct target *target, const struct inject_request *request,
		   char why[INJECT_WHY_BYTES])
{
	const char *const *name = request->functions;
	int err;

	*target = (struct target){.pid = request->pid};
	err = check_process(target, why) ?: read_modules(target, request, why);
	if (!err)
		err = find_functions(target, why);
	if (!err && add_ranges(target))
		err = refuse(why, -ENOMEM, "out of memory");
	if (err)
		return err;
	for (; name && *name && target->entries_count < TARGET_ENTRIES_MAX / 2; name++)
		add_entry(target, *name);
	for (name = entry_functions; *name; name++)
		add_entry(target, *name);
	return 0;
}

void target_clear(struct target *target)
{
	FOR_EACH (module, target->modules)
		image__free(module->image);
	free(target->modules);
	free(target->busy);
	free(target->sleeps);
	maps__free(target->maps);
	*target = (struct target){0};
}

/* The beginning of glibc's pthread_mutex_t on x86-64: of its ABI. */
struct mutex {
	int32_t lock;
	uint32_t count;
	int32_t owner; /* tid in the process's pid namespace */
	uint32_t users;
	int32_t kind;
	int16_t spins, elision;
	uint64_t list[2];
};
_Static_assert(sizeof(struct mutex) == 40, "pthread_mutex_t of x86-64");

/*
 * _rtld_global has the loader's recursive mutexes at an offset of its release. One that is held
 * looks like nothing else there: locked, an owner, a count and the kind in their places.
 */
bool target_is_loading(const struct target *target)
{
	uint8_t data[LOADER_DATA_MAX];
	size_t size = target->loader_data_bytes;

	if (!target->loader_data || size > sizeof(data) ||
	    process_read(target->pid, target->loader_data, data, size))
		return false;
	for (size_t at = 0; at + sizeof(struct mutex) <= size; at += 8) {
		struct mutex mutex;

		memcpy(&mutex, data + at, sizeof(mutex));
		if (mutex.kind == MUTEX_RECURSIVE_KIND && (mutex.lock == 1 || mutex.lock == 2) &&
		    mutex.count && mutex.count < 1000 && mutex.owner > 0 && mutex.users)
			return true;
	}
	return false;
}
