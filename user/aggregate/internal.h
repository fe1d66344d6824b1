/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What aggregate's files share. Events go into tables that are direct arrays by id (a span costs no
 * look-up by hash); finish.c makes the profile of them.
 */
#ifndef PERFX_AGGREGATE_INTERNAL_H
#define PERFX_AGGREGATE_INTERNAL_H

#include "aggregate/aggregate.h"
#include "aggregate/memory.h"
#include "aggregate/steps.h"
#include "aggregate/user_values.h"
#include "base/grow.h"
#include "base/map64.h"

#include <errno.h>
#include <string.h>

typedef unsigned __int128 u128;

/* What calls of functions whose work is known computed. */
struct costs {
	struct profile_cost cost;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t counted_ns, unread_ns, nested_ns;
	uint64_t opaque_ns; /* self */
};

struct sums {
	uint64_t calls_count, total_ns, self_ns;
	struct costs *costs; /* NULL: not such a function */
};

/* One function in one process. Calls, total and self are kept by context; here is what a context
 * has no room for. */
struct row {
	uint32_t index; /* in rows[] */
	uint32_t process, function;
	uint64_t untimed_count, unwound_count;
	uint64_t recorded_count, overflow_count; /* timed, by where they came from */
	uint64_t min_ns, max_ns;		 /* of the recorded ones */
	u128 sum_ns, sum_squares;
	bool squares_overflowed;
	unsigned step_class; /* steps.h */
	struct sketch *sketch;
	struct sums orphans; /* calls whose context is not known */
	/* distinct threads: a bit for each of the process's */
	uint32_t last_tid;
	uint64_t threads_count;
	uint64_t *thread_bits;
	size_t thread_words;
	struct profile_call_counters *perf; /* NULL: nothing */
};

/* A node of the calling-context tree. It belongs to the process and function that named it first.
 */
struct context {
	uint32_t process, function, parent;
	bool described;
	struct row *row; /* NULL: no call yet */
	struct sums sums;
};

/* What a run of an object's operation does; state NONE also where nothing is known yet. */
struct object_cost {
	uint64_t flops, bytes;
	uint8_t state, dtype;
	bool settled;
};

struct thread_sample {
	uint64_t time_ns, on_cpu_ns, runnable_ns;
};

/* What a thread's calls add up to, those that came as records (untraced.c). */
struct traced {
	bool seen;
	uint64_t first_ns, last_ns;
	uint64_t self_ns;
	/* Calls of traced functions that came after the last outermost one that ended: they lie in
	 * one that has not. */
	bool has_inner;
	uint64_t inner_from_ns, inner_self_ns;
};

struct thread {
	uint32_t tid;
	uint32_t samples_count;
	const char *comm;
	char state;
	struct thread_sample first, last;
	uint64_t hits_count; /* that its records stand for, about */
	struct traced traced;
};

enum process_origin {
	PROCESS_UNKNOWN = 0, /* named by other records only: not described */
	PROCESS_FOUND,	     /* the process was there when tracing began */
	PROCESS_FORKED,	     /* its counters began at 0 */
	PROCESS_EXECUTED     /* its counters go on from those before exec */
};

/* A process between fork or start of tracing and exec or exit. */
struct process {
	enum process_origin origin;
	uint32_t pid, ppid, exec_count;
	uint32_t old_process; /* PROCESS_EXECUTED: the index before */
	uint64_t start_boot_ns, from_ns, to_ns;
	bool closed, exited;
	bool has_rows; /* something was seen of it */
	int status;
	struct perfx_exit exit;
	const char *comm, *cmdline;

	bool has_usage;
	struct perfx_usage first, last;
	uint64_t rss_peak_bytes;
	struct profile_usage_point *points;
	size_t points_count, points_capacity;
	uint32_t points_stride, points_skipped; /* every stride-th sample is kept */

	struct map64 thread_ids; /* tid → threads[] */
	struct thread *threads;
	size_t threads_count, threads_capacity;
	size_t last_thread;	   /* that was asked for: the next record is often of the same */
	uint64_t hits_count;	   /* of all its threads */
	uint64_t overflow_self_ns; /* by the overflow sums: on which threads is not known */
	uint64_t unmatched_entries;
	struct profile_process_counters perf;
};

/* What the whole machine used, by the earliest and the latest sample of it. */
struct host_usage {
	uint64_t first_ns, last_ns; /* 0: no sample */
	uint64_t first_busy_ns, last_busy_ns;
	uint64_t first_steal_ns, last_steal_ns;
};

