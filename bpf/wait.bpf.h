/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reason why a thread is off the CPU, by the system call that it is in. Its number and
 * arguments are in the registers that the kernel saved at its entry, so no probe of system calls is
 * needed, which would slow down every process of the machine.
 */
#ifndef PERFX_WAIT_BPF_H
#define PERFX_WAIT_BPF_H

#include "perfx.bpf.h"
#include "python.bpf.h"

#include <asm/unistd.h>

/* include/linux/sched.h */
#define PF_EXITING	     0x00000004
#define PF_IO_WORKER	     0x00000010
#define PF_KTHREAD	     0x00200000
#define PF_FROZEN	     0x00010000 /* until Linux 6.0 */
#define JOBCTL_STOP_SIGMASK  0xffff	/* include/linux/sched/jobctl.h */
#define TASK_INTERRUPTIBLE   0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED	     0x4
#define TASK_TRACED	     0x8
#define EXIT_DEAD	     0x10
#define TASK_PARKED	     0x40
#define TASK_NOLOAD	     0x400
#define TASK_FROZEN	     0x8000 /* since Linux 6.1 */

/* Threads off the CPU, by tid. An array, because a hash must not be updated under a run queue's
 * lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: PERFX_MAX_WAITERS */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_waiter);
} perfx_waiters __weak SEC(".maps");

static __always_inline struct perfx_waiter *waiter_at(__u32 tid, __u32 try)
{
	__u32 place = PERFX_WAITER_PLACE(tid, try);

	return bpf_map_lookup_elem(&perfx_waiters, &place);
}

/* The try that finds a thread's entry; PERFX_WAIT_TRIES: none. A global function: the verifier
 * walks it once. */
__weak __noinline __u32 waiter_try(__u32 tid)
{
	for (__u32 i = 0; i < PERFX_WAIT_TRIES; i++) {
		struct perfx_waiter *waiter = waiter_at(tid, i);

		if (waiter && waiter->tid == tid)
			return i;
	}
	return PERFX_WAIT_TRIES;
}

/* NULL: the thread has not been seen leaving the CPU. */
static __always_inline struct perfx_waiter *waiter_find(__u32 tid)
{
	__u32 try = waiter_try(tid);

	return try < PERFX_WAIT_TRIES ? waiter_at(tid, try) : NULL;
}

/* The same on all architectures, and newer than the headers of distributions. */
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT  455

/* The call's first argument is a descriptor. */
#define ON_FILE 0x80
/* Greater numbers have no reason of their own. */
#define CALLS_MAX 512

static const volatile __u8 reasons[CALLS_MAX] = {
	[__NR_read] = PERFX_WAIT_READ | ON_FILE,
	[__NR_pread64] = PERFX_WAIT_READ | ON_FILE,
	[__NR_readv] = PERFX_WAIT_READ | ON_FILE,
	[__NR_preadv] = PERFX_WAIT_READ | ON_FILE,
	[__NR_preadv2] = PERFX_WAIT_READ | ON_FILE,
	[__NR_recvfrom] = PERFX_WAIT_READ | ON_FILE,
	[__NR_recvmsg] = PERFX_WAIT_READ | ON_FILE,
	[__NR_recvmmsg] = PERFX_WAIT_READ | ON_FILE,
	[__NR_accept] = PERFX_WAIT_READ | ON_FILE,
	[__NR_accept4] = PERFX_WAIT_READ | ON_FILE,
	[__NR_splice] = PERFX_WAIT_READ | ON_FILE,
	[__NR_write] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_pwrite64] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_writev] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_pwritev] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_pwritev2] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_sendto] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_sendmsg] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_sendmmsg] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_sendfile] = PERFX_WAIT_WRITE | ON_FILE,
	[__NR_ppoll] = PERFX_WAIT_POLL,
	[__NR_pselect6] = PERFX_WAIT_POLL,
	[__NR_epoll_pwait] = PERFX_WAIT_EPOLL | ON_FILE,
	[__NR_epoll_pwait2] = PERFX_WAIT_EPOLL | ON_FILE,
#ifdef __NR_poll /* newer architectures lack the older calls */
	[__NR_poll] = PERFX_WAIT_POLL,
	[__NR_select] = PERFX_WAIT_POLL,
	[__NR_epoll_wait] = PERFX_WAIT_EPOLL | ON_FILE,
