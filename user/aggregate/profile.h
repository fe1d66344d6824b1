/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that events add up to: what analyze judges and report shows. Plain data; every report
 * is a view of it. Made by aggregate/aggregate.h, which owns all of it.
 *
 * Times are ns. UINT64_MAX (PROFILE_ABSENT) means "not measured"; writers leave such a field out.
 */
#ifndef PERFX_AGGREGATE_PROFILE_H
#define PERFX_AGGREGATE_PROFILE_H

#include "aggregate/profile_compute.h"
#include "aggregate/profile_memory.h"
#include "aggregate/profile_perf_counters.h"
#include "aggregate/profile_steps.h"
#include "aggregate/profile_user_values.h"
#include "aggregate/sketch.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_ABSENT UINT64_MAX

/* between a command line's arguments (ASCII unit separator) */
#define PROFILE_ARGUMENT_END '\x1f'

/* A traced function of a file, the same for every process. */
struct profile_function {
	uint32_t id;
	enum perfx_source source;
	const char *name, *module, *module_base, *build_id;
	uint64_t offset;
	enum perfx_return ret; /* how it is timed */
	unsigned flags;	       /* PERFX_FUNCTION_ */
};

struct profile_probe {
	uint32_t id, function;
	uint64_t offset;
	enum perfx_link link;
	enum perfx_return ret;
	enum perfx_site site;
	bool is_exit;
	uint64_t hits_count;
	double cost_ns; /* of a hit, as seen while tracing, else as calibrated; 0: not known */
	double seen_hits_count, seen_ns; /* of the hits whose cost was seen */
};

/* Who called: one row per (function, calling function), calls descending. */
#define PROFILE_CALLER_UNTRACED UINT32_MAX	 /* untraced code */
#define PROFILE_CALLER_UNKNOWN	(UINT32_MAX - 1) /* the calling context was lost */

struct profile_caller {
	uint32_t caller;
	uint64_t calls_count, total_ns;
};

#define PROFILE_THREADS_EXACT 4096

/* One function in one process. */
struct profile_row {
	uint32_t function;
	uint64_t calls_count;	    /* ended while tracing */
	uint64_t timed_count;	    /* of these, with a measured time */
	uint64_t unwound_count;	    /* of these, ended by exception or longjmp */
	uint64_t overflow_count;    /* of the timed ones, from the overflow sums: in total and self,
			       but    not  in min, max, spread and percentiles */
	uint64_t total_ns, self_ns; /* over the timed ones */
	uint64_t avg_ns; /* floor(total / timed); PROFILE_ABSENT when nothing was timed */
	/* Of recorded calls; PROFILE_ABSENT when none was timed through the ring. */
	uint64_t min_ns, max_ns, p50_ns, p95_ns, p99_ns;
	double stddev_ns;	     /* of the population of recorded calls; < 0: absent */
	const struct sketch *sketch; /* their durations; NULL when there are none */
	/* Distinct threads that called it (recorded calls). Exact as long as the process has shown
	 * at most PROFILE_THREADS_EXACT threads; of later ones only some are counted. */
	uint64_t threads_count;
	struct profile_caller *callers;
	size_t callers_count;
	/* Allocated while it was the innermost traced function, in the domain that comes first of
	 * tensor, host, gpu, user; PROFILE_ABSENT: memory was not recorded. */
	uint64_t alloc_bytes;
	struct profile_cost cost;      /* of its own calls */
	struct profile_cost inclusive; /* and of all that they call, once where it calls itself */
	enum perfx_dtype
		dtype; /* of most operations in `inclusive`; UNKNOWN: all are overflow calls */
	/* Of total_ns the time that `inclusive` took: not that of calls in another call of it, nor
	 * of nested ones. 0 when no function of the capture has a known cost. */
	uint64_t computing_ns;
	const struct profile_call_counters *perf; /* NULL: nothing was to be counted */
};

/* Older points of a long series are thinned out: at most this many are kept. */
#define PROFILE_POINTS_MAX 1024

struct profile_usage_point {
	uint64_t time_ns;
	uint64_t cpu_ns; /* user and system, since the process started */
	uint64_t rss_bytes, rss_anon_bytes;
	uint64_t read_bytes, write_bytes;
};

