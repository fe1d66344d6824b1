/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all threads of a process did on CPUs while calls of a function ran, by samples: how parallel
 * the function is. Of functions that one thread alone calls; samples of calls that overlap would
 * count twice.
 */
#ifndef PERFX_AGGREGATE_PARALLEL_H
#define PERFX_AGGREGATE_PARALLEL_H

#include "base/grow.h"

struct row_sample {
	uint32_t activity; /* samples.sampled.list[] */
	uint64_t ns, count;
};

struct row_samples {
	uint32_t tid; /* of the calls */
	uint64_t wall_ns;
	struct map64 ids; /* activity → list[] */
	struct row_sample *list;
	size_t count, capacity;
};

struct aggregate;
struct finish_ctx;
struct row;
struct perfx_span;

/* A timed call has ended: its samples came before it. 0 or -ENOMEM. */
int parallel_span(struct aggregate *aggregate, struct row *row, const struct perfx_span *span);
void row_samples__free(struct row_samples *samples);
/* When rows and samples are filled. 0 or -ENOMEM. */
int parallel_fill(struct finish_ctx *ctx);

#endif
