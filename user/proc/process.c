// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/secrets.h"
#include "base/text.h"
#include "proc/maps.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOM_LEAST 4096

/* Files of /proc have no size and may vanish while they are read. */
ssize_t proc_read_fd(int fd, char **out, size_t limit)
{
	char *text = NULL;
	size_t used = 0, capacity = 0;
	ssize_t got = 1;

	while (got > 0) {
		size_t room;

		if (used + 1 >= capacity && grow_array(&text, &capacity, used + ROOM_LEAST, 1)) {
			got = -ENOMEM;
			break;
		}
		room = capacity - used - 1;
		if (limit && limit - used < room)
			room = limit - used;
		do {
			got = read(fd, text + used, room);
		} while (got < 0 && errno == EINTR);
		got = got < 0 ? -errno : got;
		used += got > 0 ? (size_t)got : 0;
	}
	if (got < 0) {
		free(text);
		return got;
	}
	text[used] = '\0';
	*out = text;
	return (ssize_t)used;
}

ssize_t proc_read(const char *path, char **out, size_t limit)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	size = proc_read_fd(fd, out, limit);
	close(fd);
	return size;
}

ssize_t proc_read_pid(pid_t pid, const char *name, char **out, size_t limit)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return proc_read(path, out, limit);
}

enum { KERNEL_THREAD_FLAG = 0x00200000 }; /* PF_KTHREAD, include/linux/sched.h */

/* The name ends at the last ')': behind it there are only numbers and the state's letter. */
int process_stat_parse(const char *text, struct process_stat *stat)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long minor, major, user, system, start;
	unsigned flags;
	int ppid;

	memset(stat, 0, sizeof(*stat));
	if (!open || !close || close < open)
		return -EINVAL;
	snprintf(stat->comm, sizeof(stat->comm), "%.*s", (int)(close - open - 1), open + 1);
	/* fields 3, 4, 9, 10, 12, 14, 15, 22 */
	if (sscanf(close + 1,
		   " %c %d %*d %*d %*d %*d %u %llu %*u %llu %*u %llu %llu "
		   "%*d %*d %*d %*d %*d %*d %llu",
		   &stat->state, &ppid, &flags, &minor, &major, &user, &system, &start) != 8)
		return -EINVAL;
	stat->ppid = ppid;
	stat->kernel_thread = flags & KERNEL_THREAD_FLAG;
	stat->minor_faults = minor;
	stat->major_faults = major;
	stat->user_ticks = user;
	stat->system_ticks = system;
	stat->start_ticks = start;
	return 0;
}

static int process_stat_read(pid_t pid, struct process_stat *stat)
{
	char *text;
	ssize_t size = proc_read_pid(pid, "stat", &text, 0);
	int err;

	if (size < 0)
		return (int)size;
	err = process_stat_parse(text, stat);
	free(text);
	return err;
}

uint64_t ticks_to_ns(uint64_t ticks)
{
	static const uint64_t second_ns = 1000000000;
	long per_second = sysconf(_SC_CLK_TCK);

	return ticks * (second_ns / (per_second > 0 ? (uint64_t)per_second : 100));
}

uint64_t keyed_number(const char *text, const char *key)
{
	size_t size = strlen(key);

	for (; text && *text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
		if (strncmp(text, key, size) == 0 && strchr(" \t", text[size]))
			return strtoull(text + size, NULL, 10);
	return UINT64_MAX;
}

uint64_t keyed_kilobytes(const char *text, const char *key)
{
	uint64_t number = keyed_number(text, key);

	return number == UINT64_MAX ? number : 1024 * number;
}

int host_cpu_parse(const char *text, struct host_cpu *cpu)
{
	unsigned long long user, nice, system, irq, softirq, steal;

	*cpu = (struct host_cpu){0};
	/* guests' time is in that of user; idle and iowait are skipped */
	if (sscanf(text, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq,
		   &softirq, &steal) != 6)
		return -EINVAL;
	cpu->busy_ns = ticks_to_ns(user + nice + system + irq + softirq);
	cpu->steal_ns = ticks_to_ns(steal);
	return 0;
}

struct host_cpu host_cpu_read(void)
{
	struct host_cpu cpu = {0};
	char *text;

	if (proc_read("/proc/stat", &text, 256) < 0)
		return cpu;
	host_cpu_parse(text, &cpu);
	free(text);
	return cpu;
}

/* False, too, where the permission is missing. */
static bool runs_32bit(pid_t pid)
{
	unsigned char ident[EI_NIDENT] = {0};
	char path[64];
	bool found;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process_task(pid));
	fd = rootfs_open("", path);
	if (fd < 0)
		return false;
	found = pread(fd, ident, sizeof(ident), 0) == sizeof(ident) &&
		memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
	close(fd);
	return found;
}