struct profile_thread {
	uint32_t tid;
	const char *comm;
	char state;	  /* last seen; 0: unknown */
	uint64_t wall_ns; /* between its first and last sample; PROFILE_ABSENT: it came or went
			     meanwhile */
	uint64_t on_cpu_ns, runnable_ns, blocked_ns; /* while recorded; PROFILE_ABSENT */
	uint64_t hits_count;			     /* of probes, about: for shares */
};

/* A node of the calling-context tree, for flame graphs. Sums over recorded and overflow calls. */
struct profile_context {
	uint32_t id, parent, function;
	uint64_t calls_count, total_ns, self_ns;
};

/*
 * One thread's time outside of all traced calls: of the thread that runs the steps; otherwise of
 * the main thread, if it called a traced function; otherwise of the one that was in them the
 * longest. Calls that ran already when tracing began are not known, nor is the time of those that
 * were counted only or left by an exception: it is here, too.
 */
#define PROFILE_UNTRACED_NAME "(untraced)"
#define PROFILE_RUNNING_NAME  "(in calls still running at the end)"

struct profile_untraced {
	uint32_t tid; /* 0: no call was timed, and nothing below is known */
	const char *comm;
	uint64_t wall_ns;    /* how long the thread was there and recorded */
	uint64_t self_ns;    /* of that outside */
	uint64_t running_ns; /* own time of calls that had not ended, as far as it is known */
	bool at_least;	     /* calls from the overflow sums may be other threads': all count */
	uint64_t on_cpu_min_ns, on_cpu_max_ns; /* of self_ns; PROFILE_ABSENT */
};

struct profile_process {
	uint32_t index;
	uint32_t pid, ppid, exec_count;
	uint64_t start_boot_ns;
	const char *comm;
	const char *cmdline;	 /* arguments joined by PROFILE_ARGUMENT_END */
	uint64_t from_ns, to_ns; /* when it was open */
	bool exited;
	int status; /* as wait(2); valid when exited */

	uint64_t cpu_user_ns, cpu_system_ns; /* used while recorded */
	uint64_t cpu_ns;		     /* both */
	uint64_t rss_bytes, rss_peak_bytes;  /* last; highest seen */
	uint64_t rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t read_bytes, write_bytes, net_rx_bytes, net_tx_bytes;
	uint64_t kernel_threads_count; /* threads it has, last seen */
	uint64_t major_faults_count;
	uint64_t throttled_ns, throttled_count, throttle_periods_count;
	struct profile_usage_point *points; /* the series */
	size_t points_count;

	struct profile_row *rows; /* self time, then calls, descending */
	size_t rows_count;
	uint64_t calls_count, self_ns; /* sums over the rows */
	struct profile_untraced untraced;
	struct profile_thread *threads; /* on-CPU time descending */
	size_t threads_count;
	struct profile_context *contexts;
	size_t contexts_count;
	uint64_t seen_hits_count;   /* as its threads' hits_count, of all of them */
	uint64_t unmatched_entries; /* its share of the loss */

	struct profile_memory *memory; /* by domain, ascending; those that were recorded */
	size_t memory_count;

	struct profile_compute compute;
	struct profile_steps steps;
	struct profile_user_value *values; /* the program's own counters, by name */
	size_t values_count;
	struct profile_process_counters perf;
};

/* --wait: a time in which was recorded. */
struct profile_interval {
	uint64_t from_ns, to_ns;
};

struct profile_not_attached {
	const char *name, *reason;
	uint32_t count;
	bool by_design; /* attaching cannot do it: a hint, no failure */
};

/* A process of which something was not seen, because its probes came late. */
struct profile_late {
	const char
		*module;  /* the first of the files; "": it ended before the tracer looked at it */
	uint32_t process; /* index */
	uint32_t functions_count, files_count; /* that are traced since; 0: it ended */
	enum perfx_late_cause cause;
	uint64_t late_ns; /* how long it was not traced, or lived */
};

/* Why a report is partial. */
#define PROFILE_PARTIAL_KILLED	  0x1 /* the target, by a signal */
#define PROFILE_PARTIAL_TRUNCATED 0x2 /* the capture has no end, or a damaged one */
#define PROFILE_PARTIAL_LOSSY	  0x4 /* a loss above PROFILE_LOSSY_SHARE */

