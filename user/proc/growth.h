/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a process's memory grow all the time? Known from its anonymous memory at each tick, within
 * 0.5 to 1.5 s, so that the overhead budget keeps the allocations that show where.
 *
 * A training step allocates and frees, so the memory goes up and down: what grows is the least of
 * each part of the time.
 */
#ifndef PERFX_PROC_GROWTH_H
#define PERFX_PROC_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum growth {
	GROWTH_NONE,
	GROWTH_POSSIBLE, /* it has grown, and was not watched for long enough */
	GROWTH_STEADY,	 /* in each part of the time */
};

#define GROWTH_SAMPLES 64

struct growth_watch {
	struct growth_sample {
		uint64_t time_ns, bytes;
	} samples[GROWTH_SAMPLES]; /* the last ones, oldest first */
	size_t count;
	uint64_t begun_ns;
	enum growth growth; /* by the last sample */
};

/* bytes: anonymous memory at time_ns, later than at the call before. Sets watch->growth. */
void growth_add(struct growth_watch *watch, uint64_t time_ns, uint64_t bytes);

#endif
