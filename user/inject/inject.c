// SPDX-License-Identifier: BSD-2-Clause
/*
 * The order of an injection:
 *
 *   inspect (target.c) → a thread (hold.c) → is its stack free (stack.c) → seccomp, loader's locks
 * → a way back on its stack (stub.c) → memfd_create, socketpair, mmap, mprotect in its place → the
 * image and the stub into the memory file → it goes on in the stub, untraced → the stub says how
 * dlopen ended
 *
 * Each thread is tried by a thread of ours that lives just for that: its end lets the other one go
 * without stopping it.
 */
#include "inject/inject.h"

#include "base/clock.h"
#include "base/order.h"
#include "base/thread.h"
#include "inject/internal.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

#define THREAD_NS     1000000000ull /* for an entry of one thread */
#define BUSY_THREADS  4		    /* of which an entry is waited for */
#define SLEEP_THREADS 64	    /* that are stopped where they sleep */
#define HITS_MAX      100	    /* at busy moments */
#define ROW_HITS      5
#define REST_NS	      200000ull /* after a row of busy moments; doubles */
#define REST_MAX_NS   20000000ull
#define DLOPEN_NS     1000000000ull /* beyond the deadline */
#define ALONE_NS      200000000ull  /* from a hang-up to giving up */
#define PAGE_BYTES    4096u

#define RESTART_SYS    512 /* the kernel's include/linux/errno.h: user space never sees them */
#define RESTART_NOINTR 513
#define RESTART_NOHAND 514
#define RESTART_BLOCK  516
#define SYSCALL_BYTES  2

#define REPLACED "the process has replaced the library's memory file"

enum wait_kind { AT_ENTRY, ASLEEP };

struct injection {
	const struct inject_request *request;
	struct inject_result *result;
	struct target target;
	struct hold hold;
	struct thread_state state;
	struct user_regs_struct again; /* with which an interrupted call begins anew */
	bool restarts;		       /* goes on by restart_syscall */
	struct way_back back;
	struct user_regs_struct back_regs;
	int64_t memfd_there, pair_there[2]; /* descriptors of the process; -1 */
	uint64_t mapping;		    /* address there; 0 */
	int memfd, pidfd;
	char busy[STACK_WHY_BYTES]; /* why the last moment was none */
	/* The task of our thread, and its result. */
	pid_t tid;
	enum wait_kind kind;
	int err;
};

__attribute__((format(printf, 3, 4))) static int say(struct injection *in, int err,
						     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(in->result->why, sizeof(in->result->why), format, args);
	va_end(args);
	return err;
}

