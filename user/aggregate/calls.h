/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls and what they compute: by function and process (rows) and by calling context.
 */
#ifndef PERFX_AGGREGATE_CALLS_H
#define PERFX_AGGREGATE_CALLS_H

#include "aggregate/process.h"
#include "aggregate/state.h"

/* Costs of the calls of functions with a cost model. */
struct costs {
	struct profile_cost cost;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t timed_flops;	       /* of the calls of counted_ns */
	uint64_t counted_ns, unread_ns, nested_ns;
	uint64_t opaque_ns; /* self */
};

/* A row's step_class and gpu_class until its function is described. */
#define UNDECIDED	0x100
#define GPU_CLASS_WAITS 0x1 /* for a device */

/* Does a row's function run collectives, in which ranks meet? Undecided until it is described. */
enum meets { MEETS_UNDECIDED = 0, MEETS_NOT, MEETS };

struct sums {
	uint64_t calls_count, total_ns, self_ns;
	struct costs *costs; /* NULL: not such a function */
};

/* The times between inferences: from the end of a thread's call to the begin of its next one. */
struct gaps {
	struct map64 thread_ids; /* tid → ends[] */
	uint64_t *ends;		 /* of each thread's last call */
	size_t ends_count, ends_capacity;
	struct sketch *sketch;
	uint64_t count, total_ns, max_ns;
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
	unsigned gpu_class;  /* GPU_CLASS_WAITS */
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
	struct gaps *gaps;		    /* NULL: its calls are no inferences, or none came */
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

struct calls {
	struct context *contexts; /* by id */
	size_t contexts_capacity, contexts_count;
	struct profile_function *functions; /* by id - 1; id 0: not described */
	size_t functions_capacity, functions_count;
	struct row **rows;
	size_t rows_capacity, rows_count;
	struct map64 row_ids; /* process << 32 | function → rows[] */
	struct profile_perf_counter perf_counters[PERFX_PERF_COUNTERS];
	const char *perf_counters_why;
	bool has_off_cpu; /* a call waited: that was measured */
};

static inline void sums_add(struct sums *sums, uint64_t calls, uint64_t total, uint64_t self)
{
	add_up(&sums->calls_count, calls);
	add_up(&sums->total_ns, total);
	add_up(&sums->self_ns, self);
}

/* The function of an id; NULL: it is beyond those that are described. */
static inline struct profile_function *function_at(const struct aggregate *aggregate, uint32_t id)
{
	return id && id <= aggregate->calls->functions_count ? &aggregate->calls->functions[id - 1]
							     : NULL;
}

/* NULL: no record has named it. Context 0 is nobody's. */
static inline struct context *context_find(const struct aggregate *aggregate, uint32_t id)
{
	return id < aggregate->calls->contexts_count ? &aggregate->calls->contexts[id] : NULL;
}

/* calls.c */
/* NULL: the process has not called the function. */
struct row *row_find(const struct aggregate *aggregate, uint32_t process, uint32_t function);
/* The row of a context that is described; *row is NULL where it is not, or is out of range. 0 or
 * -ENOMEM. */
int context_row(struct aggregate *aggregate, uint32_t id, struct row **row);
/* The row and sums of a span whose context is new, not known, or contradicts an earlier one.
 * *row is NULL when the span cannot be used. 0 or -ENOMEM. */
int calls_place(struct aggregate *aggregate, const struct perfx_span *span, struct row **row,
		struct sums **sums);
/* Where a span's sums are, of one that has been added. NULL: nowhere. */
struct sums *calls_sums(struct aggregate *aggregate, const struct perfx_span *span);

/* calls_finish.c */
/* NULL: its process or function was never described. */
struct profile_process *process_of(const struct finish_ctx *ctx, const struct row *row);
/* The caller's context; 0: untraced code, or not known. */
uint32_t parent_of(const struct calls *calls, const struct context *context);
int calls_fill(struct finish_ctx *ctx);

/* costs.c */
/* A span whose function has a known cost. 0 or -ENOMEM. */
int costs_span(struct aggregate *aggregate, struct costs **costs, const struct perfx_span *span);
int costs_overflow(struct costs **costs, const struct perfx_overflow_calls *record);
/* Calls without a record that are taken to have this cost. 0 or -ENOMEM. */
int costs_assumed(struct costs **costs, const struct perfx_span *span, uint64_t count);

#endif
