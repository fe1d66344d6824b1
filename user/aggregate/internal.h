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
#include "aggregate/values.h"
#include "base/grow.h"
#include "base/map64.h"

#include <errno.h>
#include <string.h>

typedef unsigned __int128 u128;

/* What calls of functions whose work is known computed. */
struct figures {
	struct profile_work work;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t counted_ns, unread_ns, silenced_ns;
	uint64_t opaque_ns; /* self */
};

struct sums {
	uint64_t calls_count, total_ns, self_ns;
	struct figures *figures; /* NULL: not such a function */
};

/* One function in one process. Calls, total and self are kept by context; here is what a context
 * has no room for. */
struct row {
	uint32_t index; /* in rows[] */
	uint32_t process, function;
	uint64_t untimed_count, unwound_count;
	uint64_t recorded_count, booked_count; /* timed, by where they came from */
	uint64_t min_ns, max_ns;	       /* of the recorded ones */
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
	struct profile_metered *metered; /* NULL: nothing */
};

/* A node of the calling-context tree. It belongs to the process and function that named it first.
 */
struct context {
	uint32_t process, function, parent;
	bool described;
	struct row *row; /* NULL: no call yet */
	struct sums sums;
};

/* What a run of an object's operation does; state NONE also where nothing has been told. */
struct object_work {
	uint64_t flops, bytes;
	uint8_t state, dtype;
	bool told;
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

enum book_origin {
	BOOK_UNKNOWN = 0, /* named by other records only: not described */
	BOOK_FOUND,	  /* the process was there when tracing began */
	BOOK_FORKED,	  /* its counters began at 0 */
	BOOK_EXECUTED	  /* its counters go on from the book before */
};

/* A process between fork or start of tracing and exec or exit. */
struct book {
	enum book_origin origin;
	uint32_t pid, ppid, exec_count;
	uint32_t old_process; /* BOOK_EXECUTED: the book before */
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
	size_t last_thread;	 /* that was asked for: the next record is often of the same */
	uint64_t hits_count;	 /* of all its threads */
	uint64_t booked_self_ns; /* by the overflow book: on which threads is not known */
	uint64_t unmatched_entries;
	struct profile_metered_process metered;
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
	struct book **books;		    /* by process index */
	size_t books_capacity, books_count; /* count: highest index + 1 */
	struct context *contexts;	    /* by id */
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
	struct profile_meter meters[PERFX_METERS];
	const char *meters_why;
	struct memory memory;
	struct steps steps;
	struct values values;
	struct profile_window *windows; /* to_ns UINT64_MAX: open */
	size_t windows_capacity, windows_count;
	struct object_work *works; /* by id */
	size_t works_capacity, works_count;
	struct perfx_span *waiting; /* whose work had not been told yet */
	size_t waiting_capacity, waiting_count;

