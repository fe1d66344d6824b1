// SPDX-License-Identifier: BSD-2-Clause
#include "session/dump.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/address_name.h"
#include "proc/descriptor.h"
#include "proc/mounts.h"
#include "proc/process.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What was found for an object; other threads that wait for it ask no more. */
struct found_target {
	enum perfx_target_kind kind;
	uint32_t pid, owner_tid;
	uint64_t deadline_ns;
	char *text;
};

struct wait_targets {
	struct pipe_users pipe_users;
	struct address_names names;
	struct map64 ids; /* by process and object → list[] */
	struct found_target *list;
	size_t count, capacity;
	struct mounts_text mounts;
};

struct wait_targets *wait_targets__new(void)
{
	struct wait_targets *targets = calloc(1, sizeof(*targets));

	if (targets)
		targets->pipe_users.sockets = true;
	return targets;
}

void wait_targets__free(struct wait_targets *targets)
{
	if (!targets)
		return;
	FOR_EACH_OF (found, *targets)
		free(found->text);
	free(targets->list);
	map64_clear(&targets->ids);
	mounts_forget(&targets->mounts);
	address_names__clear(&targets->names);
	pipe_users__forget(&targets->pipe_users);
	free(targets);
}

/* One thread's wait. */
struct asked {
	struct wait_targets *targets;
	pid_t pid;
	const struct perfx_thread_state *state;
};

/* An argument of the thread's system call beyond those of its record; 0: it is unknown. */
static uint64_t late_argument(const struct asked *asked, unsigned index)
{
	unsigned long long arguments[6] = {0};
	char file[64], *text = NULL;
	int number;

	snprintf(file, sizeof(file), "task/%u/syscall", asked->state->tid);
	if (proc_read_pid(asked->pid, file, &text, 256) <= 0 ||
	    sscanf(text, "%d %llx %llx %llx %llx %llx %llx", &number, &arguments[0], &arguments[1],
		   &arguments[2], &arguments[3], &arguments[4], &arguments[5]) != 7 ||
	    number != asked->state->syscall)
		arguments[index] = 0;
	free(text);
	return arguments[index];
}

