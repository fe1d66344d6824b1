/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that events add up to, which analyze judges and report shows. Plain data; every report
 * is a view of it. Made by aggregate/aggregate.h, which owns all of it.
 *
 * Times are ns. UINT64_MAX (PROFILE_ABSENT) means "not measured"; writers leave such a field out.
 */
#ifndef PERFX_AGGREGATE_PROFILE_H
#define PERFX_AGGREGATE_PROFILE_H

#include "aggregate/profile_dump.h"
#include "aggregate/profile_end.h"
#include "aggregate/profile_gpu.h"
#include "aggregate/profile_memory.h"
#include "aggregate/profile_stack.h"
#include "aggregate/profile_steps.h"
#include "aggregate/statistics.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Floating-point work, as the arguments of BLAS calls, operators and kernels give it
 * (perfx_record.h: enum perfx_cost_state).
 */

/* Sums over recorded and overflow calls. All 0: no function with a known cost. */
struct profile_cost {
	uint64_t flops, bytes; /* bytes: of calls that compute */
	uint64_t moved_bytes;  /* of calls without an operation: collectives */
	/* Of these, over the bus (perfx_cost.h: enum perfx_bus), and of how many of them that is
	 * known. */
	uint64_t bus_bytes, bus_moved_bytes;
	uint64_t counted_count; /* calls with a known cost */
	uint64_t unread_count;	/* calls whose arguments could not be read */
	uint64_t nested_count;	/* calls whose work another call's cost contains */
	uint64_t opaque_count;	/* calls of compiled code: what it computes is not known */
	/* Of counted_count, calls that returned before their work was done; not known of those
	 * without a record. */
	uint64_t submitted_count;
	/* Of counted_count and nested_count, calls that the overhead budget only counts: their cost
	 * is that of the function's measured calls, which were all alike (reductions.c). */
	uint64_t assumed_count;
};

/* Of all that is moved it is known what goes over the bus. */
static inline bool profile_bus_known(const struct profile_cost *cost)
{
	return cost->moved_bytes && cost->bus_moved_bytes == cost->moved_bytes;
}

/* The costs of one kind of function in a process. */
struct profile_compute_source {
	enum perfx_source source;
	struct profile_cost cost;
};

/* The element type of operands. Overflow sums do not keep it: their calls are UNKNOWN. */
struct profile_compute_dtype {
	enum perfx_dtype dtype;
	uint64_t flops;
};

struct profile_compute {
	bool measured; /* a function with a known cost was attached in this process, or called */
	struct profile_cost cost;
	/* Time of timed calls, ns: of those that compute and have a known cost; and of those that
	 * have none although their function could have one (UNREAD), less that of calls inside them
	 * that do have one. Threads add up; of overflow calls it is shared out by their number. */
	uint64_t counted_ns, unread_ns;
	uint64_t timed_flops; /* of the calls of counted_ns */
	/* In compiled code whose work is not known, less what it calls. */
	uint64_t opaque_ns;
	/* The overhead budget removed a probe then, so `cost` is a lower bound; the process did
	 * until_flops before. 0: it did not. */
	uint64_t until_ns, until_flops;
	struct profile_compute_source *sources; /* flops descending */
	size_t sources_count;
	struct profile_compute_dtype *dtypes; /* flops descending */
	size_t dtypes_count;
};

/* A process that had a CPU while threads of another one waited for it. */
enum profile_rival_kind {
	PROFILE_RIVAL_OTHER = 0, /* a stranger, or a traced process of another job */
	PROFILE_RIVAL_OWN,	 /* the waiting process itself */
	PROFILE_RIVAL_JOB,	 /* another process of its job */
	PROFILE_RIVAL_TRACER,	 /* perfx-trace */
	PROFILE_RIVAL_KINDS
};

struct profile_rival {
	uint32_t pid;
	const char *name;
	enum profile_rival_kind kind;
	uint64_t ns; /* all threads that waited, added up; exact */
};

/*
 * A row of samples of a thread, each of which stands for an interval; or one of its waits, as an
 * exact sum by what it waited for. Samples are kept apart from all that is counted by call.
 */
