// SPDX-License-Identifier: BSD-2-Clause
#include "inject/internal.h"

#include "base/clock.h"
#include "proc/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__ /* inject.c asks for nothing elsewhere */

#define STOP_SYSCALL (SIGTRAP | 0x80)
#define POLL_NS	     30000	 /* between two looks for a stop */
#define SOON_NS	     200000	 /* one that is about to come is waited for without sleeping */
#define STILL_NS     200000000ul /* a thread that does nothing for that long sleeps */
#define CALL_NS	     2000000000ul
#define CLEAR_TRAP   ~0x100ull

int hold__seize(struct hold *hold, const struct target *target, pid_t tid)
{
	*hold = (struct hold){.target = target, .tid = tid};
	/* the last thread of ours may still be leaving it */
	for (int again = 0; again < 50; again++) {
		if (!ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD)) {
			hold->seized = true;
			return 0;
		}
		if (errno != EPERM)
			break;
		usleep(200);
	}
	return -errno;
}

/* A number of the thread's status; UINT64_MAX: it is gone. */
static uint64_t status_number(const struct hold *hold, const char *key, int base)
{
	char name[64];
	char *text = NULL, *line = NULL;
	uint64_t number = UINT64_MAX;

	snprintf(name, sizeof(name), "task/%d/status", hold->tid);
	if (proc_read_pid(hold->target->pid, name, &text, 0) > 0)
		line = strstr(text, key);
	if (line)
		number = strtoull(line + strlen(key), NULL, base);
	free(text);
	return number;
}

