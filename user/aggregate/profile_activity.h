/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the profile (aggregate/profile.h) that is about samples and waits. */
#ifndef PERFX_AGGREGATE_PROFILE_ACTIVITY_H
#define PERFX_AGGREGATE_PROFILE_ACTIVITY_H

#include "aggregate/profile_stack.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process that had a CPU while threads of another one waited for it. */
enum profile_rival_kind {
	PROFILE_RIVAL_OTHER = 0, /* a stranger, or a traced process of another job */
	PROFILE_RIVAL_OWN,	 /* the waiting process itself */
	PROFILE_RIVAL_JOB,	 /* another process of its job */
	PROFILE_RIVAL_TRACER,	 /* perfx-trace */
	PROFILE_RIVAL_KINDS
};

struct profile_rival {
	uint32_t pid;
	const char *name;
	enum profile_rival_kind kind;
	uint64_t ns; /* all threads that waited, added up; exact */
};

/*
 * A row of samples of a thread, each of which stands for an interval; or one of its waits, as an
 * exact sum by what it waited for. Samples are kept apart from all that is counted by call.
 */
struct profile_activity {
	uint32_t tid;
	uint32_t context; /* samples: of the innermost traced call; 0: none */
	/* A wait's is the one that was sampled most often; NULL: not known. */
	const struct profile_stack *stack;
	enum perfx_sample_state state; /* samples */
	enum perfx_wait_reason reason;
	uint16_t syscall; /* PERFX_WAIT_SYSCALL: its number */
	/* GIL: the thread that has it; FUTEX: the thread that woke it in most cases. 0: unknown */
	uint32_t holder_tid;
	/* RUNNABLE: the processes of this name that had the CPU meanwhile; `object` is the pid of
	 * the one that had it longest. */
	enum profile_rival_kind rival_kind;
	uint32_t rivals_count;
	uint64_t object; /* 0: none */
	enum perfx_object_kind object_kind;
	const char *object_name;    /* "": unknown */
	uint64_t count, ns, max_ns; /* max_ns: waits */
	/* The part of it outside of the steps' time (profile_steps.outside_ns). */
	uint64_t outside_count, outside_ns;
};

/* The part of it in the steps' time; without steps all of it. */
static inline uint64_t activity_judged_ns(const struct profile_activity *activity)
{
	return activity->ns - activity->outside_ns;
}

static inline uint64_t activity_judged_count(const struct profile_activity *activity)
{
	return activity->count - activity->outside_count;
}

/* One sample of the thread of the steps. */
struct profile_step_sample {
	uint64_t time_ns;
	struct profile_activity what; /* count 1 */
};

struct profile_activities {
	struct profile_activity *list; /* ns descending */
	size_t count;
};

struct profile_sampling {
	uint64_t on_cpu_interval_ns, off_cpu_interval_ns; /* 0: off */
	enum perfx_stacks stacks;
	const char *why; /* there are no samples; "" */
};

#endif