struct profile_activity {
	uint32_t tid;
	uint32_t context; /* samples: of the innermost traced call; 0: none */
	/* A wait's is the one that was sampled most often; NULL: not known. */
	const struct profile_stack *stack;
	enum perfx_sample_state state; /* samples */
	enum perfx_wait_reason reason;
	uint16_t syscall; /* PERFX_WAIT_SYSCALL: its number */
	/* GIL: the thread that has it; FUTEX: the thread that woke it in most cases. 0: unknown */
	uint32_t holder_tid;
	/* RUNNABLE: the processes of this name that had the CPU meanwhile; `object` is the pid of
	 * the one that had it longest. */
	enum profile_rival_kind rival_kind;
	uint32_t rivals_count;
	uint64_t object; /* 0: none */
	enum perfx_object_kind object_kind;
	const char *object_name;    /* "": unknown */
	uint64_t count, ns, max_ns; /* max_ns: waits */
	/* The part of it outside of the steps' time (profile_steps.outside_ns). */
	uint64_t outside_count, outside_ns;
};

/* The part of it in the steps' time; without steps all of it. */
static inline uint64_t activity_judged_ns(const struct profile_activity *activity)
{
	return activity->ns - activity->outside_ns;
}

static inline uint64_t activity_judged_count(const struct profile_activity *activity)
{
	return activity->count - activity->outside_count;
}

/* The last sample of a thread that lived until the end of its process. */
struct profile_last_sample {
	uint32_t tid;
	const char *comm;	      /* "": unknown */
	uint64_t before_ns;	      /* how long before the end */
	struct profile_activity what; /* count 1, no time */
};

/* One sample of the thread of the steps. */
struct profile_step_sample {
	uint64_t time_ns;
	struct profile_activity what; /* count 1 */
};

struct profile_activities {
	struct profile_activity *list; /* ns descending */
	size_t count;
};

struct profile_sampling {
	uint64_t on_cpu_interval_ns, off_cpu_interval_ns; /* 0: off */
	enum perfx_stacks stacks;
	const char *why; /* there are no samples; "" */
};

/* Perf events counted during calls: the hardware's counters, or the kernel's own. */

struct profile_perf_counter {
	const char *name, *unit; /* NULL: no such counter */
	bool is_flops;
};

/* Of the calls of a function, on their own threads, with what they call there. */
struct profile_call_counters {
	uint64_t calls_count, missed_count;
	uint64_t values[PERFX_PERF_COUNTERS];
	/* Of those with a cost of their own: by the cost model, and by the counters. */
	uint64_t flops, counted_flops;
};

/* Of all threads of a process. */
struct profile_process_counters {
	uint64_t threads_count; /* 0: nothing is known */
	uint64_t values[PERFX_PERF_COUNTERS];
	uint64_t enabled_ns, running_ns; /* less: others wanted the processor's counters too */
};

/*
 * Values of the program's own, by name and process: what perfx_counter and perfx_counter_add gave.
 * (What perf events count is struct profile_perf_counter.)
 */

/* Older points of a long series are thinned out: at most this many are kept. */
#define PROFILE_VALUE_POINTS_MAX 256

struct profile_user_value_point {
	uint64_t time_ns;
	double value; /* from then on; finite */
};

struct profile_user_value {
	uint32_t id;
	const char *name;
	uint64_t samples_count;	 /* calls; exact */
	uint64_t added_count;	 /* of these, that added to it; the others set it */
	uint64_t strange_count;	 /* of these, that gave no finite number: only counted */
	uint64_t lost_count;	 /* of these, without a record: not in lowest and highest */
	uint64_t unsummed_count; /* of those, neither in the sum nor in the value */
	double value; /* at the end: as it was set last, and what was added since; of one that was
			 never set, what was added. No number: unknown */
	double sum, lowest, highest; /* of the numbers given; lowest > highest: none was */
	double rate; /* the sum by the seconds that were recorded; < 0 is possible */
	const struct profile_user_value_point *points; /* of the value */
	size_t points_count;
};

/* Of the GPUs that a process uses. */
struct profile_energy {
	uint64_t gpu_mj;   /* PROFILE_ABSENT: not measured */
	uint64_t steps_mj; /* of this in its steps; PROFILE_ABSENT likewise */
	bool estimated;	   /* it shared a GPU: by the time that its kernels ran */
};