int process_info(pid_t pid, struct process_info *info)
{
	struct process_stat stat;
	int err = process_stat_read(pid, &stat);
	char link[64];
	ssize_t size;

	if (err)
		return err;
	memset(info, 0, sizeof(*info));
	info->pid = pid;
	info->ppid = stat.ppid;
	memcpy(info->comm, stat.comm, sizeof(info->comm));
	info->state = stat.state;
	info->kernel_thread = stat.kernel_thread;
	info->start_ticks = stat.start_ticks;
	info->start_ns = ticks_to_ns(stat.start_ticks);
	if (stat.kernel_thread)
		return 0;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)process_task(pid));
	size = readlink(link, info->exe, sizeof(info->exe) - 1);
	info->exe[size > 0 ? size : 0] = '\0';
	info->exe_deleted = remove_suffix(info->exe, " (deleted)");
	info->is_32bit = runs_32bit(pid);
	return 0;
}

bool process_ends_within(pid_t pid, int timeout_ms)
{
	/* pidfd_open() came with glibc 2.36: Ubuntu 22.04 has 2.35, RHEL 9 has 2.34 */
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool ended;

	if (end.fd < 0)
		return errno == ESRCH;
	ended = poll(&end, 1, timeout_ms) > 0;
	close(end.fd);
	return ended;
}

bool process_answers(pid_t child, int pipe_fd, void *answer, size_t size, int timeout_ms)
{
	struct pollfd pipe_end = {.fd = pipe_fd, .events = POLLIN};
	int ready = poll(&pipe_end, 1, timeout_ms);

	if (ready <= 0)
		kill(child, SIGKILL);
	return ready > 0 && read(pipe_fd, answer, size) == (ssize_t)size;
}

/* Time for a killed process to end; one that hangs in the kernel takes longer. */
#define KILLED_MS 1000

void process_reap(pid_t child, int timeout_ms)
{
	if (!process_ends_within(child, timeout_ms)) {
		kill(child, SIGKILL);
		process_ends_within(child, KILLED_MS);
	}
	waitpid(child, NULL, WNOHANG);
}

bool process_has_ended(pid_t pid)
{
	return process_ends_within(pid, 0);
}

pid_t process_of_thread(pid_t tid)
{
	char *text;
	ssize_t size = proc_read_pid(tid, "status", &text, 0);
	uint64_t tgid;

	if (size < 0)
		return (pid_t)size;
	tgid = keyed_number(text, "Tgid:");
	free(text);
	return tgid && tgid <= INT32_MAX ? (pid_t)tgid : -ESRCH;
}

ssize_t process_cmdline(pid_t pid, char **out, size_t limit)
{
	return limit ? proc_read_pid(process_task(pid), "cmdline", out, limit) : -EINVAL;
}

/* Lists of processes and threads are snapshots: both come and go while one is taken. */

ORDER(compare_pids, pid_t, ASCENDING(*a, *b))

/* The numbered entries of a folder, ascending: their count, at least 1, or -errno. */
static ssize_t read_numbers(const char *path, pid_t **out)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	pid_t *list = NULL;
	size_t list_count = 0, list_capacity = 0;
	int err = 0;

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (errno = 0, entry = readdir(dir))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0)
			err = LIST_ADD(list, pid);
	}
	if (!err && errno)
		err = errno == ENOENT ? -ESRCH : -errno;
	closedir(dir);
	if (!err && !list_count)
		err = -ESRCH;
	if (err) {
		free(list);
		return err;
	}
	qsort(list, list_count, sizeof(*list), compare_pids);
	*out = list;
	return (ssize_t)list_count;
}

/* A main thread that has left looks like a dead process, though its threads live on. */
static bool is_dead(pid_t pid, char state)
{
	return state == 'X' || (state == 'Z' && process_task(pid) == pid);
}