struct aggregate {
	struct pool strings;
	struct host_usage host_usage;
	struct process **processes;		    /* by process index */
	size_t processes_capacity, processes_count; /* count: highest index + 1 */
	struct context *contexts;		    /* by id */
	size_t contexts_capacity, contexts_count;
	struct profile_function *functions; /* by id - 1; id 0: not described */
	size_t functions_capacity, functions_count;
	struct row **rows;
	size_t rows_capacity, rows_count;
	struct map64 row_ids; /* process << 32 | function → rows[] */
	struct profile_probe *probes;
	size_t probes_capacity, probes_count;
	struct map64 probe_ids; /* id → probes[] */
	struct profile_late *late;
	size_t late_capacity, late_count;
	struct profile_not_attached *not_attached;
	size_t not_attached_capacity, not_attached_count;
	struct perfx_calibration *calibrations;
	size_t calibrations_capacity, calibrations_count;
	struct perfx_peak *peaks;
	size_t peaks_capacity, peaks_count;
	struct profile_perf_counter perf_counters[PERFX_PERF_COUNTERS];
	const char *perf_counters_why;
	struct memory memory;
	struct steps steps;
	struct values values;
	struct profile_interval *recording_windows; /* to_ns UINT64_MAX: open */
	size_t recording_windows_capacity, recording_windows_count;
	struct object_cost *object_costs; /* by id */
	size_t object_costs_capacity, object_costs_count;
	struct perfx_span *waiting; /* whose work was not known yet */
	size_t waiting_capacity, waiting_count;

	bool has_host, has_end;
	struct perfx_host host;
	const char *host_strings[5];
	struct perfx_end end;
	struct perfx_time_slice time_slice;
	const char *time_slice_why; /* NULL: the capture is a whole recording */
	uint64_t first_ns, last_ns; /* times seen in records */
	uint64_t losses[PERFX_LOSS_KINDS];

	struct profile profile;
};

static inline uint64_t add_capped(uint64_t a, uint64_t b)
{
	uint64_t sum;

	/* PROFILE_ABSENT is no sum */
	return __builtin_add_overflow(a, b, &sum) || sum == UINT64_MAX ? UINT64_MAX - 1 : sum;
}

static inline void sums_add(struct sums *sums, uint64_t calls, uint64_t total, uint64_t self)
{
	sums->calls_count = add_capped(sums->calls_count, calls);
	sums->total_ns = add_capped(sums->total_ns, total);
	sums->self_ns = add_capped(sums->self_ns, self);
}

/* The record cannot be used. */
static inline int undecoded(struct aggregate *aggregate)
{
	aggregate->losses[PERFX_LOSS_UNDECODED]++;
	return 0;
}

static inline void saw_time(struct aggregate *aggregate, uint64_t time_ns)
{
	if (time_ns < aggregate->first_ns)
		aggregate->first_ns = time_ns;
	if (time_ns > aggregate->last_ns)
		aggregate->last_ns = time_ns;
}

/* The part of a path behind its last slash. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* calls.c: spans, contexts, overflow sums. Each returns 0 or -ENOMEM. */
int calls_span(struct aggregate *aggregate, const struct perfx_span *span);
int calls_context(struct aggregate *aggregate, const struct perfx_context *record);
int calls_overflow(struct aggregate *aggregate, const struct perfx_overflow_calls *record);
/* The row of a context that is described; NULL: it is not, or is out of range. */
int calls_context_row(struct aggregate *aggregate, uint32_t id, struct row **row);
void row__free(struct row *row);
/* Where a span's sums are, of one that calls_span has taken. NULL: nowhere. */
struct sums *calls_sums(struct aggregate *aggregate, const struct perfx_span *span);

/* object_costs.c: what objects' runs compute. Each returns 0 or -ENOMEM. */
int object_costs_add(struct aggregate *aggregate, const struct perfx_object_cost *record);
int object_costs_span(struct aggregate *aggregate, struct costs **costs,
		      const struct perfx_span *span);
/* At the end: those that were waiting. */
int object_costs_settle(struct aggregate *aggregate);

/* costs.c: what calls compute. Each returns 0 or -ENOMEM. */
int costs_span(struct costs **costs, const struct perfx_span *span);
int costs_overflow(struct costs **costs, const struct perfx_overflow_calls *record);
void cost_add(struct profile_cost *cost, const struct profile_cost *more);

