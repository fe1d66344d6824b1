/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of an aggregate: tables that are direct arrays by id, so that a span costs no look-up
 * by hash. Each part has a header and a file of its own.
 */
#ifndef PERFX_AGGREGATE_STATE_H
#define PERFX_AGGREGATE_STATE_H

#include "aggregate/aggregate.h"
#include "aggregate/calls.h"
#include "aggregate/energy.h"
#include "aggregate/gpu.h"
#include "aggregate/memory.h"
#include "aggregate/period.h"
#include "aggregate/process.h"
#include "aggregate/profile.h"
#include "aggregate/reductions.h"
#include "aggregate/samples.h"
#include "aggregate/stacks.h"
#include "aggregate/steps.h"
#include "base/grow.h"

#include <errno.h>
#include <string.h>

struct aggregate;
struct finish_ctx;

/* Values of the program's own: an account for each name in each process. */
struct value_account;

struct values {
	const char **names; /* by id; NULL: not described */
	size_t names_capacity;
	struct value_account **accounts;
	size_t accounts_capacity, accounts_count;
	struct map64 account_ids; /* process << 32 | value → accounts[] */
};

/* The processes' values. 0 or -ENOMEM. */
int values_fill(struct finish_ctx *ctx);
void values_clear(struct values *values);

/*
 * Captures of several machines, or of several tracers, that became one: what each of them says of
 * itself, and of its machine. A process belongs to one of them (struct perfx_process: merged).
 */

/* Usage of a whole machine, from its earliest and latest sample. */
struct host_usage {
	uint64_t first_ns, last_ns; /* 0: no sample */
	uint64_t first_busy_ns, last_busy_ns;
	uint64_t first_steal_ns, last_steal_ns;
};

/* [0]: the capture itself, which has its machine's usage alone. */
struct merged_capture {
	struct perfx_merged record; /* merged 0: not described */
	const char *strings[5];
	struct host_usage usage;
	uint64_t losses[PERFX_LOSS_KINDS];
};

struct merged {
	struct merged_capture *list; /* by id */
	size_t capacity, count;
	struct profile_capture *shown; /* the profile's */
};

/* NULL with errno: ERANGE, ENOMEM. */
struct merged_capture *merged_get(struct aggregate *aggregate, uint32_t id);
/* Where the capture of a process begins and ends, in the time of this one. */
uint64_t merged_start_ns(const struct aggregate *aggregate, uint32_t id);
uint64_t merged_end_ns(const struct aggregate *aggregate, uint32_t id);
/* The profile's captures, and what the machines add up to. 0 or -ENOMEM. */
int merged_fill(struct finish_ctx *ctx);
void merged_clear(struct merged *merged);

struct aggregate {
	struct pool strings;
	struct interned interned;
	struct stacks stacks;
	struct samples samples;
	struct gpu gpu;
	struct energy energy;
	struct merged merged;
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
	struct perfx_reduced *reduced;
	size_t reduced_capacity, reduced_count;
	struct perfx_calibration *calibrations;
	size_t calibrations_capacity, calibrations_count;
	struct perfx_peak *peaks;
	size_t peaks_capacity, peaks_count;
	struct perfx_unprobed_steps *unprobed_steps;
	size_t unprobed_steps_capacity, unprobed_steps_count;
	struct profile_perf_counter perf_counters[PERFX_PERF_COUNTERS];
	const char *perf_counters_why;
	struct memory memory;
	struct steps steps;
	struct periods periods;
	struct usual_costs usual_costs;
	struct values values;
	struct profile_interval *recording_windows; /* to_ns UINT64_MAX: open */
	size_t recording_windows_capacity, recording_windows_count;
	struct object_cost *object_costs; /* by id */
	size_t object_costs_capacity, object_costs_count;
	struct perfx_span *waiting; /* spans whose OBJECT_COST record has not come */
	size_t waiting_capacity, waiting_count;

	bool has_host, has_end;
	bool has_off_cpu; /* a call waited: that was measured */
	struct perfx_host host;
	const char *host_strings[5];
	struct perfx_end end;
	struct perfx_time_slice time_slice;
	const char *time_slice_why; /* NULL: a whole recording */
	uint64_t first_ns, last_ns; /* times seen in records */
	uint64_t losses[PERFX_LOSS_KINDS];
	uint64_t samples_cost_ns, waits_cost_ns; /* BACKGROUND records */

	struct profile profile;
};

/* Adds an event of one kind, in the file of its part. 0 or -ENOMEM. */
#define HANDLER(kind, name, ...) \
	int handle_##name(struct aggregate *aggregate, const struct event *event);
PERFX_RECORDS(HANDLER)
#undef HANDLER

static inline void sums_add(struct sums *sums, uint64_t calls, uint64_t total, uint64_t self)
{
	add_up(&sums->calls_count, calls);
	add_up(&sums->total_ns, total);
	add_up(&sums->self_ns, self);
}

/* Counts a record that cannot be used. */
static inline int undecoded(struct aggregate *aggregate)
{
	aggregate->losses[PERFX_LOSS_UNDECODED]++;
	return 0;
}

/* The result of a handler that could not make what its record needs, for the reason in errno:
 * without memory it fails, else it counts the record as undecoded. */
static inline int rejected(struct aggregate *aggregate)
{
	return errno == ENOMEM ? -ENOMEM : undecoded(aggregate);
}

static inline void saw_time(struct aggregate *aggregate, uint64_t time_ns)
{
	aggregate->first_ns = min_u64(aggregate->first_ns, time_ns);
	aggregate->last_ns = max_u64(aggregate->last_ns, time_ns);
}

#endif