/* Of the whole host, whoever used it; PROFILE_ABSENT: not measured. */
struct profile_host_energy {
	uint64_t host_uj; /* its processors and their memory */
	uint64_t host_ns; /* for so long */
	uint64_t gpu_mj;  /* the GPUs that traced processes use */
};

/* between a command line's arguments (ASCII unit separator) */
#define PROFILE_ARGUMENT_END '\x1f'

/* A traced function of a file, the same for every process. */
struct profile_function {
	uint32_t id;
	enum perfx_source source;
	const char *name, *module, *module_base, *build_id;
	const char *label; /* shown to users; NULL: name */
	uint64_t offset;
	enum perfx_return ret; /* how it is timed */
	unsigned flags;	       /* PERFX_FUNCTION_ */
};

static inline const char *function_label(const struct profile_function *function)
{
	return function->label ? function->label : function->name;
}

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

/* The Python line behind calls of a function, directly or through other traced functions. */
struct profile_python_caller {
	const struct profile_frame *frame;
	uint64_t calls_count, total_ns;
};

#define PROFILE_THREADS_EXACT 4096

/* One function in one process. */
struct profile_row {
	uint32_t function;
	/* Of inferences (PERFX_FUNCTION_INFERENCE), between two calls of one thread. */
	struct {
		uint64_t count;
		uint64_t total_ns, p50_ns, p99_ns, max_ns; /* PROFILE_ABSENT: none */
	} gaps;
	uint64_t calls_count;	    /* ended while tracing */
	uint64_t timed_count;	    /* of these, with a measured time */
	uint64_t unwound_count;	    /* of these, ended by exception or longjmp */
	uint64_t overflow_count;    /* of the timed ones, from the overflow sums: in total and self,
			       but    not  in min, max, spread and percentiles */
	uint64_t total_ns, self_ns; /* over the timed ones */
	uint64_t avg_ns; /* floor(total / timed); PROFILE_ABSENT when nothing was timed */
	/* Of recorded calls; PROFILE_ABSENT when none was timed through the ring. */
	uint64_t min_ns, max_ns, p50_ns, p95_ns, p99_ns;
	/* When they began on average, each weighted by its time (CLOCK_MONOTONIC): what runs only
	 * at first has it early. PROFILE_ABSENT likewise. */
	uint64_t center_ns;
	/* When the overhead budget removed the probes that show its calls; 0: it did not. A call
	 * that was open then is one for ever: it says nothing of what its thread did later. */
	uint64_t seen_until_ns;
	double stddev_ns;	     /* of the population of recorded calls; < 0: absent */
	const struct sketch *sketch; /* their durations; NULL when there are none */
	/* Distinct threads that called it (recorded calls). Exact as long as the process has shown
	 * at most PROFILE_THREADS_EXACT threads; of later ones only some are counted. */
	uint64_t threads_count;
	struct profile_caller *callers;
	size_t callers_count;
	const struct profile_python_caller *python_callers; /* total_ns descending; borrowed */
	size_t python_callers_count;
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
	/* Total of the recorded calls, and the part of it in which their threads were not on a CPU;
	 * off_cpu_ns PROFILE_ABSENT: not measured. */
	uint64_t recorded_ns, off_cpu_ns;
	uint64_t gpu_ns; /* device time of what it and its callees launched; PROFILE_ABSENT */
	/* Samples on CPUs of all threads of the process while its calls ran, how long that was, and
	 * the thread that called. during_ns 0: not known, or several threads did. */
	struct profile_activities during;
	uint64_t during_ns;
	uint32_t during_tid;
};

/* Did its calls take turns on their threads (fibres, coroutines)? They last longer than these
 * threads ran, so their self time is no share of a thread's time. */
static inline bool profile_row_overlaps(const struct profile_row *row, uint64_t wall_ns)
{
	return row->threads_count && !row->overflow_count &&
	       row->self_ns / row->threads_count > wall_ns;
}

/* Did a device do work for it? */
static inline bool profile_row_on_gpu(const struct profile_row *row)
{
	return row->gpu_ns && row->gpu_ns != PROFILE_ABSENT;
}

/* Older points of a long series are thinned out: at most this many are kept. */
#define PROFILE_POINTS_MAX 1024

