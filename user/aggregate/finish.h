/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables → profile: what the parts share while a profile is made.
 */
#ifndef PERFX_AGGREGATE_FINISH_H
#define PERFX_AGGREGATE_FINISH_H

#include "aggregate/state.h"

/* A call edge: a row and who called it. */
struct edge {
	uint32_t row, caller;
	uint64_t calls_count, total_ns;
};

/* Costs of a row, own and inclusive. */
struct row_cost {
	struct costs own; /* unread_ns: less the time in calls of known cost */
	struct profile_cost inclusive;
	uint64_t dtypes[PERFX_DTYPES]; /* inclusive flops */
	uint64_t computing_ns;
	uint32_t open; /* how often it is on the path during the walk */
};

struct finish_ctx {
	struct aggregate *a;
	struct profile *profile;
	struct sums *sums;	    /* by row */
	struct row_cost *row_costs; /* by row; NULL: no known cost anywhere */
	uint32_t *places;   /* by process index: where in profile->processes, or MAP64_NONE */
	struct edge *edges; /* by row, then caller */
	size_t edges_count;
	uint32_t *rows_of;	 /* by place: how many rows */
	uint64_t hidden_records; /* of processes and functions never described */
};

void profile_clear(struct profile *profile);
/* overhead.c: what tracing cost. */
void overhead_fill(struct finish_ctx *ctx);
/* NULL: its process or function was never described. */
struct profile_process *process_of(const struct finish_ctx *ctx, const struct row *row);
/* The caller's context; 0: untraced code, or not known. */
uint32_t parent_of(const struct aggregate *aggregate, const struct context *context);

#endif
