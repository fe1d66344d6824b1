/* SPDX-License-Identifier: BSD-2-Clause */
/* What keyframe.c, which collects, and keyframe_write.c have in common. */
#ifndef PERFX_REPLAY_KEYFRAME_INTERNAL_H
#define PERFX_REPLAY_KEYFRAME_INTERNAL_H

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "decode/pack.h"
#include "replay/keyframe.h"

#include <stdbool.h>

/* What comes late of a process that has ended comes within this time. */
#define KEYFRAME_GRACE_NS 2000000000u

/* Records, one after another. */
struct records {
	char *bytes;
	size_t used, capacity;
};

/* A process. */
struct process_state {
	bool gone, has_usage;
	uint64_t ended_ns; /* 0: lives */
	struct perfx_usage usage;
};

struct thread_state {
	struct perfx_thread record;
	char comm[64];
};

/* A value of a program's own, as it is now. */
struct valued {
	uint32_t process, value;
	double number;
};

struct keyframe {
	struct records facts, modes;
	size_t facts_kept; /* bytes after the last cleaning */
	struct records host, time_slice;
	struct process_state *processes; /* by index */
	size_t processes_count, processes_capacity;
	uint32_t *ending; /* processes that have ended and are not gone yet */
	size_t ending_count, ending_capacity;
	struct thread_state *threads;
	size_t threads_count, threads_capacity;
	struct map64 thread_ids; /* process << 32 | tid */
	struct valued *values;
	size_t values_count, values_capacity;
	struct map64 value_ids;		    /* process << 32 | value */
	struct perfx_recording_window turn; /* --wait: the last; time 0: none */
	struct aggregate *memory;
	struct pack_buffer buffer;
};

static inline bool keyframe_is_gone(const struct keyframe *keyframe, uint32_t process)
{
	return process < keyframe->processes_count && keyframe->processes[process].gone;
}

/* The process of a fact; 0: none. */
uint32_t keyframe_owner(const struct event *event);
/* A thread of a process that is gone, or one that its process's samples show no more. */
bool keyframe_is_stale(const struct keyframe *keyframe, const struct perfx_thread *thread);
/* Forgets those whose end is long enough ago at a time. 0 or -ENOMEM. */
int keyframe_forget_ended(struct keyframe *keyframe, uint64_t time_ns);

#endif