/* perf_counters.c: perf events counted during calls. Each returns 0 or -ENOMEM. */
int perf_counters_add(struct aggregate *aggregate, const struct event *event);
int perf_counters_context(struct aggregate *aggregate, const struct perfx_call_counters *record);
int perf_counters_process(struct aggregate *aggregate, const struct perfx_process_counters *record);

/* process.c: processes, their usage and threads */
int process_described(struct aggregate *aggregate, const struct event *event);
int process_forked(struct aggregate *aggregate, const struct perfx_fork *record);
int process_executed(struct aggregate *aggregate, const struct perfx_exec *record);
int process_exited(struct aggregate *aggregate, const struct perfx_exit *record);
int process_sampled(struct aggregate *aggregate, const struct perfx_usage *record);
int process_thread_sampled(struct aggregate *aggregate, const struct event *event);
/* NULL when the index is out of range (errno ERANGE) or memory is out (ENOMEM). */
struct process *process_get(struct aggregate *aggregate, uint32_t process);
/* A record of a thread stands for so many hits of probes. 0 or -ENOMEM. */
int process_hits(struct aggregate *aggregate, uint32_t process, uint32_t tid, unsigned hits);
/* Its place among the process's threads, made when it is new: AGGREGATE_THREADS_MAX when there is
 * no more room, or -ENOMEM. */
int64_t process_thread(struct process *proc, uint32_t tid);
void process__free(struct process *proc);

/* memory.c and frames.c: what is allocated, freed and live. Each returns 0 or -ENOMEM. */
int memory_allocation(struct aggregate *aggregate, const struct perfx_allocation *record);
int memory_free(struct aggregate *aggregate, const struct perfx_free *record);
int memory_stack(struct aggregate *aggregate, const struct event *event);
int memory_allocator(struct aggregate *aggregate, const struct event *event);
int memory_mode(struct aggregate *aggregate, const struct perfx_memory_mode *record);
int memory_frame(struct aggregate *aggregate, const struct event *event);
int memory_overflow(struct aggregate *aggregate, const struct perfx_overflow_memory *record);

/* untraced.c: a call of a known process. 0 or -ENOMEM. */
int untraced_span(struct aggregate *aggregate, const struct perfx_span *span);
/* When rows, threads and steps of the process are filled. */
void untraced_fill(const struct aggregate *aggregate, const struct profile *profile,
		   struct profile_process *process);

/* facts.c: a closed or open process → its facts in the profile */
int facts_of_process(const struct aggregate *aggregate, uint32_t process,
		     struct profile_process *facts);

/* A call edge: a row and who called it. */
struct edge {
	uint32_t row, caller;
	uint64_t calls_count, total_ns;
};

/* What a row computes, own and inclusive. */
struct row_cost {
	struct costs own; /* unread_ns: less what is accounted for inside */
	struct profile_cost inclusive;
	uint64_t dtypes[PERFX_DTYPES]; /* inclusive flops */
	uint64_t computing_ns;
	uint32_t open; /* how often it is on the path, while the tree is walked */
};

/* What finish.c, rows.c and compute.c share while a profile is made. */
struct finish_ctx {
	struct aggregate *a;
	struct profile *profile;
	struct sums *sums;	    /* by row */
	struct row_cost *row_costs; /* by row; NULL: no known cost anywhere */
	uint32_t *places;   /* by process index: where in profile->processes, or MAP64_NONE */
	struct edge *edges; /* by row, then caller */
	size_t edges_count;
	uint32_t *rows_of;	 /* by place: how many rows */
	uint64_t hidden_records; /* of processes and functions that nothing described */
};

/* finish.c */
void profile_clear(struct profile *profile);
/* Over before the capture begins, and nothing came late of it. */
bool process_is_bygone(const struct aggregate *aggregate, const struct process *proc);

/* compute.c. Before the rows are filled: what each computes. 0 or -ENOMEM. */
int compute_sum(struct finish_ctx *ctx);
/* What a row computes, as the profile says it. */
void compute_fill_row(const struct finish_ctx *ctx, const struct row *row, struct profile_row *out);
/* When they are filled: the processes' sums. 0 or -ENOMEM. */
int compute_fill(struct finish_ctx *ctx);

/* NULL: nothing described its process or its function. */
struct profile_process *process_of(const struct finish_ctx *ctx, const struct row *row);
/* The caller's context; 0: untraced code, or not known. */
uint32_t parent_of(const struct aggregate *aggregate, const struct context *context);

/* rows.c: fills the processes' rows, callers and contexts. 0 or -ENOMEM. */
int rows_fill(struct finish_ctx *ctx);

#endif
