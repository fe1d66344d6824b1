/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread that is not on a CPU waits for, by the system call that it is in: its number and
 * arguments are in the registers with which it entered the kernel, so no probe of system calls,
 * which would slow down every process of the machine, is needed.
 */
#ifndef PERFX_WAIT_BPF_H
#define PERFX_WAIT_BPF_H

#include "perfx.bpf.h"

struct wait {
	__u8 reason; /* enum perfx_wait_reason */
	__u16 syscall;
	__u64 object;
};

/* include/linux/sched.h */
#define TASK_STOPPED 0x4
#define TASK_TRACED  0x8

#if defined(__TARGET_ARCH_x86)
/* arch/x86/entry/syscalls/syscall_64.tbl */
static __always_inline __u8 reason_of_syscall(__u64 number)
{
	switch (number) {
	case 0:	  /* read */
	case 17:  /* pread64 */
	case 19:  /* readv */
	case 45:  /* recvfrom */
	case 47:  /* recvmsg */
	case 295: /* preadv */
	case 299: /* recvmmsg */
	case 327: /* preadv2 */
		return PERFX_WAIT_READ;
	case 1:	  /* write */
	case 18:  /* pwrite64 */
	case 20:  /* writev */
	case 44:  /* sendto */
	case 46:  /* sendmsg */
	case 296: /* pwritev */
	case 307: /* sendmmsg */
	case 328: /* pwritev2 */
		return PERFX_WAIT_WRITE;
	case 7:	  /* poll */
	case 23:  /* select */
	case 270: /* pselect6 */
	case 271: /* ppoll */
		return PERFX_WAIT_POLL;
	case 232: /* epoll_wait */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
		return PERFX_WAIT_EPOLL;
	case 202: /* futex */
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
		return PERFX_WAIT_FUTEX;
	case 35:  /* nanosleep */
	case 230: /* clock_nanosleep */
		return PERFX_WAIT_SLEEP;
	case 61:  /* wait4 */
	case 247: /* waitid */
		return PERFX_WAIT_WAIT;
	case 26:  /* msync */
	case 74:  /* fsync */
	case 75:  /* fdatasync */
	case 162: /* sync */
	case 277: /* sync_file_range */
	case 306: /* syncfs */
		return PERFX_WAIT_DISK;
	}
	return PERFX_WAIT_SYSCALL;
}

/* < 0: it is in none, but in a page fault or an interrupt */
static __always_inline __s64 syscall_of(const struct pt_regs *regs)
{
	return (__s32)regs->orig_ax;
}

static __always_inline __u64 first_argument(const struct pt_regs *regs)
{
	return regs->di;
}
#else
/* System calls have other numbers elsewhere. */
static __always_inline __u8 reason_of_syscall(__u64 number)
{
	return PERFX_WAIT_SYSCALL;
}

static __always_inline __s64 syscall_of(const struct pt_regs *regs)
{
	return -1;
}

static __always_inline __u64 first_argument(const struct pt_regs *regs)
{
	return 0;
}
#endif

/* Of a task that is neither running nor runnable. regs: with which it entered the kernel. A stopped
 * one waits for whoever has stopped it: that is no reason of its own. */
static __always_inline struct wait wait_of(struct task_struct *task, const struct pt_regs *regs)
{
	struct wait wait = {};
	__s64 number = syscall_of(regs);

	if (task->__state & (TASK_STOPPED | TASK_TRACED))
		return wait;
	if (number < 0) {
		wait.reason = PERFX_WAIT_PAGE_FAULT;
		return wait;
	}
	wait.syscall = number;
	wait.reason = reason_of_syscall(number);
	if (wait.reason == PERFX_WAIT_FUTEX)
		wait.object = first_argument(regs);
	else if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		wait.reason = PERFX_WAIT_DISK;
	return wait;
}

#endif
