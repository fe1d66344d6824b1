/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread of another process, by ptrace: waited for at the entry of a function, stopped where it
 * sleeps, made to do system calls.
 *
 * No stop is one from which a thread would not go on when we die, for the kernel then lets it go
 * with the signal it was stopped by. So there is no SIGTRAP: a breakpoint is a perf event on a
 * debug register, which ends with our descriptor, and tells of a hit by a signal that does nothing
 * (F_SETSIG). System call stops are those of PTRACE_O_TRACESYSGOOD, whose number is no signal.
 * Letting a thread go that is not stopped takes no stop, either: the thread of ours that seized it
 * ends.
 */
#ifndef PERFX_INJECT_HOLD_H
#define PERFX_INJECT_HOLD_H

#include "inject/stub.h"
#include "inject/target.h"

struct hold {
	const struct target *target;
	pid_t tid;
	int entries[TARGET_ENTRIES_MAX]; /* perf events */
	size_t entries_count;
	int signal; /* it is stopped by this one, which it would not get */
	bool seized, stopped;
	uint64_t stopped_ns; /* since when */
	uint64_t held_ns;    /* until the last time it went on */
};

/* 0 or -errno: that of ptrace. The calling thread must end soon after: that lets the thread go
 * however it is then. */
int hold__seize(struct hold *hold, const struct target *target, pid_t tid);

/* Breakpoints at the target's entries, not armed: 0, or -errno of the first; -EAGAIN: not
 * in this thread. Closed by hold__close(). */
int hold__break(struct hold *hold);
void hold__arm(struct hold *hold, bool armed);
void hold__close(struct hold *hold);

/* Waits until it is stopped at an entry; signals that come meanwhile are passed on. 0: stopped,
 * disarmed; -ETIMEDOUT: it is not; -EAGAIN: nor will it soon, it sleeps; -ESRCH: it is gone. */
int hold__wait_entry(struct hold *hold, uint64_t until_ns, const struct target_range **entry);
/* Stops it where it sleeps. 0; -EAGAIN: it does not sleep; -EBUSY: the process is stopped. */
int hold__wait_asleep(struct hold *hold, uint64_t until_ns);

/* While stopped. 0 or -errno. */
int hold__state(struct hold *hold, struct thread_state *state);
int hold__set_regs(struct hold *hold, const struct user_regs_struct *regs);
int hold__set_mask(struct hold *hold, uint64_t mask);
int hold__write(struct hold *hold, uint64_t address, const void *bytes, size_t size);
int hold__read(struct hold *hold, uint64_t address, void *bytes, size_t size);
/* A system call in its place: *result as the kernel gives it. The registers are then still those of
 * the call, by which it goes back to what it did. Never again after an error. */
int hold__call(struct hold *hold, const struct user_regs_struct *way_back, long nr,
	       const uint64_t args[6], int64_t *result);

/* It goes on, still traced. */
void hold__continue(struct hold *hold);
/* The same, and it is let alone for a while: 0 or -ESRCH. */
int hold__rest(struct hold *hold, uint64_t until_ns);
/* It goes on, untraced. */
void hold__detach(struct hold *hold);

#endif
