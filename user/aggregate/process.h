/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes: when they begin and end, their threads, samples of their usage.
 */
#ifndef PERFX_AGGREGATE_PROCESS_H
#define PERFX_AGGREGATE_PROCESS_H

#include "aggregate/state.h"
#include "aggregate/statistics.h"
#include "base/grow.h"

/* The last collectives of a process: when it came to them, and when they ended. */
struct collectives {
	struct profile_collective *list; /* in the order of the stream: by their ends */
	size_t capacity, count;
};

struct thread_sample {
	uint64_t time_ns, on_cpu_ns, runnable_ns;
};

/* Sums over the calls of a thread that came as records, for its time outside of traced calls. */
struct traced {
	bool seen;
	uint64_t first_ns, last_ns;
	uint64_t self_ns;
	/* Inner calls that ended after the last outermost one: their outermost call is still open.
	 */
	bool has_inner;
	uint32_t inner_context; /* of one of them */
	uint64_t inner_from_ns, inner_self_ns;
};

struct thread {
	uint32_t tid;
	uint32_t samples_count;
	const char *comm;
	char state;
	struct thread_sample first, last;
	uint64_t start_ns;   /* when it began; 0: not known */
	uint64_t hits_count; /* estimated from its records */
	struct traced traced;
};

enum process_origin {
	PROCESS_UNKNOWN = 0, /* only named by other records */
	PROCESS_FOUND,	     /* running when tracing began */
	PROCESS_FORKED,	     /* its counters began at 0 */
	PROCESS_EXECUTED     /* its counters continue those before exec */
};

/* A process, from fork, exec or the start of tracing to exec, exit or the end. */
struct process {
	enum process_origin origin;
	uint32_t pid, ppid, exec_count;
	uint32_t merged;      /* the capture that it comes from; 0: this one */
	uint32_t old_process; /* PROCESS_EXECUTED: the index before */
	uint64_t start_boot_ns, from_ns, to_ns;
	bool closed, exited;
	bool launched;	/* by the tracer */
	bool has_rows;	/* it called a traced function */
	bool sets_up;	/* it mapped files to be traced before it called any traced function */
	bool has_steps; /* that are marked */
	int status;
	struct perfx_exit exit;
	const char *comm, *cmdline;

	bool has_usage;
	struct perfx_usage first, last;
	bool has_limits;
	struct perfx_limits limits; /* the last ones */
	struct profile_limits_point *limits_points;
	size_t limits_points_count;
	struct thinning limits_points_thinning;
	uint64_t rss_peak_bytes;
	struct profile_memory_sums memory_sums;
	struct thinning memory_sums_thinning;
	struct profile_usage_point *points;
	size_t points_count;
	struct thinning points_thinning;

	struct map64 thread_ids; /* tid → threads[] */
	struct thread *threads;
	size_t threads_count, threads_capacity;
	size_t last_thread;	   /* looked up last: often the next record's too */
	uint64_t hits_count;	   /* of all its threads */
	uint64_t overflow_self_ns; /* from overflow sums: threads unknown */
	uint64_t unmatched_entries, samples_lost;
	struct map64 frame_ids; /* address → frames of struct stacks, innermost */
	const char *python_version, *python_why; /* NULL: no PYTHON record */
	bool python_frames;
	struct profile_rank rank;
	struct profile_place place;
	struct collectives collectives;
	uint64_t gone_count; /* Python frames that could not be named */
	struct profile_process_counters perf;
};

struct processes {
	struct process **list; /* by index; NULL: it was never named */
	size_t capacity, count;
};

/* NULL: no record has named it. */
static inline struct process *process_find(const struct aggregate *aggregate, uint32_t process)
{
	return process < aggregate->processes->count ? aggregate->processes->list[process] : NULL;
}

/* NULL with errno: ERANGE (the index is out of range), ENOMEM. */
struct process *process_get(struct aggregate *aggregate, uint32_t process);
/* A record of a thread stands for so many hits of probes. 0 or -ENOMEM. */
int process_hits(struct aggregate *aggregate, uint32_t process, uint32_t tid, unsigned hits);
/* Its place among the process's threads, made when it is new: AGGREGATE_THREADS_MAX when there is
 * no more room, or -ENOMEM. */
int64_t process_thread(struct process *proc, uint32_t tid);
/* It ended before the capture began, and no late record named it. */
bool process_is_bygone(const struct aggregate *aggregate, const struct process *proc);
/* Is the process still alive? ctx: the aggregate. */
bool process_goes_on(void *ctx, uint32_t process);

#endif