#define COMMAND_MAX 8192

/* Is the name its first argument, that without folders, or all of its command line? Programs
 * overwrite their command line with a title (setproctitle), and pad it. */
static bool is_titled(pid_t pid, const char *name)
{
	char *line = NULL;
	ssize_t length = process_cmdline(pid, &line, COMMAND_MAX);
	bool found = false;

	while (length > 0 && (!line[length - 1] || line[length - 1] == ' '))
		length--;
	if (length > 0) {
		line[length] = '\0';
		found = !strcmp(line, name) || !strcmp(base_name(line), name);
		for (ssize_t i = 0; i < length; i++)
			if (!line[i])
				line[i] = ' ';
		found = found || !strcmp(line, name);
	}
	free(line);
	return found;
}

char *process_command(pid_t pid, const char *between, bool full)
{
	char *raw = NULL, **arguments;
	ssize_t length = process_cmdline(pid, &raw, COMMAND_MAX);
	struct text text = {0};
	size_t count = 0;

	if (length <= 0) { /* it has ended */
		free(raw);
		return strdup("");
	}
	arguments = calloc((size_t)length + 2, sizeof(*arguments));
	if (!arguments) {
		free(raw);
		return NULL;
	}
	for (ssize_t at = 0; at < length; at += (ssize_t)strlen(raw + at) + 1)
		arguments[count++] = raw + at;
	if (!full)
		secrets_hide(arguments);
	for (size_t i = 0; i < count; i++)
		text_printf(&text, "%s%s", i ? between : "", arguments[i]);
	free(arguments);
	free(raw);
	return text_take(&text);
}

ssize_t process_find(const char *name, pid_t **out)
{
	ssize_t count = read_numbers("/proc", out), kept = 0;

	if (count < 0)
		return count;
	for (ssize_t i = 0; i < count; i++) {
		pid_t pid = (*out)[i];
		struct process_info info;

		if (process_info(pid, &info) || info.kernel_thread || is_dead(pid, info.state))
			continue;
		if (!name || !strcmp(info.comm, name) ||
		    (info.exe[0] && !strcmp(base_name(info.exe), name)) || is_titled(pid, name))
			(*out)[kept++] = pid;
	}
	return kept;
}

ssize_t process_list(pid_t **out)
{
	return read_numbers("/proc", out);
}

struct relative {
	pid_t pid, ppid; /* the pid first, for compare_pids() */
	bool dead, below;
};

ssize_t process_descendants(pid_t pid, pid_t **out)
{
	struct relative *relatives;
	struct process_stat stat;
	bool changed;
	pid_t *pids;
	ssize_t count = process_stat_read(pid, &stat), kept = 0;

	if (!count)
		count = read_numbers("/proc", &pids);
	if (count < 0)
		return count;
	relatives = calloc((size_t)count, sizeof(*relatives));
	if (!relatives) {
		free(pids);
		return -ENOMEM;
	}
	for (ssize_t i = 0; i < count; i++) {
		bool ended = process_stat_read(pids[i], &stat) != 0;

		relatives[i].pid = pids[i];
		relatives[i].ppid = ended ? 0 : stat.ppid;
		relatives[i].dead = ended || is_dead(pids[i], stat.state);
	}
	/* a child may have a lower number than its parent (numbers wrap): until nothing changes */
	do {
		changed = false;
		for (ssize_t i = 0; i < count; i++) {
			struct relative *child = &relatives[i], *parent;

			if (child->below || child->pid == pid)
				continue;
			parent = bsearch(&child->ppid, relatives, (size_t)count, sizeof(*relatives),
					 compare_pids);
			if (child->ppid == pid || (parent && parent->below))
				child->below = changed = true;
		}
	} while (changed);
	for (ssize_t i = 0; i < count; i++)
		if (relatives[i].below && !relatives[i].dead)
			pids[kept++] = relatives[i].pid;
	free(relatives);
	*out = pids;
	return kept;
}

ssize_t process_threads(pid_t pid, pid_t **out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return read_numbers(path, out);
}

/* Its memory is its threads', and the link to the executable is there as long as there is any. */
static bool has_memory(pid_t tid)
{
	char path[64], exe[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)tid);
	return readlink(path, exe, sizeof(exe)) > 0 || errno != ENOENT;
}