#define PROFILE_LOSSY_SHARE 0.01

/* A capture of a time slice of a recording. */
struct profile_time_slice {
	unsigned flags;		 /* PERFX_TIME_SLICE_; 0: it is the whole */
	uint64_t recording_ns;	 /* when that began */
	uint64_t left_out_count; /* calls that are known only as sums of a time that was cut */
	const char *why;	 /* why it was taken; "": it was wanted */
};

struct profile {
	const char *host_name, *kernel, *boot_id, *command, *tool_version;
	uint32_t cpus_count, memory_mib, ring_bytes;
	bool compensated;
	uint64_t start_ns, start_unix_ns, duration_ns;
	uint64_t start_boot_ns; /* start_ns by CLOCK_BOOTTIME */
	bool ended;		/* has its END record: not truncated */
	bool target_killed, interrupted;
	struct profile_interval
		*recording_windows; /* in order, in the capture's time; none: all of it */
	size_t recording_windows_count;
	/* CPU time of the whole machine, and what the hypervisor took of it, while processes were
	 * sampled; PROFILE_ABSENT */
	uint64_t host_busy_ns, host_steal_ns;
	uint64_t tracer_cpu_ns, tracer_rss_anon_bytes; /* PROFILE_ABSENT when truncated */
	uint64_t recording_cpu_ns; /* of tracer_cpu_ns, while it recorded; 0: unknown */
	uint64_t looks_count, untraced_read_count; /* likewise; as in struct perfx_end */
	unsigned partial;			   /* PROFILE_PARTIAL_ */
	struct profile_time_slice time_slice;
	uint64_t losses[PERFX_LOSS_KINDS];
	uint64_t calls_count;	       /* over all processes */
	uint64_t memory_records_count; /* allocations and frees that came as records */
	uint64_t value_samples_count;

	const struct profile_function *functions; /* by id: use profile_function() */
	size_t functions_count;
	const struct profile_probe *probes; /* as they were attached */
	size_t probes_count;
	const struct profile_not_attached *not_attached;
	size_t not_attached_count;
	const struct profile_late *late; /* in order of time */
	size_t late_count;
	const struct perfx_calibration *calibrations;
	size_t calibrations_count;
	const struct perfx_peak *peaks; /* what the host can do, by dtype and number of threads */
	size_t peaks_count;
	struct profile_perf_counter
		perf_counters[PERFX_PERF_COUNTERS]; /* some or all without a name */
	const char *perf_counters_why;		    /* some or all are missing; NULL: none is */
	struct profile_process *processes;	    /* in order of their start */
	size_t processes_count;

	uint64_t hits_count; /* over all probes */
	double overhead_ns;  /* sum of hits × cost */
	/* By how much the thread takes longer that bears most of the hits' cost: its CPU time is
	 * that of the untraced program and theirs together, and on a busy machine it waits for the
	 * tracer. 90: 1.9 times as long; < 0: unknown. Of all processes where it is not known whose
	 * hits these were. */
	double overhead_percent;
};

/* The share of calls that a loss took from what the report shows: count / (calls + count). 0 for
 * those that take nothing: calls that began before or end after the recording, foreign hits. */
double profile_loss_share(const struct profile *profile, enum perfx_loss_kind loss);

/* NULL when the id is unknown. */
const struct profile_function *profile_function(const struct profile *profile, uint32_t id);

/* CPU time of programs that were neither traced nor the tracer; PROFILE_ABSENT. */
uint64_t profile_others_cpu_ns(const struct profile *profile);

struct profile_late_sum {
	size_t late_count, ended_count; /* processes; a process may be late with several files */
	const struct profile_late *latest, *longest; /* the worst of either; NULL: none */
};
struct profile_late_sum profile_late_sum(const struct profile *profile);

/* How long the process was open. */
static inline uint64_t profile_wall_ns(const struct profile_process *process)
{
	return process->to_ns - process->from_ns;
}

/* What of a time was recorded; CLOCK_MONOTONIC. */
uint64_t profile_recorded_between(const struct profile *profile, uint64_t from_ns, uint64_t to_ns);

/* What of the process's was. */
uint64_t profile_recorded_ns(const struct profile *profile, const struct profile_process *process);

#endif