#endif
	[__NR_futex] = PERFX_WAIT_FUTEX,
	[NR_FUTEX_WAITV] = PERFX_WAIT_FUTEX,
	[NR_FUTEX_WAIT] = PERFX_WAIT_FUTEX,
	[__NR_nanosleep] = PERFX_WAIT_SLEEP,
	[__NR_clock_nanosleep] = PERFX_WAIT_SLEEP,
	[__NR_wait4] = PERFX_WAIT_WAIT,
	[__NR_waitid] = PERFX_WAIT_WAIT,
	/* may wait for the journal instead of the device, which does not count as I/O */
	[__NR_fsync] = PERFX_WAIT_DISK | ON_FILE,
	[__NR_fdatasync] = PERFX_WAIT_DISK | ON_FILE,
	[__NR_sync_file_range] = PERFX_WAIT_DISK | ON_FILE,
	[__NR_syncfs] = PERFX_WAIT_DISK | ON_FILE,
	[__NR_sync] = PERFX_WAIT_DISK,
	[__NR_msync] = PERFX_WAIT_DISK,
	[__NR_connect] = PERFX_WAIT_SYSCALL | ON_FILE,
	[__NR_ioctl] = PERFX_WAIT_SYSCALL | ON_FILE,
	[__NR_flock] = PERFX_WAIT_SYSCALL | ON_FILE,
	[__NR_fcntl] = PERFX_WAIT_SYSCALL | ON_FILE,
	[__NR_io_uring_enter] = PERFX_WAIT_SYSCALL | ON_FILE,
};

static __always_inline __u8 reason_of(__u32 number)
{
	if (number >= CALLS_MAX)
		return 0;
	barrier_var(number); /* the compiler would drop the mask, which the verifier needs */
	return reasons[number & (CALLS_MAX - 1)];
}

struct call {
	__s32 number; /* < 0: the thread entered the kernel by an exception */
	__u64 arguments[PERFX_STATE_ARGUMENTS];
};

static __always_inline void read_call(struct call *call, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_x86)
	call->number = (__s32)regs->orig_ax;
	call->arguments[0] = regs->di;
	call->arguments[1] = regs->si;
	call->arguments[2] = regs->dx;
#else
	call->number = regs->syscallno;
	call->arguments[0] = regs->orig_x0;
	call->arguments[1] = regs->regs[1];
	call->arguments[2] = regs->regs[2];
#endif
}

/* include/uapi/linux/magic.h: one inode for eventfd, epoll, timerfd and others */
#define ANON_INODE_FS_MAGIC 0x09041934