static int open_entry(struct hold *hold, uint64_t address)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
				       .size = sizeof(attr),
				       .bp_type = HW_BREAKPOINT_X,
				       .bp_addr = address,
				       .bp_len = sizeof(long),
				       .sample_period = 1,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1,
				       .wakeup_events = 1};
	struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = hold->tid};
	int err, fd = (int)syscall(SYS_perf_event_open, &attr, hold->tid, -1, -1,
				   PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (!fcntl(fd, F_SETOWN_EX, &owner) && !fcntl(fd, F_SETSIG, hold->target->notify_signal) &&
	    !fcntl(fd, F_SETFL, O_ASYNC))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int hold__break(struct hold *hold)
{
	/* A thread that blocks the signal would not stop, and keep it for the day it unblocks it.
	 */
	if (!hold->target->notify_signal ||
	    status_number(hold, "\nSigBlk:", 16) >> (hold->target->notify_signal - 1) & 1)
		return -EAGAIN;
	for (size_t i = 0; i < hold->target->entries_count; i++) {
		int fd = open_entry(hold, hold->target->entries[i].start);

		/* a debugger or another tool may have some of the four */
		if (fd < 0 && hold->entries_count)
			return 0;
		if (fd < 0)
			return fd;
		hold->entries[hold->entries_count++] = fd;
	}
	return hold->entries_count ? 0 : -ENOENT;
}

void hold__arm(struct hold *hold, bool armed)
{
	for (size_t i = 0; i < hold->entries_count; i++)
		ioctl(hold->entries[i], armed ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void hold__close(struct hold *hold)
{
	for (size_t i = 0; i < hold->entries_count; i++)
		close(hold->entries[i]);
	hold->entries_count = 0;
}

static void went_on(struct hold *hold)
{
	if (hold->stopped)
		hold->held_ns += clock_monotonic_ns() - hold->stopped_ns;
	hold->stopped = false;
}

static bool is_event(int status)
{
	return status >> 16;
}

/* The thread is about to get a signal: of the program, or the one that reports an entry. */
static bool has_signal(int status)
{
	return WIFSTOPPED(status) && !is_event(status) && WSTOPSIG(status) != STOP_SYSCALL;
}

/*
 * As waitpid() does, but the news of a signal stay: once they are taken, the kernel gives the
 * signal to the thread only if the tracer says so, and one that is killed before it could would
 * have lost a signal of the program's.
 */
static pid_t poll_stop(const struct hold *hold, int *status)
{
	siginfo_t info = {.si_pid = 0};

	if (waitid(P_PID, (id_t)hold->tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
		return -1;
	if (!info.si_pid)
		return 0;
	*status = info.si_status << 8 | 0x7f;
	if (info.si_code == CLD_TRAPPED && has_signal(*status))
		return info.si_pid;
	return waitpid(hold->tid, status, __WALL | WNOHANG);
}

/* Polls, for waitpid has no time-out, and the SIGCHLD of a stop may be handled elsewhere in this
 * program. 0: stopped. */
static int wait_stop(struct hold *hold, uint64_t until_ns, int *status)
{
	const struct timespec pause = {.tv_nsec = POLL_NS};
	uint64_t began_ns = clock_monotonic_ns(), now_ns = began_ns;
	pid_t got;

	while (!(got = poll_stop(hold, status))) {
		if (now_ns > until_ns)
			return -ETIMEDOUT;
		if (now_ns - began_ns < SOON_NS)
			sched_yield();
		else
			nanosleep(&pause, NULL);
		now_ns = clock_monotonic_ns();
	}
	if (got < 0 || !WIFSTOPPED(*status)) {
		hold->seized = hold->stopped = false;
		return -ESRCH;
	}
	if (!hold->stopped)
		hold->stopped_ns = clock_monotonic_ns();
	hold->stopped = true;
	return 0;
}

static void resume(struct hold *hold, enum __ptrace_request how, int signal)
{
	/* a system call of ours is no work of its own */
	if (how != PTRACE_SYSCALL)
		went_on(hold);
	ptrace(how, hold->tid, NULL, (void *)(intptr_t)signal);
}

void hold__detach(struct hold *hold)
{
	went_on(hold);
	if (!ptrace(PTRACE_DETACH, hold->tid, NULL, NULL))
		hold->seized = false;
}

/* A stop that we did not cause: the thread gets its signal, or stays in its process's stop. */
static void pass_on(struct hold *hold, int status, enum __ptrace_request how)
{
	bool group_stop = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;

	if (group_stop && how == PTRACE_CONT)
		resume(hold, PTRACE_LISTEN, 0);
	else
		resume(hold, how, has_signal(status) ? WSTOPSIG(status) : 0);
}

static uint64_t switches_of(const struct hold *hold)
{
	return status_number(hold, "\nvoluntary_ctxt_switches:", 10) +
	       status_number(hold, "\nnonvoluntary_ctxt_switches:", 10);
}

/* Is it at an entry, by the signal that reports it? */
static bool is_notice(struct hold *hold, int status, const struct target_range **entry)
{
	struct user_regs_struct regs;
	int taken;

	if (!has_signal(status) || WSTOPSIG(status) != hold->target->notify_signal ||
	    ptrace(PTRACE_GETREGS, hold->tid, NULL, &regs))
		return false;
	*entry = NULL;
	for (size_t i = 0; i < hold->entries_count; i++)
		if (hold->target->entries[i].start == regs.rip)
			*entry = &hold->target->entries[i];
	/* the signal that the thread has stopped for is never given to it */
	if (*entry)
		waitpid(hold->tid, &taken, __WALL | WNOHANG);
	return *entry;
}

static bool is_still(const struct hold *hold, uint64_t *switches)
{
	struct thread_usage usage;
	uint64_t now = switches_of(hold);
	bool still = now == *switches && !thread_usage(hold->target->pid, hold->tid, &usage) &&
		     usage.state == 'S';

	*switches = now;
	return still;
}

int hold__wait_entry(struct hold *hold, uint64_t until_ns, const struct target_range **entry)
{
	uint64_t switches = switches_of(hold);
	int status;

	hold__arm(hold, true);
	for (;;) {
		uint64_t look_ns = clock_monotonic_ns() + STILL_NS;
		int err = wait_stop(hold, look_ns < until_ns ? look_ns : until_ns, &status);

		if (err == -ETIMEDOUT && look_ns < until_ns) {
			if (!is_still(hold, &switches))
				continue;
			err = -EAGAIN;
		}
		if (!err && !is_notice(hold, status, entry)) {
			pass_on(hold, status, PTRACE_CONT);
			continue;
		}
		hold__arm(hold, false);
		return err;
	}
}

void hold__continue(struct hold *hold)
{
	resume(hold, PTRACE_CONT, 0);
}

int hold__rest(struct hold *hold, uint64_t until_ns)
{
	int err, status;

	hold__continue(hold);
	while (!(err = wait_stop(hold, until_ns, &status)))
		pass_on(hold, status, PTRACE_CONT);
	return err == -ETIMEDOUT ? 0 : err;
}

int hold__wait_asleep(struct hold *hold, uint64_t until_ns)
{
	int err, status;

	if (ptrace(PTRACE_INTERRUPT, hold->tid, NULL, NULL))
		return -errno;
	for (;;) {
		err = wait_stop(hold, until_ns, &status);
		if (err)
			return err;
		if (status >> 16 == PTRACE_EVENT_STOP)
			return WSTOPSIG(status) == SIGTRAP ? 0 : -EBUSY;
		pass_on(hold, status, PTRACE_CONT);
	}
}

int hold__state(struct hold *hold, struct thread_state *state)
{
	struct iovec xstate = {.iov_base = state->xstate, .iov_len = sizeof(state->xstate)};

	if (ptrace(PTRACE_GETREGS, hold->tid, NULL, &state->regs) ||
	    ptrace(PTRACE_GETSIGMASK, hold->tid, sizeof(state->mask), &state->mask) ||
	    ptrace(PTRACE_GETREGSET, hold->tid, NT_X86_XSTATE, &xstate))
		return -errno;
	state->xstate_bytes = xstate.iov_len;
	return 0;
}

int hold__set_regs(struct hold *hold, const struct user_regs_struct *regs)
{
	return ptrace(PTRACE_SETREGS, hold->tid, NULL, regs) ? -errno : 0;
}

int hold__set_mask(struct hold *hold, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, hold->tid, sizeof(mask), &mask) ? -errno : 0;
}

int hold__write(struct hold *hold, uint64_t address, const void *bytes, size_t size)
{
	return process_write(hold->tid, address, bytes, size);
}

int hold__read(struct hold *hold, uint64_t address, void *bytes, size_t size)
{
	return process_read(hold->target->pid, address, bytes, size);
}

/* The stop at the beginning of a system call, or at its end. */
static int to_syscall_stop(struct hold *hold, uint64_t until_ns)
{
	int status, err;

	resume(hold, PTRACE_SYSCALL, 0);
	for (;;) {
		err = wait_stop(hold, until_ns, &status);
		if (err)
			return err;
		if (!is_event(status) && WSTOPSIG(status) == STOP_SYSCALL)
			return 0;
		pass_on(hold, status, PTRACE_SYSCALL);
	}
}

int hold__call(struct hold *hold, const struct user_regs_struct *way_back, long nr,
	       const uint64_t args[6], int64_t *result)
{
	struct user_regs_struct regs = *way_back;
	uint64_t until_ns = clock_monotonic_ns() + CALL_NS;
	int err;

	regs.rip = hold->target->syscall_return;
	regs.rax = (uint64_t)nr;
	regs.orig_rax = UINT64_MAX;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	regs.eflags &= CLEAR_TRAP;
	err = hold__set_regs(hold, &regs) ?: hold__set_mask(hold, UINT64_MAX);
	if (!err) /* to its beginning, then to its end */
		err = to_syscall_stop(hold, until_ns) ?: to_syscall_stop(hold, until_ns);
	if (!err && ptrace(PTRACE_GETREGS, hold->tid, NULL, &regs))
		err = -errno;
	*result = (int64_t)regs.rax;
	return err;
}

#endif