static uint64_t ns_of(const struct timespec *time)
{
	return time->tv_sec < 0 || time->tv_sec > INT32_MAX
		       ? 0
		       : (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* On CLOCK_MONOTONIC, of a time in the memory of the process: absolute on a clock, or from the
 * beginning of the wait on. 0: never, or unknown. */
static uint64_t deadline_at(const struct asked *asked, uint64_t address, clockid_t clock,
			    bool is_absolute)
{
	struct timespec time;
	uint64_t ns, base_ns;

	if (!address || process_read(asked->pid, address, &time, sizeof(time)))
		return 0;
	ns = ns_of(&time);
	if (!is_absolute)
		return ns && asked->state->since_ns ? asked->state->since_ns + ns : 0;
	base_ns = clock_ns(clock);
	return ns > base_ns ? clock_monotonic_ns() + (ns - base_ns) : 0;
}

/* From a time-out in ms, as poll and epoll_wait have it. */
static uint64_t deadline_after(const struct asked *asked, uint64_t timeout_ms)
{
	return (int32_t)timeout_ms > 0 && asked->state->since_ns
		       ? asked->state->since_ns + (timeout_ms & UINT32_MAX) * 1000000u
		       : 0;
}

/* "the end of a sleep of 10.0 s" */
static char *find_timer(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;
	const __u64 *arguments = state->arguments;
	bool is_absolute = state->syscall == SYS_clock_nanosleep && arguments[1] & TIMER_ABSTIME;
	clockid_t clock = is_absolute ? (clockid_t)arguments[0] : CLOCK_MONOTONIC;
	char *text = NULL;

	target->kind = PERFX_TARGET_TIMER;
	if (state->syscall == SYS_nanosleep || state->syscall == SYS_clock_nanosleep)
		target->deadline_ns =
			deadline_at(asked, arguments[state->syscall == SYS_nanosleep ? 0 : 2],
				    clock, is_absolute);
#ifdef SYS_poll
	if (state->syscall == SYS_poll)
		target->deadline_ns = deadline_after(asked, arguments[2]);
#endif
	if (target->deadline_ns <= state->since_ns ||
	    asprintf(&text, "the end of a sleep of %s",
		     as_ns(target->deadline_ns - state->since_ns)) < 0)
		return NULL;
	return text;
}

/* The state of a process in words; "": it runs or waits for something. */
static const char *state_words(char state)
{
	return state == 'Z'		      ? ", which has ended"
	       : state == 'T' || state == 't' ? ", which is stopped"
	       : state == 'D'		      ? ", which waits for a device"
					      : "";
}

/* Adds the children of a thread that have that number, or all of them if it is 0. */
static void find_children(pid_t pid, pid_t tid, pid_t own_id, pid_t *found, size_t *count)
{
	char file[64], *text = NULL, *end;
	pid_t child;

	snprintf(file, sizeof(file), "task/%d/children", (int)tid);
	if (proc_read_pid(pid, file, &text, 1u << 16) > 0)
		for (char *at = text; (child = (pid_t)strtol(at, &end, 10)) && end > at; at = end) {
			if (own_id && process_own_id(child) != own_id)
				continue;
			*found = child;
			++*count;
		}
	free(text);
}

/* The child that a wait is for, by the process's own numbers or, if that is 0, the only one. 0:
 * unknown, or any of several. */
static pid_t child_of(pid_t pid, pid_t own_id)
{
	pid_t *tids = NULL, found = 0;
	ssize_t tids_count = process_threads(pid, &tids);
	size_t count = 0;

	for (ssize_t i = 0; i < tids_count && count < 2; i++)
		find_children(pid, tids[i], own_id, &found, &count);
	free(tids);
	return count == 1 ? found : 0;
}

/* "child trainer (pid 4711), which is stopped" */
static char *find_child(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;
	pid_t wanted = (pid_t)state->arguments[0], child;
	struct process_info info;
	char *text;

	target->kind = PERFX_TARGET_CHILD;
	if (state->syscall == SYS_waitid)
		wanted = state->arguments[0] == P_PID ? (pid_t)state->arguments[1] : 0;
	else if (state->syscall != SYS_wait4)
		wanted = 0; /* vfork */
	child = child_of(asked->pid, wanted > 0 ? wanted : 0);
	if (!child || process_info(child, &info))
		return NULL;
	target->pid = (uint32_t)child;
	return asprintf(&text, "child %s (pid %d)%s", info.comm, (int)child,
			state_words(info.state)) < 0
		       ? NULL
		       : text;
}

/* The first words of glibc's pthread_mutex_t, the same on x86-64 and arm64 (struct
 * __pthread_mutex_s). */
struct mutex {
	uint32_t lock, count, owner, users, kind;
};
#define MUTEX_KINDS  0x1ffu /* bits of `kind` that mean something */
#define MUTEX_SHARED 0x80u  /* PTHREAD_MUTEX_PSHARED_BIT */
#define USERS_MAX    1000000u

/* glibc's pthread_rwlock_t up to `shared` (struct __pthread_rwlock_arch_t). */
struct rwlock {
	uint32_t readers, writers, phase_futex, writers_futex, pad[2], writer, shared;
};
#define READERS_SHIFT 3 /* of the number of readers in `readers` */
#define FUTEX_STATES  3 /* both futexes are smaller or equal */

/* glibc's lock of a FILE (_IO_lock_t); the owner is a struct pthread. */
struct stream_lock {
	uint32_t lock, count;
	uint64_t owner;
};
/* Offsets in glibc's struct pthread on x86-64: its own address, and its tid. */
#define PTHREAD_SELF 16
#define PTHREAD_TID  720

/* The thread, as the tracer sees ids, that has this id for the process; 0: it has none such. */
static uint32_t thread_of(pid_t pid, uint32_t own_id)
{
	pid_t tid = own_id ? process_thread_by_own_id(pid, (pid_t)own_id) : 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && !access(path, F_OK) ? (uint32_t)tid : 0;
}

/* The owner of a mutex that processes share: a thread of one that maps the same memory. */
static uint32_t shared_owner(const struct asked *asked, uint32_t own_id, uint32_t *pid)
{
	const struct mapping *at =
		address_mapping(&asked->targets->names, asked->pid, asked->state->object);
	pid_t other =
		process_own_id(asked->pid) == asked->pid ? process_of_thread((pid_t)own_id) : 0;
	uint64_t inode = at && at->shared ? at->inode : 0;
	struct maps *maps = other > 0 && inode ? maps__read(other) : NULL;
	bool maps_it = false;

	for (size_t i = 0; maps && i < maps__count(maps); i++)
		maps_it |= maps__at(maps, i)->inode == inode && maps__at(maps, i)->shared;
	maps__free(maps);
	if (maps_it)
		*pid = (uint32_t)other;
	return maps_it ? own_id : 0;
}

/* A plain word: 0 free, 1 locked, 2 locked and waited for. */
#define LOCK_CONTENDED 2u

/* What is known of a mutex by its memory, which may be something else. False: it is. */
static bool is_mutex(const struct asked *asked, uint32_t expected, struct perfx_wait_target *target,
		     const char **more)
{
	struct mutex mutex, again;
	uint32_t owner;

	if (process_read(asked->pid, asked->state->object, &mutex, sizeof(mutex)))
		return false;
	/* robust ones and those with priority inheritance have the owner in the word itself */
	owner = mutex.lock & FUTEX_TID_MASK;
	if (mutex.lock & FUTEX_WAITERS && owner != LOCK_CONTENDED)
		target->owner_tid = thread_of(asked->pid, owner);
	if (target->owner_tid)
		return true;
	if (expected != LOCK_CONTENDED || mutex.lock != LOCK_CONTENDED || mutex.owner < 2 ||
	    !mutex.users || mutex.users > USERS_MAX || mutex.kind & ~MUTEX_KINDS)
		return false;
	target->owner_tid = thread_of(asked->pid, mutex.owner);
	if (!target->owner_tid && mutex.kind & MUTEX_SHARED)
		target->owner_tid = shared_owner(asked, mutex.owner, &target->pid);
	if (target->owner_tid)
		return true;
	if (mutex.kind & MUTEX_SHARED) {
		*more = ", whose owner is no thread that could be found";
		return true;
	}
	*more = ", whose owner is no thread of this process: it has ended, or the process was "
		"forked while it held the mutex";
	/* unless it was unlocked meanwhile by a thread that has ended since */
	if (!process_read(asked->pid, asked->state->object, &again, sizeof(again)) &&
	    !memcmp(&mutex, &again, sizeof(mutex)))
		target->flags |= PERFX_TARGET_ORPHANED;
	return true;
}

/* `futex` is one of the two words that threads wait for. */
static bool is_rwlock(const struct asked *asked, uint32_t expected, size_t futex,
		      struct perfx_wait_target *target, char more[48])
{
	struct rwlock rwlock;
	uint32_t readers;

	if (process_read(asked->pid, asked->state->object - futex, &rwlock, sizeof(rwlock)))
		return false;
	readers = rwlock.readers >> READERS_SHIFT;
	if (expected < 2 || expected > FUTEX_STATES || rwlock.phase_futex > FUTEX_STATES ||
	    rwlock.writers_futex > FUTEX_STATES || readers > USERS_MAX || rwlock.shared > 1 ||
	    (rwlock.writers & ~0x80000000u) > USERS_MAX)
		return false;
	target->owner_tid = thread_of(asked->pid, rwlock.writer);
	if (!target->owner_tid && readers)
		snprintf(more, 48, ", held by %u reader%s", readers, readers == 1 ? "" : "s");
	return target->owner_tid || readers;
}

static bool is_stream_lock(const struct asked *asked, struct perfx_wait_target *target)
{
	struct stream_lock lock;
	uint64_t self;
	uint32_t tid;

	if (process_read(asked->pid, asked->state->object, &lock, sizeof(lock)) ||
	    lock.lock != LOCK_CONTENDED || !lock.count || lock.count > USERS_MAX ||
	    process_read(asked->pid, lock.owner + PTHREAD_SELF, &self, sizeof(self)) ||
	    self != lock.owner ||
	    process_read(asked->pid, lock.owner + PTHREAD_TID, &tid, sizeof(tid)))
		return false;
	target->owner_tid = thread_of(asked->pid, tid);
	return target->owner_tid;
}

/* "mutex at libfoo.so+0x4040", "rwlock at 0x55d0c8a012a0 (heap), held by 2 readers", "the end of
 * thread 4711", "lock at app+0x4040": which lock that is, the functions of the stack say. */
static char *find_lock(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;
	uint32_t op = (uint32_t)state->arguments[1], expected = (uint32_t)state->arguments[2];
	bool is_bitset = (op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
	bool is_plain = is_bitset || (op & FUTEX_CMD_MASK) == FUTEX_WAIT;
	const char *what = "lock", *more = "";
	char readers[48] = "", *where, *text = NULL;
	uint32_t joined;

	target->kind = PERFX_TARGET_LOCK;
	if (state->syscall != SYS_futex)
		return NULL;
	/* pthread_join waits for the kernel to clear the thread's id */
	joined = is_plain && !(op & FUTEX_PRIVATE_FLAG) ? thread_of(asked->pid, expected) : 0;
	target->deadline_ns =
		deadline_at(asked, late_argument(asked, 3),
			    op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC,
			    (op & FUTEX_CMD_MASK) != FUTEX_WAIT);
	if (joined && joined != state->tid) {
		target->kind = PERFX_TARGET_THREAD;
		target->owner_tid = joined;
		return asprintf(&text, "the end of thread %u", joined) < 0 ? NULL : text;
	}
	if (is_mutex(asked, expected, target, &more)) {
		target->kind = PERFX_TARGET_MUTEX;
		what = "mutex";
	} else if (is_bitset && (is_rwlock(asked, expected, offsetof(struct rwlock, phase_futex),
					   target, readers) ||
				 is_rwlock(asked, expected, offsetof(struct rwlock, writers_futex),
					   target, readers))) {
		target->kind = PERFX_TARGET_RWLOCK;
		what = "rwlock";
		more = readers;
	} else if (is_plain && is_stream_lock(asked, target)) {
		target->kind = PERFX_TARGET_MUTEX;
		what = "lock of a FILE";
	}
	if (target->owner_tid && !target->pid)
		target->pid = (uint32_t)asked->pid;
	where = address_name(&asked->targets->names, asked->pid, state->object);
	if (where && asprintf(&text, "%s at %s%s", what, where, more) < 0)
		text = NULL;
	free(where);
	return text;
}

/* Is a file on this mount: by its device or, where only its path is known, by that? */
static bool is_mounted_on(const struct perfx_thread_state *state, const char *path,
			  const struct mount *mount)
{
	size_t length = strlen(mount->point);

	if (state->fd >= 0)
		return mount_is_of(mount, state->device);
	return !strncmp(path, mount->point, length) &&
	       (path[length] == '/' || !path[length] || length == 1);
}

/* "nfs:/data/x": with the type of its file system. Asks no server. path: malloc'd, replaced. */
static char *file_text(const struct asked *asked, char *path)
{
	struct wait_targets *targets = asked->targets;
	char type[64] = "", *text;
	struct mount mount;
	size_t longest = 0;
	const char *at;

	if (!path)
		return NULL;
	at = mounts_of(&targets->mounts, asked->pid);
	while (mount_read(&at, &mount))
		if (is_mounted_on(asked->state, path, &mount) && strlen(mount.point) >= longest) {
			longest = strlen(mount.point);
			memcpy(type, mount.type, sizeof(type));
		}
	if (!*type || asprintf(&text, "%s:%s", type, path) < 0)
		return path;
	free(path);
	return text;
}

static enum perfx_target_kind kind_of_device(const char *name)
{
	return begins_with(name, "/dev/pts/") || begins_with(name, "/dev/tty") ||
			       begins_with(name, "/dev/console")
		       ? PERFX_TARGET_TERMINAL
	       : begins_with(name, "/dev/nvidia") || begins_with(name, "/dev/kfd") ||
			       begins_with(name, "/dev/dri/")
		       ? PERFX_TARGET_GPU
		       : PERFX_TARGET_FILE;
}

static bool is_for_file_lock(const struct perfx_thread_state *state)
{
	return state->syscall == SYS_flock || state->syscall == SYS_fcntl;
}

/* What a thread waits for that may be one of several. */
struct members {
	const struct asked *asked;
	struct text text;
	size_t count;
	uint32_t pid;	 /* the one process that can end the wait by a descriptor; 0: none so far */
	bool is_unknown; /* several can, or who is not known */
};
#define MEMBERS_NAMED 4 /* the rest is counted */
#define MEMBERS_MAX   64

static void add_member(struct members *members, int fd)
{
	static const char *const own[] = {"eventfd", "timerfd", "signalfd", NULL};
	struct descriptor descriptor;
	struct descriptor_facts facts;
	char *name;

	members->count++;
	if (members->count > MEMBERS_NAMED ||
	    !descriptor_open(&descriptor, members->asked->pid, fd)) {
		members->is_unknown = true;
		return;
	}
	name = descriptor_name(&descriptor, &members->asked->targets->pipe_users, &facts);
	if (!name)
		return;
	text_printf(&members->text, "%s%s", members->count > 1 ? ", " : "", name);
	if (facts.other && facts.other != members->asked->pid &&
	    (!members->pid || members->pid == (uint32_t)facts.other))
		members->pid = (uint32_t)facts.other;
	else if (facts.other != members->asked->pid && !text_begins_with_one_of(name, own))
		members->is_unknown = true;
	free(name);
}

static char *members_text(struct members *members, struct perfx_wait_target *target)
{
	if (members->count > MEMBERS_NAMED)
		text_printf(&members->text, " and %zu more", members->count - MEMBERS_NAMED);
	target->pid = members->is_unknown ? 0 : members->pid;
	return members->count ? text_take(&members->text) : NULL;
}

/* An epoll, by the lines of its fdinfo: "tfd:        5 events: …". */
static char *find_epoll(const struct asked *asked, struct perfx_wait_target *target)
{
	struct members members = {.asked = asked};
	char file[64], *text = NULL, *rest = NULL;
	int fd;

	target->deadline_ns = deadline_after(asked, late_argument(asked, 3));
	snprintf(file, sizeof(file), "fdinfo/%d", asked->state->fd);
	if (proc_read_pid(asked->pid, file, &text, 1u << 16) > 0)
		for (char *line = strtok_r(text, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest))
			if (sscanf(line, "tfd: %d", &fd) == 1)
				add_member(&members, fd);
	free(text);
	return members_text(&members, target);
}

/* poll and select of several descriptors. */
static char *find_polled(const struct asked *asked, struct perfx_wait_target *target)
{
	const __u64 *arguments = asked->state->arguments;
	struct members members = {.asked = asked};
	struct pollfd polled[MEMBERS_MAX];
	uint64_t count = arguments[1];
	fd_set set;

	target->kind = PERFX_TARGET_EVENTS;
	if (asked->state->syscall == SYS_pselect6
#ifdef SYS_select
	    || asked->state->syscall == SYS_select
#endif
	) {
		count = min_u64(arguments[0], FD_SETSIZE);
		if (process_read(asked->pid, arguments[1], &set, (count + 7) / 8))
			return NULL;
		for (uint64_t fd = 0; fd < count; fd++)
			if (FD_ISSET((int)fd, &set))
				add_member(&members, (int)fd);
		return members_text(&members, target);
	}
#ifdef SYS_poll
	if (asked->state->syscall == SYS_poll)
		target->deadline_ns = deadline_after(asked, arguments[2]);
#endif
	members.is_unknown = count > MEMBERS_MAX;
	count = min_u64(count, MEMBERS_MAX);
	if (!count || process_read(asked->pid, arguments[0], polled, count * sizeof(*polled)))
		return NULL;
	for (uint64_t i = 0; i < count; i++)
		if (polled[i].fd >= 0)
			add_member(&members, polled[i].fd);
	return members_text(&members, target);
}

/* "timerfd (descriptor 7) every 1.00 s", by the lines of its fdinfo: "it_value: (0, 49406829)". */
static char *timer_text(const struct asked *asked, struct perfx_wait_target *target, char *name)
{
	char file[64], *info = NULL, *text = NULL;
	const char *value, *interval;
	struct timespec left = {0}, every = {0};

	target->kind = PERFX_TARGET_TIMER;
	snprintf(file, sizeof(file), "fdinfo/%d", asked->state->fd);
	if (proc_read_pid(asked->pid, file, &info, 1024) <= 0)
		return name;
	value = strstr(info, "it_value: (");
	interval = strstr(info, "it_interval: (");
	if (value && sscanf(value, "it_value: (%ld, %ld)", &left.tv_sec, &left.tv_nsec) == 2 &&
	    ns_of(&left))
		target->deadline_ns = clock_monotonic_ns() + ns_of(&left);
	if (interval &&
	    sscanf(interval, "it_interval: (%ld, %ld)", &every.tv_sec, &every.tv_nsec) == 2 &&
	    ns_of(&every) && asprintf(&text, "%s every %s", name, as_ns(ns_of(&every))) < 0)
		text = NULL;
	free(info);
	if (!text)
		return name;
	free(name);
	return text;
}

static char *find_descriptor(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;
	struct descriptor_facts facts;
	mode_t mode = (mode_t)state->mode;
	char *name =
		descriptor_name(&(struct descriptor){.pid = asked->pid,
						     .fd = state->fd,
						     .inode = state->inode,
						     .device = state->device,
						     .mode = mode,
						     .reads = state->reason != PERFX_WAIT_WRITE,
						     .locks = is_for_file_lock(state)},
				&asked->targets->pipe_users, &facts);
	char *members;

	if (!name)
		return NULL;
	target->pid = facts.other == asked->pid ? 0 : (uint32_t)facts.other;
	target->kind = is_for_file_lock(state) ? PERFX_TARGET_FILE_LOCK
		       : S_ISFIFO(mode)	       ? PERFX_TARGET_PIPE
		       : S_ISSOCK(mode)	       ? PERFX_TARGET_SOCKET
		       : S_ISCHR(mode)	       ? kind_of_device(name)
		       : mode & S_IFMT	       ? PERFX_TARGET_FILE
					       : PERFX_TARGET_EVENTS;
#ifdef SYS_poll
	if (state->syscall == SYS_poll)
		target->deadline_ns = deadline_after(asked, state->arguments[2]);
#endif
	if (target->kind == PERFX_TARGET_FILE)
		return file_text(asked, name);
	if (begins_with(name, "timerfd"))
		return timer_text(asked, target, name);
	members = begins_with(name, "epoll") ? find_epoll(asked, target) : NULL;
	if (members) {
		char *text = NULL;

		if (asprintf(&text, "%s: %s", name, members) >= 0) {
			free(name);
			name = text;
		}
		free(members);
	}
	return name;
}

/* The function of a file system in which the kernel waits, for waits without a descriptor, such as
 * page faults and open: "nfs_wait_bit_killable (kernel)". */
static char *kernel_place(const struct asked *asked)
{
	static const char *const systems[] = {"nfs",	"rpc_",	  "fuse", "ext4", "xfs", "btrfs",
					      "f2fs",	"cifs",	  "smb2", "ceph", "ll_", "gpfs",
					      "lustre", "9p",	  "v9fs", "jbd2", "zfs", "ovl_",
					      "blk_",	"nvidia", NULL};
	char file[64], function[128], *text = NULL, *rest = NULL, *found = NULL;

	snprintf(file, sizeof(file), "task/%u/stack", asked->state->tid);
	if (proc_read_pid(asked->pid, file, &text, 1u << 14) > 0)
		for (char *line = strtok_r(text, "\n", &rest); line && !found;
		     line = strtok_r(NULL, "\n", &rest))
			if (sscanf(line, "[<%*[^>]>] %127[^+]", function) == 1 &&
			    text_begins_with_one_of(function, systems) &&
			    asprintf(&found, "%s (kernel)", function) < 0)
				found = NULL;
	free(text);
	return found;
}

/* The path that a system call is about, from the memory of the process. NULL: it has none. */
static char *find_path(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;
	const uint64_t page = 4096;
	char path[4096];
	size_t length = 0;
	uint64_t at;

	switch (state->syscall) {
	case SYS_openat:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_unlinkat:
	case SYS_mkdirat:
		at = state->arguments[1];
		break;
#ifdef SYS_open
	case SYS_open:
	case SYS_stat:
	case SYS_lstat:
	case SYS_access:
#endif
	case SYS_statfs:
	case SYS_execve:
		at = state->arguments[0];
		break;
	default:
		return NULL;
	}
	/* up to the end of each page: the next one need not be mapped */
	for (size_t part; length < sizeof(path); length += part, at += part) {
		part = page - at % page;
		if (part > sizeof(path) - length)
			part = sizeof(path) - length;
		if (process_read(asked->pid, at, path + length, part))
			return NULL;
		if (!memchr(path + length, '\0', part))
			continue;
		target->kind = PERFX_TARGET_FILE;
		return *path ? file_text(asked, strdup(path)) : NULL;
	}
	return NULL;
}

/* "gdb (pid 4711)" */
static char *find_tracer(const struct asked *asked, struct perfx_wait_target *target)
{
	struct process_info info;
	char *text;

	if (!asked->state->tracer_pid)
		return NULL;
	target->kind = PERFX_TARGET_TRACER;
	target->pid = asked->state->tracer_pid;
	if (process_info((pid_t)target->pid, &info) ||
	    asprintf(&text, "%s (pid %u)", info.comm, target->pid) < 0)
		return NULL;
	return text;
}

static char *find_target(const struct asked *asked, struct perfx_wait_target *target)
{
	const struct perfx_thread_state *state = asked->state;

	switch (state->reason) {
	case PERFX_WAIT_NONE:
	case PERFX_WAIT_RUNNABLE:
		return NULL;
	case PERFX_WAIT_STOPPED:
		return find_tracer(asked, target);
	case PERFX_WAIT_GIL:
		target->kind = PERFX_TARGET_GIL;
		target->owner_tid = state->holder_tid;
		target->pid = state->holder_tid ? (uint32_t)asked->pid : 0;
		return strdup("the GIL");
	case PERFX_WAIT_FUTEX:
		return find_lock(asked, target);
	case PERFX_WAIT_SLEEP:
		return find_timer(asked, target);
	case PERFX_WAIT_WAIT:
		return find_child(asked, target);
	default:
		break;
	}
	if (state->fd >= 0)
		return find_descriptor(asked, target);
	if (state->reason == PERFX_WAIT_POLL)
		return find_polled(asked, target);
#ifdef SYS_vfork
	if (state->syscall == SYS_vfork)
		return find_child(asked, target);
#endif
	if (state->syscall == SYS_clone || state->syscall == SYS_clone3)
		return find_child(asked, target);
	return find_path(asked, target) ?: kernel_place(asked);
}

/* Threads that wait for one object wait for one target; what the times and the memory of their own
 * say is not shared. */
static bool is_shared(const struct perfx_thread_state *state)
{
	return state->object && state->reason != PERFX_WAIT_GIL &&
	       state->reason != PERFX_WAIT_FUTEX && state->reason != PERFX_WAIT_POLL;
}

char *wait_targets__find(struct wait_targets *targets, pid_t pid,
			 const struct perfx_thread_state *state, struct perfx_wait_target *target)
{
	struct asked asked = {targets, pid, state};
	uint64_t key =
		MAP64_PAIR(state->process, state->reason) * 0x9e3779b97f4a7c15u ^ state->object;
	const struct found_target *known = is_shared(state) ? MAP64_FIND_OF(targets, key) : NULL;
	struct found_target *found;
	char *text;

	if (known) {
		target->kind = (uint8_t)known->kind;
		target->pid = known->pid;
		target->owner_tid = known->owner_tid;
		target->deadline_ns = known->deadline_ns;
		return known->text ? strdup(known->text) : NULL;
	}
	text = find_target(&asked, target);
	found = is_shared(state) ? MAP64_ITEM_OF(targets, key) : NULL;
	if (found)
		*found = (struct found_target){target->kind, target->pid, target->owner_tid,
					       target->deadline_ns, text ? strdup(text) : NULL};
	return text;
}
