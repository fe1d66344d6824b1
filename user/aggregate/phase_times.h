/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The times in which a thread was in each phase of a step. Where calls of several phases lie inside
 * each other, the phase with the greater number counts.
 */
#ifndef PERFX_AGGREGATE_PHASE_TIMES_H
#define PERFX_AGGREGATE_PHASE_TIMES_H

#include "aggregate/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A time in which a phase holds, or (OTHER) traced code ran. */
struct phase_time {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	enum profile_phase phase;
};

struct phase_times {
	struct phase_time *list; /* one after another */
	size_t count, capacity;
	bool has_backward;
	bool has_closure; /* an optimizer called what had a backward pass in it */
};

/* A call's time; to be called in the order in which calls end. 0 or -ENOMEM. */
int phase_times_add(struct phase_times *times, struct phase_time new);
/* Adds what a step from one time to another has of each phase, ns. by_backward: backward passes end
 * the steps, so that traced code belongs to a forward pass only where the data phase is known. */
void phase_times_divide(const struct phase_times *times, uint64_t from_ns, uint64_t to_ns,
			bool by_backward, uint64_t phases[PROFILE_PHASES]);
/* Drops what has ended by a time, and the older half where more than `most` are left. */
void phase_times_forget(struct phase_times *times, uint64_t until_ns, size_t most);
void phase_times_clear(struct phase_times *times);

#endif