/* Identifies the file of a descriptor, also after the descriptor is closed and reused. */
static __always_inline void find_file(struct perfx_wait *wait, struct task_struct *task, __s32 fd)
{
	const struct file *file = file_of(task, fd);
	struct inode *inode;
	__u64 anonymous;

	if (!file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	wait->inode = BPF_CORE_READ(inode, i_ino);
	wait->device = BPF_CORE_READ(inode, i_sb, s_dev);
	wait->mode = BPF_CORE_READ(inode, i_mode);
	wait->fd = fd;
	anonymous = BPF_CORE_READ(inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC;
	wait->object = mix(mix(mix(0, wait->device), wait->inode), anonymous ? (__u64)fd + 1 : 0);
}

/* sizeof(struct _gil_runtime_state), with room for members of later releases. */
#define GIL_BYTES 208
/* Offset of tid in glibc's struct pthread, whose address is the thread_id; on x86-64. */
#define PTHREAD_TID_OFFSET 720

/* The id of a thread in its own PID namespace, after thread_id in its state since 3.11. 0: unknown.
 */
static __always_inline __u32 read_tid(const struct perfx_python_layout *python, __u64 state,
				      memory_reader *read, void *ctx)
{
	__u64 at = state + python->thread_id, pthread = 0;
	__u32 tid = 0;

	if (python->version >= 0x030b0000)
		at += sizeof(__u64);
	else if (!read(&pthread, sizeof(pthread), at, ctx))
		at = pthread + PTHREAD_TID_OFFSET;
	else
		return 0;
	read(&tid, sizeof(tid), at, ctx);
	return tid;
}

/* The thread that holds a GIL; 0: none, or unknown. */
static __always_inline __u32 find_holder(const struct perfx_python_layout *python, __u64 gil,
					 memory_reader *read, void *ctx)
{
	__u64 state = 0;
	__u32 locked = 0;

	if (read(&state, sizeof(state), gil + python->gil_holder, ctx) ||
	    read(&locked, sizeof(locked), gil + python->gil_locked, ctx) || !state || !locked)
		return 0;
	return read_tid(python, state, read, ctx);
}

/* Number of subinterpreters to search for the GIL for which a thread waits. */
#define GIL_INTERPRETERS_MAX 32

struct gil_search {
	const struct perfx_python_layout *python;
	__u64 futex, interpreter, main;
	__u64 gil; /* of the interpreter visited last */
};

static long gil_step(__u32 i, void *ctx)
{
	struct gil_search *search = ctx;
	const struct perfx_python_layout *python = search->python;
	__u64 interpreter = search->interpreter;

	search->gil = 0;
	if (!interpreter || interpreter == search->main)
		return 1;
	bpf_probe_read_user(&search->gil, sizeof(search->gil),
			    (void *)(interpreter + python->interpreter_gil));
	if (search->gil && search->futex - search->gil < GIL_BYTES)
		return 1;
	search->gil = 0;
	return bpf_probe_read_user(&search->interpreter, sizeof(search->interpreter),
				   (void *)(interpreter + python->interpreter_next)) != 0;
}

/* The GIL that contains a futex; 0: none. Since 3.12 a subinterpreter may have its own. A global
 * function, as waiter_try. */
__weak __noinline __u64 find_gil(const struct perfx_python_layout *python, __u64 futex,
				 bool current)
{
	struct gil_search search = {.python = python, .futex = futex};
	__u64 first_and_main[2] = {};

	if (!python)
		return 0;
	if (!python->gil || futex - python->gil < GIL_BYTES)
		return python->gil;
	if (!current || !python->interpreter_gil ||
	    bpf_probe_read_user(first_and_main, sizeof(first_and_main),
				(void *)python->interpreters))
		return 0;
	search.interpreter = first_and_main[0];
	search.main = first_and_main[1];
	repeat(GIL_INTERPRETERS_MAX, gil_step, &search);
	return search.gil;
}

/* current: the thread is the current one, so its memory can be read. */
static __always_inline void find_lock(struct perfx_wait *wait, __u64 address, bool current)
{
	const struct perfx_python_layout *python = python_of(wait->tgid);
	__u64 gil = python ? find_gil(python, address, current) : 0;

	wait->object = address;
	if (!gil)
		return;
	wait->reason = PERFX_WAIT_GIL;
	wait->object = gil;
	if (current)
		wait->holder_tid = find_holder(python, gil, read_current, NULL);
}

/* poll(NULL, 0, timeout), select(0, NULL, NULL, NULL, &timeout) */
static __always_inline bool polls_nothing(const struct call *call)
{
	bool selects = call->number == __NR_pselect6;

#ifdef __NR_select
	selects |= call->number == __NR_select;
#endif
	return !(__u32)(selects ? call->arguments[0] : call->arguments[1]);
}

/* A poll of one descriptor waits for its file. */
static __always_inline void find_polled(struct perfx_wait *wait, struct task_struct *task,
					const struct call *call)
{
#ifdef __NR_poll
	if (call->number != __NR_ppoll && call->number != __NR_poll)
		return;
#else
	if (call->number != __NR_ppoll)
		return;
#endif
	__s32 fd;

	if (call->arguments[1] == 1 &&
	    !bpf_probe_read_user(&fd, sizeof(fd), (void *)call->arguments[0]))
		find_file(wait, task, fd);
}

/* Returns whether a thread is stopped, traced or frozen. The freezer of cgroups sets a flag or a
 * state in version 1 and a bit in version 2, which kernels without cgroups lack. A parent in
 * vfork() has that bit as well, in an uninterruptible sleep, which the freezer never uses. */
static __always_inline bool is_stopped(struct task_struct *task)
{
	if (task->__state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) || task->flags & PF_FROZEN)
		return true;
	return bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen) &&
	       !(task->__state & TASK_UNINTERRUPTIBLE);
}

/* io_uring_enter marks every wait as one for a disk, also a wait for a socket. */
static __always_inline bool awaits_ring(const struct task_struct *task, const struct call *call)
{
	return call->number == __NR_io_uring_enter && !(task->flags & PF_IO_WORKER);
}

/* Finds the reason why a thread sleeps; wait->tgid is set. current: it is the current thread, so
 * its memory can be read. */
static __always_inline void find_reason(struct perfx_wait *wait, struct task_struct *task,
					bool current)
{
	struct call call;
	__u8 reason;

	wait->reason = PERFX_WAIT_STOPPED;
	if (is_stopped(task))
		return;
	read_call(&call, task);
	if (call.number < 0) {
		wait->reason = PERFX_WAIT_PAGE_FAULT;
		return;
	}
	reason = reason_of(call.number);
	wait->reason = reason & ~ON_FILE ?: PERFX_WAIT_SYSCALL;
	wait->syscall = call.number;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait) && !awaits_ring(task, &call))
		wait->reason = PERFX_WAIT_DISK;
	if (reason & ON_FILE)
		find_file(wait, task, (__s32)call.arguments[0]);
	else if (reason == PERFX_WAIT_FUTEX && call.number != NR_FUTEX_WAITV)
		find_lock(wait, call.arguments[0], current);
	else if (reason == PERFX_WAIT_POLL && polls_nothing(&call))
		wait->reason = PERFX_WAIT_SLEEP;
	else if (reason == PERFX_WAIT_POLL && current)
		find_polled(wait, task, &call);
}

#endif
