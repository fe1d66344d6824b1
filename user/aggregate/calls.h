/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls and what they compute: by function and process (rows) and by calling context.
 */
#ifndef PERFX_AGGREGATE_CALLS_H
#define PERFX_AGGREGATE_CALLS_H

#include "aggregate/process.h"
#include "aggregate/profile.h"
#include "base/grow.h"

typedef unsigned __int128 u128;

/* Costs of the calls of functions with a cost model. */
struct costs {
	struct profile_cost cost;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t timed_flops;	       /* of the calls of counted_ns */
	uint64_t counted_ns, unread_ns, nested_ns;
	uint64_t opaque_ns; /* self */
};

/* What a function is to GPUs. */
#define GPU_CLASS_WAITS	    0x1 /* for a device */
#define GPU_CLASS_UNDECIDED 0x2 /* it is not described yet */

struct sums {
	uint64_t calls_count, total_ns, self_ns;
	struct costs *costs; /* NULL: not such a function */
};

/* One function in one process. Calls, total and self time are kept by context; a row has the rest.
 */
struct row {
	uint32_t index; /* in rows[] */
	uint32_t process, function;
	uint64_t untimed_count, unwound_count;
	uint64_t recorded_count, overflow_count; /* timed calls: from records, from overflow sums */
	uint64_t min_ns, max_ns;		 /* of the recorded ones */
	u128 sum_ns, sum_squares;
	u128 moment; /* of the recorded ones: time × start; wraps if a capture is hostile */
	uint64_t off_cpu_ns; /* of sum_ns */
	bool squares_overflowed;
	unsigned step_class; /* steps.h */
	unsigned gpu_class;  /* GPU_CLASS_ */
	enum meets meets;
	uint32_t usual_cost; /* in usual_costs.list[], + 1; 0: none yet */
	struct sketch *sketch;
	struct sums orphans; /* calls of unknown context */
	/* distinct threads: a bit for each thread of the process */
	uint32_t last_tid;
	uint64_t threads_count;
	uint64_t *thread_bits;
	size_t thread_words;
	struct profile_call_counters *perf; /* NULL: nothing */
	struct row_samples *samples;	    /* NULL: none */
};

/* A node of the calling-context tree, of the process and function that named it first. */
struct context {
	uint32_t process, function, parent;
	uint32_t stack;	 /* of its first call; 0: none */
	uint64_t caller; /* Python frame; 0: none */
	bool described;
	struct row *row; /* NULL: no call yet */
	struct sums sums;
};

/* Cost of a run of an object's operation; state NONE also where it is not known yet. */
struct object_cost {
	uint64_t flops, bytes;
	uint8_t state, dtype;
	bool settled;
};

struct aggregate;
struct finish_ctx;

/* calls.c */
/* NULL: the process has not called the function. */
struct row *row_find(const struct aggregate *aggregate, uint32_t process, uint32_t function);
void row__free(struct row *row);
/* At the end: which functions that end steps evaluate a model, by their callers. 0 or -ENOMEM. */
int calls_find_evaluations(struct finish_ctx *ctx);
/* Where a span's sums are, of one that has been added. NULL: nowhere. */
struct sums *calls_sums(struct aggregate *aggregate, const struct perfx_span *span);

/* costs.c */
/* A span whose function has a known cost. 0 or -ENOMEM. */
int costs_span(struct aggregate *aggregate, struct costs **costs, const struct perfx_span *span);
int costs_overflow(struct costs **costs, const struct perfx_overflow_calls *record);
/* Calls without a record that are taken to have this cost. 0 or -ENOMEM. */
int costs_assumed(struct costs **costs, const struct perfx_span *span, uint64_t count);
/* At the end: spans whose object was not described when they came. 0 or -ENOMEM. */
int object_costs_settle(struct finish_ctx *ctx);
/* What each row computes, before the profile's rows are filled. 0 or -ENOMEM. */
int compute_sum(struct finish_ctx *ctx);
void compute_fill_row(const struct finish_ctx *ctx, const struct row *row, struct profile_row *out);
/* The processes' sums, when the rows are filled. 0 or -ENOMEM. */
int compute_fill(struct finish_ctx *ctx);

/*
 * The samples of all threads of a process on CPUs while calls of a function ran: they tell how
 * parallel the function is. Only functions that a single thread calls have them, as overlapping
 * calls would count a sample twice.
 */
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

struct perfx_span;

/* When rows and samples are filled. 0 or -ENOMEM. */
int parallel_fill(struct finish_ctx *ctx);

#endif