pid_t process_task(pid_t pid)
{
	pid_t *tids = NULL, found = pid;
	ssize_t count;

	if (has_memory(pid))
		return pid;
	count = process_threads(pid, &tids);
	for (ssize_t i = 0; i < count && found == pid; i++)
		if (tids[i] != pid && has_memory(tids[i]))
			found = tids[i];
	free(tids);
	return found;
}

/* The last number of "NSpid: 4711 7". */
pid_t process_own_id(pid_t tid)
{
	long own_id = 0;
	char *text, *line;

	if (proc_read_pid(tid, "status", &text, 0) < 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (line)
		line += strlen("\nNSpid:");
	while (line && *line == '\t')
		own_id = strtol(line, &line, 10);
	free(text);
	return (pid_t)own_id;
}

pid_t process_thread_by_own_id(pid_t pid, pid_t own_id)
{
	pid_t *tids = NULL, found = 0;
	ssize_t count;

	if (process_own_id(pid) == pid)
		return own_id; /* its ids are ours */
	count = process_threads(pid, &tids);
	for (ssize_t i = 0; i < count && !found; i++)
		if (process_own_id(tids[i]) == own_id)
			found = tids[i];
	free(tids);
	return found;
}

int process_usage(pid_t pid, struct process_usage *usage)
{
	struct process_stat stat;
	char *text;
	int err = process_stat_read(pid, &stat);

	if (err)
		return err;
	memset(usage, 0xff, sizeof(*usage)); /* UINT64_MAX: not measured */
	usage->cpu_user_ns = ticks_to_ns(stat.user_ticks);
	usage->cpu_system_ns = ticks_to_ns(stat.system_ticks);
	usage->minor_faults = stat.minor_faults;
	usage->major_faults = stat.major_faults;
	if (proc_read_pid(process_task(pid), "status", &text, 0) >= 0) {
		usage->rss_bytes = keyed_kilobytes(text, "VmRSS:");
		usage->rss_peak_bytes = keyed_kilobytes(text, "VmHWM:");
		usage->rss_anon_bytes = keyed_kilobytes(text, "RssAnon:");
		usage->rss_file_bytes = keyed_kilobytes(text, "RssFile:");
		usage->rss_shmem_bytes = keyed_kilobytes(text, "RssShmem:");
		usage->threads_count = keyed_number(text, "Threads:");
		usage->voluntary_switches = keyed_number(text, "voluntary_ctxt_switches:");
		usage->involuntary_switches = keyed_number(text, "nonvoluntary_ctxt_switches:");
		free(text);
	}
	if (proc_read_pid(pid, "io", &text, 0) >= 0) {
		usage->read_bytes = keyed_number(text, "read_bytes:");
		usage->write_bytes = keyed_number(text, "write_bytes:");
		free(text);
	}
	return 0;
}

uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return UINT64_MAX;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t process_anon_bytes(pid_t pid)
{
	unsigned long long resident, shared;
	char *text;
	int fields;

	if (proc_read_pid(pid, "statm", &text, 0) < 0)
		return UINT64_MAX;
	fields = sscanf(text, "%*u %llu %llu", &resident, &shared);
	free(text);
	if (fields != 2 || resident < shared)
		return UINT64_MAX;
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool thread_cpu_times(pid_t pid, pid_t tid, struct cpu_times *times)
{
	unsigned long long slices = 0;
	char name[64], *text;
	int fields;

	snprintf(name, sizeof(name), "task/%d/schedstat", (int)tid);
	if (proc_read_pid(pid, name, &text, 0) < 0)
		return false;
	fields = sscanf(text, "%" SCNu64 " %" SCNu64 " %llu", &times->on_cpu_ns,
			&times->runnable_ns, &slices);
	free(text);
	return fields == 3 && slices;
}

int thread_usage(pid_t pid, pid_t tid, struct thread_usage *usage)
{
	uint64_t on_cpu_ns, runnable_ns, slices;
	struct process_stat stat;
	char name[64], *text;
	ssize_t size;
	int err;

	snprintf(name, sizeof(name), "task/%d/stat", (int)tid);
	size = proc_read_pid(pid, name, &text, 0);
	if (size < 0)
		return (int)size;
	err = process_stat_parse(text, &stat);
	free(text);
	if (err)
		return err;
	*usage = (struct thread_usage){.tid = tid,
				       .state = stat.state,
				       .start_ticks = stat.start_ticks,
				       .on_cpu_ns = UINT64_MAX,
				       .runnable_ns = UINT64_MAX};
	memcpy(usage->comm, stat.comm, sizeof(usage->comm));
	snprintf(name, sizeof(name), "task/%d/schedstat", (int)tid);
	if (proc_read_pid(pid, name, &text, 0) < 0)
		return 0;
	/* "0 0 0" where the kernel does not keep them, and for a thread that has never run: its CPU
	 * time in ticks distinguishes the two */
	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &on_cpu_ns, &runnable_ns, &slices) ==
		    3 &&
	    (on_cpu_ns || slices || !(stat.user_ticks + stat.system_ticks))) {
		usage->on_cpu_ns = on_cpu_ns;
		usage->runnable_ns = runnable_ns;
	}
	free(text);
	return 0;
}