struct profile_usage_point {
	uint64_t time_ns;
	uint64_t cpu_ns; /* user and system, since the process started */
	uint64_t rss_bytes, rss_anon_bytes, rss_shmem_bytes;
	uint64_t read_bytes, write_bytes;
};

struct profile_thread {
	uint32_t tid;
	const char *comm;
	char state; /* last seen; 0: unknown */
	/* while recorded, as its start and end are known; PROFILE_ABSENT */
	uint64_t wall_ns;
	uint64_t on_cpu_ns, runnable_ns, blocked_ns; /* while recorded; PROFILE_ABSENT */
	uint64_t hits_count;			     /* of probes, about: for shares */
};

/* A node of the calling-context tree, for flame graphs. Sums over recorded and overflow calls. */
struct profile_context {
	uint32_t id, parent, function;
	uint64_t calls_count, total_ns, self_ns;
	const struct profile_frame *caller; /* Python that called; NULL: none is known */
	const struct profile_stack *stack;  /* of its first call; NULL: not known */
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

/* What a process may use; PROFILE_ABSENT: no limit, or not known. */
struct profile_limits {
	uint32_t cpus_count;	  /* on which its threads may run; 0: not known */
	uint64_t cpu_limit_milli; /* thousandths of a CPU: the quota of its cgroups */
	/* limit and unreclaimable use of the cgroup that has the least memory left */
	uint64_t memory_limit_bytes, memory_used_bytes;
	uint64_t address_limit_bytes, address_used_bytes; /* RLIMIT_AS */
	uint64_t host_available_bytes;			  /* of the machine's memory */
	uint64_t shm_limit_bytes, shm_used_bytes;	  /* of its /dev/shm, by all processes */
	uint64_t descriptors_limit, descriptors_count;	  /* RLIMIT_NOFILE */
	uint64_t mappings_limit, mappings_count;	  /* vm.max_map_count */
	const struct profile_limits_point {
		uint64_t time_ns;
		uint64_t shm_used_bytes, descriptors_count;
	} * points; /* the series of those that may grow */
	size_t points_count;
};

/* Which of the processes of a job it is. */
struct profile_rank {
	uint32_t rank, world_size; /* world_size 0: it is none, or that is not known */
	uint32_t local_rank;	   /* on its machine; UINT32_MAX: not known */
	const char *source;	   /* the variable that says so */
	const char *job;	   /* the same for all ranks of a job; "": not known */
};

/* Where it runs: container, pod, job, unit. */
struct profile_place {
	const char *of[PERFX_PLACES]; /* by enum perfx_place_part; NULL: not known */
};

/* A collective of a process: from its arrival to the end, which all ranks see at nearly the same
 * moment. */
#define PROFILE_COLLECTIVES_MAX 16384

struct profile_collective {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	uint32_t function;
};

/* A capture that was merged into this one. */
struct profile_capture {
	const char *host_name, *kernel, *boot_id, *command, *tool_version;
	struct perfx_merged facts;
	uint64_t losses[PERFX_LOSS_KINDS];
};

/* Calls of the C library on files and sockets, exact. */
struct profile_file_calls {
	uint64_t ns; /* in all of these calls, of all threads */
	uint64_t opens_count, open_ns;
	uint64_t reads_count, read_bytes, read_ns;
	uint64_t sequential_count; /* reads that began where the one before ended */
	uint64_t stored_bytes;	   /* fetched from storage, with what was read ahead */
	uint64_t writes_count, write_bytes, write_ns;
	uint64_t answers_count, answer_ns; /* sockets: from a write to the first bytes */
	uint64_t errors_count;
	/* Major faults of mapped files, whose time is not known, and what they fetched. */
	uint64_t faults_count, fault_bytes;
};

/* Files of one folder with the same suffix, or a peer of sockets. */
struct profile_files {
	const char *name; /* "/data/train.bin", or with "*.jpg" at its end, "tcp 10.0.0.7:443" */
	const char *type; /* of the file system; "": of a socket, or unknown */
	bool is_socket;
	struct profile_file_calls calls; /* of all threads */
	struct profile_file_user {
		uint32_t tid; /* 0: of several threads */
		struct profile_file_calls calls;
	} * users; /* descending time */
	size_t users_count, users_capacity;
	/* Stacks of sampled calls, and the time in calls that each stands for, the longest
	 * first. */
	struct profile_file_sample {
		const struct profile_stack *stack; /* NULL: unknown */
		uint32_t id;
		uint64_t ns, count;
	} * samples;
	size_t samples_count, samples_capacity;
};

struct profile_process {
	uint32_t index;
	uint32_t merged; /* the capture that it comes from; 0: this one */
	uint32_t pid, ppid, exec_count;
	const struct profile_process *ancestor; /* outermost traced process above it; NULL: none */
	uint64_t start_boot_ns;
	const char *comm;
	const char *cmdline;	 /* arguments joined by PROFILE_ARGUMENT_END */
	uint64_t from_ns, to_ns; /* when it was open */
	bool exited;
	bool launched; /* by the tracer */
	bool sets_up;  /* it mapped files to be traced before it called any traced function */
	int status;    /* as wait(2); valid when exited */

