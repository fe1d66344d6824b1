/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of several machines, or of several tracers, that became one: what each of them says of
 * itself, and of its machine. A process belongs to one of them (struct perfx_process: merged).
 */
#ifndef PERFX_AGGREGATE_MERGED_H
#define PERFX_AGGREGATE_MERGED_H

#include "aggregate/profile.h"

/* Usage of a whole machine, from its earliest and latest sample. */
struct host_usage {
	uint64_t first_ns, last_ns; /* 0: no sample */
	uint64_t first_busy_ns, last_busy_ns;
	uint64_t first_steal_ns, last_steal_ns;
};

/* [0]: the capture itself, which has its machine's usage alone. */
struct merged_capture {
	struct perfx_merged record; /* merged 0: not described */
	const char *strings[5];
	struct host_usage usage;
	uint64_t losses[PERFX_LOSS_KINDS];
};

struct merged {
	struct merged_capture *list; /* by id */
	size_t capacity, count;
	struct profile_capture *shown; /* the profile's */
};

struct aggregate;
struct finish_ctx;

/* NULL with errno: ERANGE, ENOMEM. */
struct merged_capture *merged_get(struct aggregate *aggregate, uint32_t id);
/* Where the capture of a process begins and ends, in the time of this one. */
uint64_t merged_start_ns(const struct aggregate *aggregate, uint32_t id);
uint64_t merged_end_ns(const struct aggregate *aggregate, uint32_t id);
/* The profile's captures, and what the machines add up to. 0 or -ENOMEM. */
int merged_fill(struct finish_ctx *ctx);
void merged_clear(struct merged *merged);

#endif
