/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that events add up to: what analyze judges and report shows. Plain data; every report
 * is a view of it. Made by aggregate/aggregate.h, which owns all of it.
 *
 * Times are ns. UINT64_MAX (PROFILE_ABSENT) means "not measured"; writers leave such a field out.
 */
#ifndef PERFX_AGGREGATE_PROFILE_H
#define PERFX_AGGREGATE_PROFILE_H

#include "aggregate/sketch.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_ABSENT UINT64_MAX

/* A traced function of a file, the same for every process. */
struct profile_function {
	uint32_t id;
	enum perfx_source source;
	const char *name, *module, *module_base, *build_id;
	uint64_t offset;
	enum perfx_return ret; /* how it is timed */
};

struct profile_probe {
	uint32_t id, function;
	uint64_t offset;
	enum perfx_link link;
	enum perfx_return ret;
	enum perfx_site site;
	bool is_exit;
	uint64_t hits_count;
	double cost_ns; /* of a hit; 0: not calibrated */
};

/* Who called: one row per (function, calling function). caller UINT32_MAX: untraced code. */
struct profile_caller {
	uint32_t caller;
	uint64_t calls_count, total_ns;
};

/* One function in one process. */
struct profile_row {
	uint32_t function;
	uint64_t calls_count;   /* ended while tracing */
	uint64_t timed_count;   /* of these, with a measured time */
	uint64_t unwound_count; /* of these, ended by exception or longjmp */
	uint64_t booked_count;  /* of the timed ones, from the overflow book: in total and self, but not
				   in min, max, spread and percentiles */
	uint64_t total_ns, self_ns;
	uint64_t min_ns, max_ns; /* PROFILE_ABSENT when nothing was timed through the ring */
	double stddev_ns;	 /* of the population of recorded calls; < 0: absent */
	struct sketch *sketch;	 /* durations of recorded calls */
	uint64_t threads_count;  /* distinct threads that called it (recorded calls) */
	struct profile_caller *callers;
	size_t callers_count;
};

struct profile_usage_point {
	uint64_t time_ns;
	struct perfx_usage usage;
};

struct profile_thread {
	uint32_t tid;
	const char *comm;
	char state; /* last seen */
	uint64_t wall_ns; /* between its first and last sample */
	uint64_t on_cpu_ns, runnable_ns, blocked_ns; /* in the window; PROFILE_ABSENT */
};

/* A node of the calling-context tree, for flame graphs. Sums over recorded and booked calls. */
struct profile_context {
	uint32_t id, parent, function;
	uint64_t calls_count, total_ns, self_ns;
};

struct profile_process {
	uint32_t index;
	uint32_t pid, ppid, exec_count;
	uint64_t start_boot_ns;
	const char *comm;
	char **arguments; /* NULL-terminated */
	uint64_t from_ns, to_ns; /* when its book was open */
	bool exited;
	int status; /* as wait(2); valid when exited */

	uint64_t cpu_user_ns, cpu_system_ns; /* used in the window */
	uint64_t rss_bytes, rss_peak_bytes;  /* last; highest seen */
	uint64_t rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t read_bytes, write_bytes, net_rx_bytes, net_tx_bytes;
	uint64_t major_faults_count;
	uint64_t throttled_ns, throttled_count, throttle_periods_count;
	struct profile_usage_point *points; /* the series */
	size_t points_count;

	struct profile_row *rows; /* self time, then calls, descending */
	size_t rows_count;
	struct profile_thread *threads; /* on-CPU time descending */
	size_t threads_count;
	struct profile_context *contexts;
	size_t contexts_count;
	uint64_t unmatched_entries; /* its share of the loss */
};

struct profile_not_attached {
	const char *name, *reason;
	uint32_t count;
};

/* Severity order is display order. */
enum finding_severity { FINDING_HIGH = 1, FINDING_MEDIUM, FINDING_LOW };

struct finding {
	const char *kind; /* "SlowOperation", … : static */
	enum finding_severity severity;
	bool partial; /* losses above 1 %: the figures under it may be incomplete */
	char *subject, *evidence, *threshold, *suggestion;
};

struct profile {
	const char *host_name, *kernel, *boot_id, *command, *tool_version;
	uint32_t cpus_count, memory_mib, ring_bytes;
	bool compensated;
	uint64_t start_ns, start_unix_ns, duration_ns;
	bool ended; /* has its END record: not truncated */
	bool target_killed, interrupted;
	uint64_t tracer_cpu_ns, tracer_rss_anon_bytes; /* PROFILE_ABSENT when truncated */
	uint64_t losses[PERFX_LOSS_KINDS];

	struct profile_function *functions; /* index = id - 1 where dense; use profile_function() */
	size_t functions_count;
	struct profile_probe *probes;
	size_t probes_count;
	struct profile_not_attached *not_attached;
	size_t not_attached_count;
	struct perfx_calibration *calibrations;
	size_t calibrations_count;
	struct profile_process *processes; /* in order of their start */
	size_t processes_count;

	uint64_t hits_count;         /* over all probes */
	double overhead_ns;          /* sum of hits × cost */
	double overhead_percent;     /* of the CPU time that the traced processes used; < 0: unknown */
};

/* NULL when the id is unknown. */
const struct profile_function *profile_function(const struct profile *profile, uint32_t id);

#endif