	uint64_t cpu_user_ns, cpu_system_ns; /* used while recorded */
	uint64_t cpu_ns;		     /* both */
	uint64_t cpu_wall_ns;		     /* the time in which it was */
	uint64_t rss_bytes, rss_peak_bytes;  /* last; highest seen */
	uint64_t rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t read_bytes, write_bytes, net_rx_bytes, net_tx_bytes;
	uint64_t kernel_threads_count; /* threads it has, last seen */
	uint64_t major_faults_count;
	uint64_t throttled_ns, throttled_count, throttle_periods_count;
	struct profile_limits limits;	    /* last seen */
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
	const struct profile_memory_sums *memory_sums; /* NULL: none was read */

	struct profile_compute compute;
	struct profile_steps steps;
	struct profile_user_value *values; /* the program's own counters, by name */
	size_t values_count;
	struct profile_process_counters perf;
	struct profile_energy energy;

	struct profile_activities samples, blocked;
	struct profile_end end;	     /* valid when exited */
	struct profile_files *files; /* --files on; descending time */
	size_t files_count;
	struct profile_thread_state *states; /* of a dump, ascending tids; none: it is no dump */
	size_t states_count;
	struct profile_async_task *tasks; /* of a dump, in the order in which they were found */
	size_t tasks_count;
	struct profile_rival *rivals; /* ns descending */
	size_t rivals_count;
	struct profile_stack_quality stacks;
	struct profile_line *lines; /* the most expensive first */
	size_t lines_count;
	struct profile_python_caller *python_callers; /* of all rows */
	uint64_t samples_lost;
	struct profile_gpu gpu;
	const char *python_version; /* NULL: it is none that was recognised */
	const char *python_why;	    /* its frames are not recorded; "" */
	struct profile_rank rank;
	struct profile_place place;
	const struct profile_collective *collectives; /* the last, by their ends */
	size_t collectives_count;
};

/* --wait: a time in which was recorded. */
struct profile_interval {
	uint64_t from_ns, to_ns;
};

/* The length of the overlap of an interval and a time. */
uint64_t profile_overlap_ns(const struct profile_interval *interval, uint64_t from_ns,
			    uint64_t to_ns);

struct profile_not_attached {
	const char *name, *reason;
	uint32_t count;
	bool by_design; /* attaching cannot do it: a hint, no failure */
	bool waits;	/* `blocked` of all processes ends there, before the recording */
};

/* A process of which something was not seen, because its probes came late. */
struct profile_late {
	const char
		*module;  /* the first of the files; "": it ended before the tracer read its maps */
	uint32_t process; /* index */
	uint32_t functions_count, files_count; /* that are traced since; 0: it ended */
	enum perfx_late_cause cause;
	uint64_t since_ns; /* start of the time without tracing; CLOCK_MONOTONIC */
	uint64_t late_ns;  /* length of that time, or the lifetime of a process that ended */
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
	uint32_t left_out;	 /* PERFX_LEFT_OUT: kinds of sums of which that is so */
	const char *why;	 /* why it was taken; "": it was wanted */
	/* The slow step for which it was taken, by CLOCK_MONOTONIC; all 0: none. */
	uint32_t step_process; /* profile_process.index */
	uint64_t step_from_ns, step_to_ns;
};

#define PROFILE_SLICES_MAX	4096
#define PROFILE_SLICE_SPANS_MAX 4096

struct profile {
	const char *host_name, *kernel, *boot_id, *command, *tool_version;
	uint32_t cpus_count, memory_mib, ring_bytes; /* of all hosts */
	uint32_t hosts_count;
	struct profile_capture *captures; /* that were merged; none: it is one */
	size_t captures_count;
	bool compensated;
	uint64_t start_ns, start_unix_ns, duration_ns;
	uint64_t start_boot_ns; /* start_ns by CLOCK_BOOTTIME */
	bool ended;		/* has its END record: not truncated */
	bool target_killed, target_exited, interrupted;
	struct profile_interval
		*recording_windows; /* in order, in the capture's time; none: all of it */
	size_t recording_windows_count;
	/* CPU time of the whole machine, and what the hypervisor took of it, while processes were
	 * sampled; PROFILE_ABSENT */
	uint64_t host_busy_ns, host_steal_ns;
	uint64_t tracer_cpu_ns, tracer_rss_anon_bytes; /* PROFILE_ABSENT when truncated */
	uint64_t recording_cpu_ns;	/* of tracer_cpu_ns, while it recorded; 0: unknown */
	uint64_t tracer_rss_peak_bytes; /* 0: unknown */
	uint64_t maps_read_count, untraced_read_count; /* as in struct perfx_end; PROFILE_ABSENT */
	unsigned partial;			       /* PROFILE_PARTIAL_ */
	struct profile_time_slice time_slice;
	uint64_t losses[PERFX_LOSS_KINDS];
	uint64_t calls_count;	       /* over all processes */
	uint64_t memory_records_count; /* allocations and frees that came as records */
	uint64_t value_samples_count;
	uint64_t gpu_activities_count; /* that came as records */
	uint64_t slices_count;	       /* --timeline */
	/* The last ones, in the order in which they ended, and the last calls; at most as many as
	 * above. */
	struct perfx_slice *last_slices;
	struct perfx_span *slice_spans;
	size_t last_slices_count, slice_spans_count;
	uint64_t gpu_calls_count; /* launches and copies, counted at their calls */
	struct profile_host_energy energy;