/* The remote address is never followed here. */
static int copied(ssize_t n, size_t bytes)
{
	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EFAULT;
}

/* /proc/PID/mem of the process that was read last, as opening it takes longer than reading. Not for
 * long: the file stays that of the memory before an exec. */
#define MEMORY_KEPT_NS 10000000u
static struct {
	pthread_mutex_t lock;
	pid_t pid; /* 0: none is open */
	int fd;
	uint64_t opened_ns;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* False: it cannot be opened. */
static bool open_memory(pid_t pid)
{
	char path[32];

	if (memory.pid == pid && clock_monotonic_ns() - memory.opened_ns < MEMORY_KEPT_NS)
		return true;
	if (memory.pid)
		close(memory.fd);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	memory.fd = open(path, O_RDONLY | O_CLOEXEC);
	memory.pid = memory.fd < 0 ? 0 : pid;
	memory.opened_ns = clock_monotonic_ns();
	return memory.pid;
}

/* Not by process_vm_readv(), if it can be avoided: it pins the pages, and the kernel copies a page
 * that forked processes share before it pins it: 4 KiB of new memory in the process for each. */
int process_read(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {.iov_base = to, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};
	ssize_t n = 0;
	bool is_open;

	pthread_mutex_lock(&memory.lock);
	is_open = open_memory(pid);
	if (is_open)
		n = pread(memory.fd, to, bytes, (off_t)address);
	if (is_open && bytes && !n)
		memory.opened_ns = 0; /* its process has ended, or another program runs */
	pthread_mutex_unlock(&memory.lock);
	if (is_open && (n || !bytes))
		return (size_t)n == bytes ? 0 : -EFAULT;
	return copied(process_vm_readv(pid, &local, 1, &remote, 1, 0), bytes);
}

int process_write(pid_t pid, uint64_t address, const void *from, size_t bytes)
{
	struct iovec local = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};

	return copied(process_vm_writev(pid, &local, 1, &remote, 1, 0), bytes);
}

#define ENVIRONMENT_MAX 65536

ssize_t environment_read(pid_t pid, char **out)
{
	return proc_read_pid(process_task(pid), "environ", out, ENVIRONMENT_MAX);
}

const char *environment_value(const char *environment, size_t bytes, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at < bytes; at += strlen(environment + at) + 1)
		if (!strncmp(environment + at, name, length) && environment[at + length] == '=')
			return environment + at + length + 1;
	return NULL;
}

int process_owner(pid_t pid, uid_t *uid, gid_t *gid)
{
	/* real, effective, saved, of the file system */
	static const char *const formats[] = {"\nUid:%*u%*u%*u%u", "\nGid:%*u%*u%*u%u"};
	unsigned ids[2];
	char *text = NULL;
	ssize_t size = proc_read_pid(process_task(pid), "status", &text, 0);
	int err = size < 0 ? (int)size : 0;

	for (int i = 0; i < 2 && !err; i++) {
		const char *line = strstr(text, i ? "\nGid:" : "\nUid:");

		if (!line || sscanf(line, formats[i], &ids[i]) != 1)
			err = -EINVAL;
	}
	free(text);
	if (err)
		return err;
	*uid = ids[0];
	*gid = ids[1];
	return 0;
}