/* The memory file has the library's image, then, on pages of its own, the stub's code and data. */
static size_t stub_at(const struct injection *in)
{
	return (in->request->image_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

static off_t data_at(const struct injection *in)
{
	return (off_t)(stub_at(in) + STUB_CODE_BYTES);
}

/*
 * The kernel starts an interrupted call again as it lets the thread go, by orig_rax: with other
 * registers it would do so for the wrong one. So the registers say it themselves: back by the
 * instruction, the call's number in rax. What sleeps for a time goes on by restart_syscall, which
 * knows the end. epoll_wait gives EINTR where others start again, and is given its call back.
 */
static void decide_restart(struct injection *in)
{
	struct user_regs_struct *regs = &in->state.regs;
	int64_t result = (int64_t)regs->rax;
	uint64_t nr = regs->orig_rax;
	bool again;

	in->restarts = (int64_t)nr >= 0 && result == -RESTART_BLOCK;
	again = (int64_t)nr >= 0 &&
		(result == -RESTART_SYS || result == -RESTART_NOINTR || result == -RESTART_NOHAND ||
		 (result == -EINTR &&
		  (nr == SYS_epoll_wait || nr == SYS_epoll_pwait || nr == SYS_semop)));
	regs->orig_rax = UINT64_MAX;
	in->again = *regs;
	if (!again && !in->restarts)
		return;
	regs->rip -= SYSCALL_BYTES;
	regs->rax = in->restarts ? SYS_restart_syscall : nr;
	in->again = *regs;
	in->again.rax = nr;
}

static int64_t call(struct injection *in, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		    uint64_t e, uint64_t f)
{
	uint64_t args[6] = {a, b, c, d, e, f};
	int64_t result;
	int err = hold__call(&in->hold, &in->back_regs, nr, args, &result);

	return err ? err : result;
}

static int lay_way_back(struct injection *in)
{
	static __thread uint8_t bytes[FRAME_BYTES_MAX];
	const struct mapping *stack = maps__find(in->target.maps, in->state.regs.rsp);
	struct thread_state *state = &in->state;
	struct user_regs_struct goes_on = state->regs;
	int err;

	state->regs = in->again;
	err = way_back_make(&in->back, bytes, state, in->target.sigreturn);
	state->regs = goes_on;
	if (err)
		return say(in, err, "its vector state is larger than is known");
	if (!stack || in->back.start < stack->start)
		return -EAGAIN;
	if (hold__write(&in->hold, in->back.start, bytes, in->back.size))
		return -EAGAIN;
	in->back_regs = in->again;
	in->back_regs.rsp = in->back.sp;
	return 0;
}

static int make_descriptors(struct injection *in)
{
	const uint64_t flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int32_t pair[2];
	int64_t done;

	in->memfd_there = call(in, SYS_memfd_create, in->back.name, flags | MFD_EXEC, 0, 0, 0, 0);
	if (in->memfd_there == -EINVAL) /* before Linux 6.3 */
		in->memfd_there = call(in, SYS_memfd_create, in->back.name, flags, 0, 0, 0, 0);
	if (in->memfd_there == -EACCES)
		return say(in, -EPERM, "vm.memfd_noexec allows it no code in a memory file");
	if (in->memfd_there < 0)
		return say(in, (int)in->memfd_there, "memfd_create failed there: %s",
			   strerror((int)-in->memfd_there));
	done = call(in, SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, in->back.pair, 0,
		    0);
	if (!done && hold__read(&in->hold, in->back.pair, pair, sizeof(pair)))
		done = -EFAULT;
	if (done < 0)
		return say(in, (int)done, "socketpair failed there: %s", strerror((int)-done));
	in->pair_there[0] = pair[0];
	in->pair_there[1] = pair[1];
	return 0;
}

static int copy_descriptor(struct injection *in, int64_t there)
{
	int fd = (int)syscall(SYS_pidfd_getfd, in->pidfd, (int)there, 0);

	return fd < 0 ? say(in, -errno, "pidfd_getfd: %s", strerror(errno)) : fd;
}

/*
 * The process can change the memory file at any time. Seals keep its size: in a shorter file the
 * pages of the running library and stub would be gone. If the process has put another file in its
 * place, that file has seals already or accepts none.
 */
static int seal_memfd(struct injection *in)
{
	off_t bytes = (off_t)(stub_at(in) + STUB_BYTES);

	if (fcntl(in->memfd, F_GET_SEALS) || fcntl(in->memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return say(in, -EPERM, REPLACED);
	if (ftruncate(in->memfd, bytes) || fcntl(in->memfd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL))
		return say(in, -errno, "no memory for the library: %s", strerror(errno));
	return 0;
}

/* The image, with the number of the library's end of the socket in it. */
static int write_image(struct injection *in)
{
	const struct inject_request *request = in->request;
	int32_t fd = (int32_t)in->pair_there[1];
	const char *bytes = request->image;

	for (size_t at = 0; at < request->image_bytes;) {
		ssize_t done = pwrite(in->memfd, bytes + at, request->image_bytes - at, (off_t)at);

		if (done <= 0)
			return say(in, -EIO, "no memory for the library: %s", strerror(errno));
		at += (size_t)done;
	}
	if (pwrite(in->memfd, &fd, sizeof(fd), (off_t)request->fd_offset) != sizeof(fd))
		return say(in, -EIO, "no memory for the library: %s", strerror(errno));
	return 0;
}

/*
 * The loader knows files by the name they were asked for by, so each library needs one that no
 * other had: the same descriptor may have been used before. Slashes tell, and are none to the
 * kernel.
 */
static void name_memfd(char path[STUB_PATH_BYTES], int64_t fd)
{
	uint64_t nonce = clock_monotonic_ns() >> 10;
	size_t length = (size_t)snprintf(path, STUB_PATH_BYTES, "/proc/self/fd/");

	for (int bit = 0; bit < 24; bit++)
		length += (size_t)snprintf(path + length, STUB_PATH_BYTES - length, "%s",
					   nonce >> bit & 1 ? "./" : "/");
	snprintf(path + length, STUB_PATH_BYTES - length, "%lld", (long long)fd);
}

static int write_stub(struct injection *in)
{
	const struct user_regs_struct *regs = &in->state.regs;
	struct stub_data data = {
		.mapping_bytes = STUB_BYTES,
		.dlopen = in->target.dlopen,
		.dlopen_flags = in->target.dlopen_flags,
		.dlerror = in->target.dlerror,
		.errno_location = in->target.errno_location,
		.back_sp = in->back.sp,
		.syscall_return = in->target.syscall_return,
		.restarts = in->restarts,
		.rip = regs->rip,
		.rsp = regs->rsp,
		.mask = in->state.mask,
		.rdi = regs->rdi,
		.rsi = regs->rsi,
		.rdx = regs->rdx,
		.r8 = regs->r8,
		.r9 = regs->r9,
		.r10 = regs->r10,
		.memfd = (uint64_t)in->memfd_there,
		.peer_fd = (uint64_t)in->pair_there[0],
		.own_fd = (uint64_t)in->pair_there[1],
	};
	size_t size;
	const void *code = stub_code(&size);

	name_memfd(data.path, in->memfd_there);
	if (pwrite(in->memfd, code, size, (off_t)stub_at(in)) != (ssize_t)size ||
	    pwrite(in->memfd, &data, sizeof(data), data_at(in)) != sizeof(data))
		return say(in, -EIO, "no memory for the stub: %s", strerror(errno));
	return 0;
}

static int map_stub(struct injection *in)
{
	uint8_t there[STUB_CODE_BYTES];
	size_t size;
	const void *code = stub_code(&size);
	int64_t at = call(in, SYS_mmap, 0, STUB_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED,
			  (uint64_t)in->memfd_there, stub_at(in));

	if (at < 0 && at > -4096)
		return say(in, (int)at, "its kernel allows it no code in a memory file: %s",
			   strerror((int)-at));
	in->mapping = (uint64_t)at;
	/* the process can put another file in place of ours: its code must not run */
	if (hold__read(&in->hold, in->mapping, there, size) || memcmp(there, code, size) != 0)
		return say(in, -EPERM, REPLACED);
	at = call(in, SYS_mprotect, in->mapping + STUB_CODE_BYTES, STUB_BYTES - STUB_CODE_BYTES,
		  PROT_READ | PROT_WRITE, 0, 0, 0);
	return at < 0 ? say(in, (int)at, "mprotect failed there: %s", strerror((int)-at)) : 0;
}

static int prepare(struct injection *in)
{
	int err = make_descriptors(in);

	if (err)
		return err;
	in->memfd = copy_descriptor(in, in->memfd_there);
	if (in->memfd < 0)
		return in->memfd;
	in->result->socket_fd = copy_descriptor(in, in->pair_there[0]);
	if (in->result->socket_fd < 0)
		return in->result->socket_fd;
	err = seal_memfd(in) ?: write_image(in) ?: write_stub(in);
	return err ? err : map_stub(in);
}

/* Removes what was made in the process; the thread goes on as it was. */
static void undo(struct injection *in)
{
	if (!in->hold.seized || !in->back.sp)
		return;
	if (in->mapping)
		call(in, SYS_munmap, in->mapping, STUB_BYTES, 0, 0, 0, 0);
	if (in->memfd_there >= 0)
		call(in, SYS_close, (uint64_t)in->memfd_there, 0, 0, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		if (in->pair_there[i] >= 0)
			call(in, SYS_close, (uint64_t)in->pair_there[i], 0, 0, 0, 0, 0);
	/* in this order: until the registers are its own, the way back restores the mask */
	hold__set_mask(&in->hold, in->state.mask);
	hold__set_regs(&in->hold, &in->state.regs);
}

/* -EAGAIN: not now. */
static int check_moment(struct injection *in, const char **where)
{
	struct stack_place place = {.pc = in->state.regs.rip,
				    .sp = in->state.regs.rsp,
				    .fp = in->state.regs.rbp,
				    .tls = in->state.regs.fs_base,
				    .asleep = in->kind == ASLEEP};
	char forbidden[STACK_WHY_BYTES];
	const char *why;

	if (in->state.regs.cs != 0x33)
		return say(in, -ENOTSUP, "it runs 32-bit code");
	if (stack_check(&in->target, &place, where, in->busy))
		return -EAGAIN;
	if (in->target.has_seccomp) {
		why = seccomp_forbids(in->hold.tid, forbidden, sizeof(forbidden));
		if (why)
			return say(in, -ENOTSUP, "%s", why);
	}
	if (target_is_loading(&in->target)) {
		snprintf(in->busy, sizeof(in->busy), "loading a library in another thread");
		return -EAGAIN;
	}
	return 0;
}

/* The thread is stopped. 0: the stub is entered when it goes on; -EAGAIN: not now. In any case it
 * is to go on. */
static int try_moment(struct injection *in, const char **where)
{
	struct user_regs_struct stub;
	int err = hold__state(&in->hold, &in->state);

	if (err)
		return err;
	decide_restart(in);
	/* with EINTR taken back from epoll_wait, before anything else can go wrong */
	if (in->kind == ASLEEP)
		hold__set_regs(&in->hold, &in->state.regs);
	err = check_moment(in, where) ?: lay_way_back(in);
	if (err)
		return err;
	err = prepare(in);
	if (!err) {
		stub = in->state.regs;
		stub.rip = in->mapping;
		stub.orig_rax = UINT64_MAX;
		err = hold__set_regs(&in->hold, &stub);
	}
	if (err)
		undo(in);
	return err;
}

static void note_where(struct injection *in, const char *how, const char *where)
{
	in->result->tid = in->hold.tid;
	snprintf(in->result->where, sizeof(in->result->where), "%s %s", how, where);
}

static int try_entries(struct injection *in, uint64_t until_ns)
{
	uint64_t rest_ns = REST_NS;

	for (int hits = 0; hits < HITS_MAX; hits++) {
		const struct target_range *entry;
		const char *ignored;
		int err = hold__wait_entry(&in->hold, until_ns, &entry);

		if (err)
			return err;
		err = try_moment(in, &ignored);
		if (!err)
			note_where(in, "at the entry of", entry->name);
		if (err != -EAGAIN)
			return err;
		/* some hits in a row, for what comes after a long wait is always the same call */
		if (hits % ROW_HITS != ROW_HITS - 1) {
			hold__continue(&in->hold);
			continue;
		}
		err = hold__rest(&in->hold, clock_monotonic_ns() + rest_ns);
		if (err)
			return err;
		rest_ns = rest_ns * 2 < REST_MAX_NS ? rest_ns * 2 : REST_MAX_NS;
	}
	return -EAGAIN;
}

static int try_asleep(struct injection *in, uint64_t until_ns)
{
	const char *where = NULL;
	int err = hold__wait_asleep(&in->hold, until_ns);

	if (err == -EBUSY)
		return say(in, err, "it is stopped: continue it first");
	if (err)
		return err;
	err = try_moment(in, &where);
	if (!err)
		note_where(in, "asleep in", where ? where : "a system call");
	return err;
}

static void *try_thread(void *arg)
{
	struct injection *in = arg;
	uint64_t until_ns = clock_monotonic_ns() + THREAD_NS;

	if (until_ns > in->request->deadline_ns)
		until_ns = in->request->deadline_ns;
	/* Our thread must not wait for a processor while it holds another's. A real-time priority
	 * makes it worse: measured, 9 ms in place of 0.5 where all processors are busy. */
	prctl(PR_SET_TIMERSLACK, 1);
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -20);
	in->err = hold__seize(&in->hold, &in->target, in->tid);
	if (in->err) {
		in->err = in->err == -ESRCH
				  ? -EAGAIN
				  : target_refused(in->request->pid, -in->err, in->result->why);
		return NULL;
	}
	if (in->kind == AT_ENTRY) {
		in->err = hold__break(&in->hold);
		if (in->err)
			snprintf(in->busy, sizeof(in->busy), "without hardware breakpoints: %s",
				 strerror(-in->err));
		else
			in->err = try_entries(in, until_ns);
		hold__close(&in->hold);
	} else {
		in->err = try_asleep(in, until_ns);
	}
	if (in->hold.stopped)
		hold__detach(&in->hold);
	return NULL;
}

/* 0: the stub is entered; -EAGAIN: not by this thread; else it is hopeless. */
static int run_thread(struct injection *in, pid_t tid, enum wait_kind kind)
{
	pthread_t thread;
	int err;

	in->tid = tid;
	in->kind = kind;
	err = thread_start(&thread, try_thread, in);
	if (err)
		return say(in, err, "no thread: %s", strerror(-err));
	pthread_join(thread, NULL);
	in->result->held_ns += in->hold.held_ns;
	if (*in->result->why)
		return in->err;
	return in->err ? -EAGAIN : 0;
}

struct candidate {
	pid_t tid;
	uint64_t on_cpu_ns; /* lately */
	char state;
};

ORDER(by_cpu, struct candidate, DESCENDING(a->on_cpu_ns, b->on_cpu_ns), ASCENDING(a->tid, b->tid))

/* The busiest first. The count, *out to be freed; -errno. */
static ssize_t find_candidates(pid_t pid, struct candidate **out)
{
	pid_t *tids;
	ssize_t count = process_threads(pid, &tids), kept = 0;
	struct candidate *list = count > 0 ? calloc((size_t)count, sizeof(*list)) : NULL;
	struct thread_usage usage;

	*out = list;
	if (!list) {
		free(count > 0 ? tids : NULL);
		return count > 0 ? -ENOMEM : -ESRCH;
	}
	for (ssize_t i = 0; i < count; i++)
		if (!thread_usage(pid, tids[i], &usage))
			list[kept++] = (struct candidate){tids[i], usage.on_cpu_ns, usage.state};
	usleep(10000);
	for (ssize_t i = 0; i < kept; i++)
		if (!thread_usage(pid, list[i].tid, &usage))
			list[i].on_cpu_ns = usage.on_cpu_ns - list[i].on_cpu_ns;
	free(tids);
	qsort(list, (size_t)kept, sizeof(*list), by_cpu);
	return kept;
}

/* How well a thread can be stopped where it waits. */
enum sleep_kind {
	SLEEP_NOT,   /* it does not wait, or the interruption would show */
	SLEEP_PLAIN, /* the call simply begins again */
	/* The kernel alone knows when it ends: restart_syscall leads back to it, and if we die the
	 * wait begins its time anew. The last resort. */
	SLEEP_TIMED,
};

static enum sleep_kind kind_of_sleep(long nr, const unsigned long long args[6])
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		/* with a time-out it would begin its time anew in any case */
		return (int)args[3] < 0 ? SLEEP_PLAIN : SLEEP_NOT;
	case SYS_poll:
		return (int)args[2] < 0 ? SLEEP_PLAIN : SLEEP_TIMED;
	case SYS_futex:
		return args[3] ? SLEEP_TIMED : SLEEP_PLAIN;
	case SYS_clock_nanosleep:
		return args[1] & 1 /* TIMER_ABSTIME */ ? SLEEP_PLAIN : SLEEP_TIMED;
	case SYS_nanosleep:
	case SYS_restart_syscall:
		return SLEEP_TIMED;
	case SYS_ppoll: /* these keep their remaining time themselves */
	case SYS_select:
	case SYS_pselect6:
	case SYS_pause:
	case SYS_read:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_rt_sigsuspend:
		return SLEEP_PLAIN;
	}
	return SLEEP_NOT;
}

static enum sleep_kind sleep_of(pid_t pid, pid_t tid)
{
	unsigned long long args[6];
	char name[64], *text = NULL;
	long nr = -1;
	bool waits;

	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	waits = proc_read_pid(pid, name, &text, 0) > 0 &&
		sscanf(text, "%ld %llx %llx %llx %llx %llx %llx", &nr, &args[0], &args[1], &args[2],
		       &args[3], &args[4], &args[5]) == 7;
	free(text);
	return waits ? kind_of_sleep(nr, args) : SLEEP_NOT;
}

static int try_busy(struct injection *in, const struct candidate *list, size_t count)
{
	int err = -EAGAIN;

	for (size_t i = 0; i < count && i < BUSY_THREADS && err == -EAGAIN; i++) {
		if (clock_monotonic_ns() >= in->request->deadline_ns)
			break;
		/* beside the first, only threads that did something */
		if (i && !list[i].on_cpu_ns)
			break;
		err = run_thread(in, list[i].tid, AT_ENTRY);
	}
	return err;
}

static int try_sleepers(struct injection *in, const struct candidate *list, size_t count,
			enum sleep_kind kind)
{
	int err = -EAGAIN;
	size_t tried = 0;

	for (size_t i = 0; i < count && tried < SLEEP_THREADS && err == -EAGAIN; i++) {
		if (clock_monotonic_ns() >= in->request->deadline_ns)
			break;
		if (sleep_of(in->request->pid, list[i].tid) != kind)
			continue;
		tried++;
		err = run_thread(in, list[i].tid, ASLEEP);
	}
	return err;
}

static int try_all(struct injection *in)
{
	struct candidate *list;
	ssize_t count = find_candidates(in->request->pid, &list);
	int err;

	if (count <= 0 || process_has_ended(in->request->pid)) {
		free(list);
		return say(in, -ESRCH, "it has ended");
	}
	err = try_busy(in, list, (size_t)count);
	if (err == -EAGAIN)
		err = try_sleepers(in, list, (size_t)count, SLEEP_PLAIN);
	if (err == -EAGAIN)
		err = try_sleepers(in, list, (size_t)count, SLEEP_TIMED);
	free(list);
	return err;
}

/* Round after round until the deadline. Each looks anew: threads come with stacks of their own, and
 * libraries. */
static int find_moment(struct injection *in)
{
	for (;;) {
		int err = try_all(in);

		if (err != -EAGAIN)
			return err;
		if (clock_monotonic_ns() >= in->request->deadline_ns)
			break;
		target_clear(&in->target);
		err = target_inspect(&in->target, in->request, in->result->why);
		if (err)
			return err;
	}
	return say(in, -ETIMEDOUT, "no thread came to a safe moment%s%s%s",
		   *in->busy ? " (the last was " : "", in->busy, *in->busy ? ")" : "");
}

static int read_outcome(struct injection *in)
{
	struct stub_data data;
	uint64_t dlopen_ns;

	if (pread(in->memfd, &data, sizeof(data), data_at(in)) != sizeof(data))
		return say(in, -EIO, "its memory file cannot be read");
	dlopen_ns = (data.ended[0] - data.began[0]) * 1000000000ull + data.ended[1] - data.began[1];
	data.error[sizeof(data.error) - 1] = '\0';
	/* what the process says is not trusted */
	in->result->dlopen_ns = dlopen_ns < 3600000000000ull ? dlopen_ns : 0;
	in->result->held_ns += in->result->dlopen_ns;
	in->result->left_bytes = in->restarts ? STUB_CODE_BYTES + STUB_DATA_BYTES : 0;
	if (data.done == STUB_LOADED)
		return 0;
	return say(in, -ELIBBAD, "its dlopen refused the library: %s",
		   *data.error ? data.error : "no reason given");
}

/* pread, not a mapping: if the process shortens the file, a mapping raises SIGBUS. */
static bool stub_is_done(const struct injection *in)
{
	off_t at = data_at(in) + (off_t)offsetof(struct stub_data, done);
	uint64_t done;

	return pread(in->memfd, &done, sizeof(done), at) == sizeof(done) && done;
}

/* The stub sets `done` in the memory file when it has finished. It may never do so once exec or the
 * library has closed the other end of the socket. */
static int await_stub(struct injection *in)
{
	uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + DLOPEN_NS;
	struct pollfd socket = {.fd = in->result->socket_fd};
	struct pollfd process = {.fd = in->pidfd, .events = POLLIN};
	bool alone = false;

	until_ns = max_u64(until_ns, in->request->deadline_ns);
	while (!stub_is_done(in)) {
		now_ns = clock_monotonic_ns();
		if (!alone && poll(&socket, 1, 0) > 0 && socket.revents & POLLHUP) {
			alone = true;
			until_ns = now_ns + ALONE_NS;
		}
		if (poll(&process, 1, 0) > 0 || (alone && now_ns > until_ns))
			return say(in, -ESRCH, "it ended, or ran another program, meanwhile");
		if (now_ns > until_ns)
			return say(in, -ETIMEDOUT, "its dlopen has not returned yet");
		usleep(100);
	}
	return read_outcome(in);
}

static int inject(struct injection *in)
{
	int err = target_inspect(&in->target, in->request, in->result->why);

	if (err)
		return err;
	in->pidfd = (int)syscall(SYS_pidfd_open, in->request->pid, 0);
	if (in->pidfd < 0)
		return say(in, -errno,
			   errno == ESRCH ? "it has ended" : "this kernel has no pidfd_open");
	err = find_moment(in);
	return err ? err : await_stub(in);
}

int inject__library(const struct inject_request *request, struct inject_result *result)
{
	struct injection *in = calloc(1, sizeof(*in));
	int err;

	*result = (struct inject_result){.socket_fd = -1};
	if (!in)
		return -ENOMEM;
	in->request = request;
	in->result = result;
	in->memfd = in->pidfd = -1;
	in->memfd_there = in->pair_there[0] = in->pair_there[1] = -1;
	if (request->image_bytes < sizeof(int32_t) ||
	    request->fd_offset > request->image_bytes - sizeof(int32_t))
		err = say(in, -EINVAL, "the library has no place for a descriptor");
	else
		err = inject(in);
	if (err && result->socket_fd >= 0) {
		close(result->socket_fd);
		result->socket_fd = -1;
	}
	if (in->memfd >= 0)
		close(in->memfd);
	if (in->pidfd >= 0)
		close(in->pidfd);
	target_clear(&in->target);
	free(in);
	return err;
}

#else

int inject__library(const struct inject_request *request, struct inject_result *result)
{
	(void)request;
	*result = (struct inject_result){.socket_fd = -1, .why = "only x86-64 is supported"};
	return -ENOTSUP;
}

#endif