	bool has_host, has_end;
	struct perfx_host host;
	const char *host_strings[5];
	struct perfx_end end;
	struct perfx_part part;
	const char *part_why;	    /* NULL: the capture is a whole recording */
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

/* calls.c: spans, contexts, overflow book. Each returns 0 or -ENOMEM. */
int calls_span(struct aggregate *aggregate, const struct perfx_span *span);
int calls_context(struct aggregate *aggregate, const struct perfx_context *record);
int calls_book(struct aggregate *aggregate, const struct perfx_book *record);
/* The row of a context that is described; NULL: it is not, or is out of range. */
int calls_context_row(struct aggregate *aggregate, uint32_t id, struct row **row);
void row__free(struct row *row);
/* Where a span's sums are, of one that calls_span has taken. NULL: nowhere. */
struct sums *calls_sums(struct aggregate *aggregate, const struct perfx_span *span);

/* works.c: what objects' runs compute. Each returns 0 or -ENOMEM. */
int works_add(struct aggregate *aggregate, const struct perfx_work *record);
int works_span(struct aggregate *aggregate, struct figures **figures,
	       const struct perfx_span *span);
/* At the end: those that were waiting. */
int works_settle(struct aggregate *aggregate);

/* figures.c: what calls compute. Each returns 0 or -ENOMEM. */
int figures_span(struct figures **figures, const struct perfx_span *span);
int figures_book(struct figures **figures, const struct perfx_book *record);
void work_add(struct profile_work *work, const struct profile_work *more);

/* meters.c: perf events counted during calls. Each returns 0 or -ENOMEM. */
int meters_meter(struct aggregate *aggregate, const struct event *event);
int meters_context(struct aggregate *aggregate, const struct perfx_metered *record);
int meters_process(struct aggregate *aggregate, const struct perfx_metered_process *record);

/* books.c: processes, their usage and threads */
int books_process(struct aggregate *aggregate, const struct event *event);
int books_fork(struct aggregate *aggregate, const struct perfx_fork *record);
int books_exec(struct aggregate *aggregate, const struct perfx_exec *record);
int books_exit(struct aggregate *aggregate, const struct perfx_exit *record);
int books_usage(struct aggregate *aggregate, const struct perfx_usage *record);
int books_thread(struct aggregate *aggregate, const struct event *event);
/* NULL when the index is out of range (errno ERANGE) or memory is out (ENOMEM). */
struct book *books_get(struct aggregate *aggregate, uint32_t process);
/* A record of a thread stands for so many hits of probes. 0 or -ENOMEM. */
int books_hits(struct aggregate *aggregate, uint32_t process, uint32_t tid, unsigned hits);
/* Its place among the book's threads, made when it is new: AGGREGATE_THREADS_MAX when there is no
 * more room, or -ENOMEM. */
int64_t book_thread(struct book *book, uint32_t tid);
void book__free(struct book *book);

/* memory.c and frames.c: what is allocated, freed and held. Each returns 0 or -ENOMEM. */
int memory_allocation(struct aggregate *aggregate, const struct perfx_allocation *record);
int memory_free(struct aggregate *aggregate, const struct perfx_free *record);
int memory_stack(struct aggregate *aggregate, const struct event *event);
int memory_allocator(struct aggregate *aggregate, const struct event *event);
int memory_mode(struct aggregate *aggregate, const struct perfx_memory_mode *record);
int memory_frame(struct aggregate *aggregate, const struct event *event);
int memory_book(struct aggregate *aggregate, const struct perfx_memory_book *record);

/* untraced.c: a call of a process that has a book. 0 or -ENOMEM. */
int untraced_span(struct aggregate *aggregate, const struct perfx_span *span);
/* When rows, threads and steps of the process are filled. */
void untraced_fill(const struct aggregate *aggregate, const struct profile *profile,
		   struct profile_process *process);

/* facts.c: a closed or open book → what the profile says of its process */
int facts_of_process(const struct aggregate *aggregate, uint32_t process,
		     struct profile_process *facts);

/* A call edge: a row and who called it. */
struct edge {
	uint32_t row, caller;
	uint64_t calls_count, total_ns;
};

/* What a row computes, own and inclusive. */
struct row_work {
	struct figures own; /* unread_ns: less what is accounted for inside */
	struct profile_work inclusive;
	uint64_t dtypes[PERFX_DTYPES]; /* inclusive flops */
	uint64_t work_ns;
	uint32_t open; /* how often it is on the path, while the tree is walked */
};

/* What finish.c, rows.c and compute.c share while a profile is made. */
struct work {
	struct aggregate *a;
	struct profile *profile;
	struct sums *sums;	/* by row */
	struct row_work *works; /* by row; NULL: no figure anywhere */
	uint32_t *places;	/* by process index: where in profile->processes, or MAP64_NONE */
	struct edge *edges;	/* by row, then caller */
	size_t edges_count;
	uint32_t *rows_of;	 /* by place: how many rows */
	uint64_t hidden_records; /* of processes and functions that nothing described */
};

/* finish.c */
void profile_clear(struct profile *profile);
/* Over before the capture begins, and nothing came late of it. */
bool book_is_bygone(const struct aggregate *aggregate, const struct book *book);

/* compute.c. Before the rows are filled: what each computes. 0 or -ENOMEM. */
int compute_sum(struct work *work);
/* What a row computes, as the profile says it. */
void compute_fill_row(const struct work *work, const struct row *row, struct profile_row *out);
/* When they are filled: the processes' sums. 0 or -ENOMEM. */
int compute_fill(struct work *work);

/* NULL: nothing described its process or its function. */
struct profile_process *process_of(const struct work *work, const struct row *row);
/* The caller's context; 0: untraced code, or not known. */
uint32_t parent_of(const struct aggregate *aggregate, const struct context *context);

/* rows.c: fills the processes' rows, callers and contexts. 0 or -ENOMEM. */
int rows_fill(struct work *work);

#endif