	const struct profile_function *functions; /* by id: use profile_function() */
	size_t functions_count;
	const struct profile_probe *probes; /* as they were attached */
	size_t probes_count;
	const struct perfx_reduced *reduced; /* by the overhead budget, in order of time */
	size_t reduced_count;
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
	bool selected;				    /* some are left out: a view */
	size_t processes_count;
	struct profile_stack *stacks; /* of all processes */
	size_t stacks_count;
	const struct profile_gpu_name *gpu_names; /* by id, as records refer to them */
	size_t gpu_names_count;
	struct profile_gpu_device *gpu_devices; /* by index, ascending */
	size_t gpu_devices_count;
	bool sampling_known; /* `sampling` was recorded */
	struct profile_sampling sampling;

	uint64_t hits_count; /* over all probes */
	double overhead_ns;  /* sum of hits × cost */
	/* CPU time of the traced processes that tracing took without a probe: for samples, and for
	 * what threads wait for. */
	uint64_t samples_cost_ns, waits_cost_ns;
	/* By how much the thread takes longer that bears most of the hits' cost: its CPU time is
	 * that of the untraced program and theirs together. 90: 1.9 times as long; < 0: unknown. Of
	 * all processes where it is not known whose hits these were. */
	double overhead_percent;
	/* By how much longer still, as it waits on a busy machine while the tracer has a CPU. */
	double tracer_wait_percent;
	struct profile_observed observed;
};

/* The CPU time of the traced processes that tracing used. */
static inline double profile_cost_ns(const struct profile *profile)
{
	return profile->overhead_ns + (double)profile->samples_cost_ns +
	       (double)profile->waits_cost_ns;
}

/* Do estimate and observation say the same: within a quarter of the larger one, or within so many
 * points? Noise that is larger than that hides it, unless they are further apart still. Tracing
 * makes no step faster: where steps were, the machine changed, and the observation says nothing. */
#define PROFILE_AGREES_SHARE  0.25
#define PROFILE_AGREES_POINTS 3.0
enum slowdown_agreement {
	SLOWDOWN_AGREES,
	SLOWDOWN_DISAGREES,
	SLOWDOWN_IN_NOISE,
	SLOWDOWN_NOT_OBSERVED,
};
enum slowdown_agreement profile_slowdown_agreement(const struct profile *profile);

/* By how much longer the thread takes in all, in percent. */
static inline double profile_estimated_percent(const struct profile *profile)
{
	return profile->overhead_percent + profile->tracer_wait_percent;
}

/* The slowdown to judge by, in percent; < 0: unknown. As observed where that is beyond the noise,
 * otherwise as estimated. */
double profile_slowdown_percent(const struct profile *profile);

/* The share of calls that a loss took from what the report shows: count / (calls + count). 0 for
 * those that take nothing: calls that began before or end after the recording, foreign hits. */
double profile_loss_share(const struct profile *profile, enum perfx_loss_kind loss);

/* NULL when the id is unknown. */
const struct profile_function *profile_function(const struct profile *profile, uint32_t id);

/* Calls of a row per second, without the time in which the process started; < 0: not known. */
double profile_calls_per_s(const struct profile *profile, const struct profile_process *process,
			   const struct profile_row *row);

/* Are its calls units of inference? */
static inline bool profile_is_inference(const struct profile *profile,
					const struct profile_row *row)
{
	const struct profile_function *function = profile_function(profile, row->function);

	return function && function->flags & PERFX_FUNCTION_INFERENCE;
}

/* The type of most operations, by operations of each; UNKNOWN: of all it is not known. */
enum perfx_dtype profile_main_dtype(const uint64_t dtypes[PERFX_DTYPES]);

struct profile_sample_sums {
	uint64_t on_cpu_count, off_cpu_count, on_cpu_ns, off_cpu_ns;
};
struct profile_sample_sums profile_sample_sums(const struct profile_process *process);

/* NULL: unknown. */
const struct profile_thread *profile_thread(const struct profile_process *process, uint32_t tid);
/* The thread's name; "": unknown. */
const char *profile_thread_name(const struct profile_process *process, uint32_t tid);

/* Of its machine. */
const char *profile_host_name(const struct profile *profile, const struct profile_process *process);
/* Pids are a machine's own. */
bool profile_is_child(const struct profile *profile, const struct profile_process *child,
		      const struct profile_process *parent);
/* NULL: it is not traced. */
const struct profile_process *profile_parent(const struct profile *profile,
					     const struct profile_process *process);

/* Sets `ancestor` of all processes, once they are complete. */
void profile_find_ancestors(struct profile *profile);

/* Do both belong to one job? They descend from one traced process, have one parent and one name, or
 * are ranks of one job. */
bool profile_is_same_job(const struct profile *profile, const struct profile_process *a,
			 const struct profile_process *b);

/* CPU time of programs that were neither traced nor the tracer; PROFILE_ABSENT. */
uint64_t profile_others_cpu_ns(const struct profile *profile);

struct profile_late_sum {
	size_t late_count, ended_count; /* processes; a process may be late with several files */
	const struct profile_late *latest, *longest; /* the worst of either; NULL: none */
};
struct profile_late_sum profile_late_sum(const struct profile *profile);

/* Of a CLOCK_MONOTONIC time: from the start of the capture; PROFILE_ABSENT stays. */
static inline uint64_t profile_since_start(const struct profile *profile, uint64_t time_ns)
{
	if (time_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return sub_capped(time_ns, profile->start_ns);
}

/* False: the overhead budget gave up recording waits before the end. */
static inline bool profile_waits_are_whole(const struct profile *profile)
{
	for (size_t i = 0; i < profile->not_attached_count; i++)
		if (profile->not_attached[i].waits)
			return false;
	return true;
}

/* How long the process was open. */
static inline uint64_t profile_wall_ns(const struct profile_process *process)
{
	return process->to_ns - process->from_ns;
}

/* The recorded part of a time; CLOCK_MONOTONIC. */
uint64_t profile_recorded_between(const struct profile *profile, uint64_t from_ns, uint64_t to_ns);

/* The recorded part of the process's life. */
uint64_t profile_recorded_ns(const struct profile *profile, const struct profile_process *process);

#endif
