/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the profile (aggregate/profile.h) that a dump is: what each thread of a process did
 * at one moment. THREAD_STATE and WAIT_TARGET records, the stacks and the samples of that moment
 * make it. What follows from it (groups, deadlocks, the verdict) is in analyze/dump.h.
 */
#ifndef PERFX_AGGREGATE_PROFILE_DUMP_H
#define PERFX_AGGREGATE_PROFILE_DUMP_H

#include "aggregate/profile_stack.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target of a thread's wait, found from outside (WAIT_TARGET record). */
struct profile_wait_target {
	enum perfx_target_kind kind; /* PERFX_TARGET_UNKNOWN: nothing is known */
	/* In words: "pipe:[1234] from python3 (pid 4711)", "mutex at libfoo.so+0x4040"; "": none */
	const char *text;
	/* The process that must act for the wait to end: the other end of a pipe or a socket, the
	 * child, the process of the lock's owner; 0: unknown, or nobody in particular. May be one
	 * that is not in the dump. As the tracer sees pids. */
	uint32_t pid;
	uint32_t tid;	      /* the thread that must act: the owner of a lock; 0: unknown */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC, when it ends by itself; 0: unknown, or never */
	bool orphaned;	      /* a mutex whose owner is no thread of the process any more */
};

/* An asyncio task that had not ended (CPython 3.14 and later). Several rows of one task: several
 * tasks await it. */
struct profile_async_task {
	uint64_t id, awaited_by; /* 0: nobody awaits it */
	uint32_t tid;		 /* thread of its event loop; 0: it has ended */
	bool runs;		 /* its coroutines are in the stack of that thread */
	const char *name;	 /* "": unknown */
	/* Its coroutines, innermost first, "function\tfile\tline\n" each. */
	const char *coroutines;
};

struct profile_thread_state {
	uint32_t tid;
	const char *comm;
	char state;		       /* as in /proc/PID/stat: R S D T t Z I */
	unsigned flags;		       /* PERFX_THREAD_STATE_ */
	enum perfx_wait_reason reason; /* NONE: it runs */
	/* The system call that it is in; PERFX_NO_SYSCALL: none. */
	uint32_t syscall;
	uint64_t arguments[PERFX_STATE_ARGUMENTS];
	int32_t fd;	/* the descriptor that it waits for; -1: none */
	uint64_t inode; /* of its file, as in struct perfx_thread_state */
	uint32_t device, mode;
	/* as in struct perfx_blocked: the address of a futex, a file's key; STOPPED: a signal */
	uint64_t object;
	/* GIL: the thread that holds it. The owner of another lock is target.tid. 0: unknown */
	uint32_t holder_tid;
	/*
	 * For how long it has waited at the time of the dump: at most so long, because the thread
	 * had its CPU at that moment for the last time, or (PERFX_THREAD_STATE_EXACT) exactly.
	 * Threads that run or are runnable: since they last got a CPU. PROFILE_ABSENT: unknown.
	 */
	uint64_t age_ns;
	uint64_t time_ns;    /* when it was seen so, CLOCK_MONOTONIC */
	uint32_t tracer_pid; /* of the process that traces it (ptrace); 0: none */
	/* The most frequent stack of a thread that ran. NULL: unknown. */
	const struct profile_stack *stack;
	/* Where it waited when it was seen first (--watch); NULL: unknown. */
	const struct profile_stack *first_stack;
	uint64_t first_ns;	/* when; time_ns: it was seen once */
	uint64_t samples_count; /* on a CPU, during the dump, which took dump_ns */
	uint64_t dump_ns;
	struct profile_wait_target target;
};

#endif
