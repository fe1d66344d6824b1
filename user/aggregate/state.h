/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of an aggregate: tables that are direct arrays by id, so that a span costs no look-up
 * by hash. Each part has a file of its own; the larger ones have a header, too.
 */
#ifndef PERFX_AGGREGATE_STATE_H
#define PERFX_AGGREGATE_STATE_H

#include "aggregate/aggregate.h"
#include "aggregate/calls.h"
#include "aggregate/gpu.h"
#include "aggregate/memory.h"
#include "aggregate/period.h"
#include "aggregate/process.h"
#include "aggregate/profile.h"
#include "aggregate/steps.h"
#include "base/grow.h"

#include <errno.h>
#include <string.h>

struct aggregate;
struct finish_ctx;

/*
 * Call stacks and what their frames mean: of allocations, samples and calling contexts alike.
 */

/* Texts that come often, once each. */
struct interned {
	struct map64 ids; /* hash → list[] */
	const char **list;
	size_t capacity, count;
};

struct stack {
	uint32_t process, id, frames_count, flags;
	size_t first; /* in addresses[] */
};

struct frame {
	struct profile_frame frame;
	uint32_t next; /* around it, at the same address; 0: none */
	uint16_t depth;
	bool described; /* otherwise it has an address only */
};

struct stacks {
	struct map64 ids; /* process << 32 | stack → list[] */
	struct stack *list;
	size_t capacity, count;
	uint64_t *addresses;
	size_t addresses_capacity, addresses_count;
	struct chunks frames; /* index 0: none */
	bool some_left_out;   /* PERFX_STACK_END_LEFT_OUT */
};

/* The one copy of a text. NULL: memory is out. */
const char *intern(struct aggregate *aggregate, const char *text);
/* The name shown to users: an operator's name, or `function` itself. NULL: out of memory. */
const char *intern_label(struct aggregate *aggregate, const char *function,
			 uint16_t operator_bytes);
/* NULL: it is not known. */
const struct stack *stack_find(const struct stacks *stacks, uint32_t process, uint32_t stack);
/* Is there a frame of that kind in it? Of addresses with several frames the innermost counts. 1, 0
 * or -ENOMEM. */
int stack_has_frame(struct aggregate *aggregate, uint32_t process, uint32_t stack,
		    bool (*is_it)(const struct profile_frame *frame));
void stacks_clear(struct stacks *stacks);

/* At the end: all stacks, before what refers to them. 0 or -ENOMEM. */
int stacks_fill(struct finish_ctx *ctx);
/* NULL: it is not known. */
const struct profile_stack *stack_of(const struct finish_ctx *ctx, uint32_t process,
				     uint32_t stack);
/* The innermost frame of an address; NULL: it is 0, or not described. */
const struct profile_frame *frame_of(const struct finish_ctx *ctx, uint32_t process,
				     uint64_t address);
/* lines.c: lines, Python callers and how whole the stacks are, when all else is filled. 0 or
 * -ENOMEM. */
int lines_fill(struct finish_ctx *ctx);
void profile_stacks_clear(struct profile *profile);

/*
 * Activity of threads that is not counted by call: samples of running and waiting threads, and the
 * exact sums of the time that they waited.
 */

/* Running, or waiting for something. No padding: compared and hashed as bytes. */
struct activity_key {
	uint64_t object;
	uint32_t process, tid, context, stack, holder_tid;
	uint16_t syscall;
	uint8_t state, reason;
};
_Static_assert(sizeof(struct activity_key) == 32, "hashed as bytes");

struct activity {
	struct activity_key key;
	uint64_t count, ns, max_ns;
	uint32_t waker_tid; /* FUTEX: of the part that took longest; 0: unknown */
	uint64_t waker_ns;  /* of that part */
};

/* One row for each key. */
struct activities {
	struct map64 ids; /* hash → list[]; of one that is taken, the next key */
	struct activity *list;
	size_t capacity, count;
};

struct wait_object {
	uint64_t object;
	uint32_t process;
	enum perfx_wait_reason reason;
	enum perfx_object_kind kind;
	const char *name;
};

/* When a sample was taken. The last ones are kept, to tell what slow steps did: 16 bytes each. */
#define SAMPLE_TIMES_MAX (1u << 18)

struct sample_time {
	uint64_t time_ns;
	uint32_t interval_us;
	uint32_t activity; /* sampled.list[] */
};

struct sample_times {
	struct sample_time *list;
	size_t count, capacity;
	bool cut; /* older ones are gone */
};

struct samples {
	struct activities sampled, blocked;
	struct sample_times times;
	struct map64 object_ids; /* hash → objects[] */
	struct wait_object *objects;
	size_t objects_capacity, objects_count;
	bool has_sampling;
	struct perfx_sampling sampling; /* the last */
	const char *sampling_why;
};

void samples_clear(struct samples *samples);
/* An activity as the profile shows it; when stacks are filled. */
struct profile_activity samples_describe(const struct finish_ctx *ctx,
					 const struct activity *activity);
/* At the end, when stacks and rows are filled. 0 or -ENOMEM. */
int samples_fill(struct finish_ctx *ctx);

/*
 * Energy: of the host by powercap's domains, of GPUs by their counters, of a process by its share
 * of the GPUs that it uses. What a GPU has used between two samples is its only process's; of
 * several each has it in proportion to the time that its kernels ran, which is an estimate.
 *
 * Between two samples a GPU uses as much at any time: so what a pause of the recording (--wait)
 * takes is left out.
 */

struct energy_domain {
	const char *name; /* NULL: none */
	uint64_t last_uj, last_ns;
	uint64_t used_uj, used_ns;
};

/* A process on a GPU at a sample. */
struct energy_share {
	uint32_t process; /* 0: all untraced ones together */
	uint32_t sm_percent;
};

struct energy_shares {
	struct energy_share *list;
	size_t count, capacity;
};

struct energy_device {
	bool sampled;
	uint64_t last_mj, last_ns;
	uint64_t used_mj, used_ns;
	struct energy_shares now, before; /* now: of the sample that is to come */
};

/* Energy that a process has used by a time. */
struct energy_point {
	uint64_t time_ns;
	double mj;
};

struct energy_process {
	uint32_t process;
	double mj;
	bool estimated;
	bool unknown; /* its share of a shared GPU was not measured */
	struct energy_point *points;
	size_t points_count;
	struct thinning points_thinning;
};

struct energy {
	struct energy_domain domains[PERFX_ENERGY_DOMAINS_MAX];
	struct energy_device devices[PERFX_GPU_DEVICES_MAX];
	bool has_gpu;
	struct map64 process_ids; /* process → processes[] */
	struct energy_process *processes;
	size_t processes_count, processes_capacity;
};

/* A process is on a GPU; the GPU's next record of usage ends the sample. 0 or -ENOMEM. */
int energy_share(struct energy *energy, const struct perfx_gpu_memory *record);
int energy_usage(struct aggregate *a, const struct perfx_gpu_usage *record);

struct profile_energy energy_of_process(const struct energy *energy, uint32_t process,
					const struct profile_steps *steps);
struct profile_host_energy energy_of_host(const struct energy *energy);
void energy_clear(struct energy *energy);

/*
 * The overhead budget reduces a function: its calls are only counted, or not seen at all. Their
 * times are lost then. Their FLOPs are kept if all measured calls of the function had the same
 * cost: each counted call is taken to have that cost. Nothing is lost with a function that was
 * always called by another one with a cost, because the other one's cost contains its work. In all
 * other cases the costs of the processes that called the function end at that time (step_costs.c).
 */

/* Of fewer measured calls nobody knows whether the others are like them. By the rule of three, at a
 * confidence of 95 %, at most 3 % of all calls are not. */
#define USUAL_CALLS_MIN 100
/* That calls are made by another one whose cost is known follows from the code rather than from
 * their arguments: fewer show it. */
#define USUAL_INSIDE_MIN 20

/* The cost that the measured calls of one function had in one process. */
struct usual_cost {
	uint32_t process, function;
	uint64_t calls_count;
	uint64_t flops, bytes; /* of each call */
	uint16_t flags;	       /* PERFX_SPAN_MOVES, PERFX_SPAN_SUBMITTED */
	uint8_t state, dtype;
	bool varies;
	bool reduced; /* its calls no longer have a cost of their own */
	bool assumed; /* they are counted, and taken to have this one */
	bool is_part; /* their work is that of calls that are only counted */
};

struct usual_costs {
	struct usual_cost *list;
	size_t count, capacity;
	struct map64 ids; /* process << 32 | function → list[] */
};

/* The value for row->usual_cost; 0: no call of the function was measured yet. */
uint32_t usual_cost_of(const struct usual_costs *usual, uint32_t process, uint32_t function);
/* A measured call of the row's function. 0 or -ENOMEM. */
int usual_cost_add(struct usual_costs *usual, struct row *row, const struct perfx_span *span);
/* Is the work of the row's calls a part of others', although it looks as if they were alone? */
bool usual_cost_is_part(const struct usual_costs *usual, const struct row *row);
/* Gives a call that was only counted the cost that is assumed for it. false: there is none. */
bool usual_cost_assume(const struct usual_costs *usual, struct perfx_span *span);
/* Processes go on in these, which have none yet. 0 or -ENOMEM. */
int usual_costs_continue(struct usual_costs *usual, const struct usual_costs *before,
			 bool (*goes_on)(void *ctx, uint32_t process), void *ctx);
void usual_costs_clear(struct usual_costs *usual);
/* When the overhead budget removed the probes that show the process's calls of a function; 0: it
 * did not. with: whose probes these are; may be NULL. */
uint64_t calls_seen_until(const struct aggregate *aggregate, uint32_t process, uint32_t function,
			  uint32_t *with);

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

/* The function of an id; NULL: it is beyond those that are described. */
static inline struct profile_function *function_at(const struct aggregate *aggregate, uint32_t id)
{
	return id && id <= aggregate->functions_count ? &aggregate->functions[id - 1] : NULL;
}

static inline void saw_time(struct aggregate *aggregate, uint64_t time_ns)
{
	aggregate->first_ns = min_u64(aggregate->first_ns, time_ns);
	aggregate->last_ns = max_u64(aggregate->last_ns, time_ns);
}

/*
 * Tables → profile: what the parts share while a profile is made.
 */

/* A call edge: a row and who called it. */
struct edge {
	uint32_t row, caller;
	uint64_t calls_count, total_ns;
};

/* Costs of a row, own and inclusive. */
struct row_cost {
	struct costs own; /* unread_ns: less the time in calls of known cost */
	struct profile_cost inclusive;
	uint64_t dtypes[PERFX_DTYPES]; /* inclusive flops */
	uint64_t computing_ns;
	uint32_t open; /* how often it is on the path during the walk */
};

struct finish_ctx {
	struct aggregate *a;
	struct profile *profile;
	struct sums *sums;	    /* by row */
	struct row_cost *row_costs; /* by row; NULL: no known cost anywhere */
	uint32_t *places;   /* by process index: where in profile->processes, or MAP64_NONE */
	struct edge *edges; /* by row, then caller */
	size_t edges_count;
	uint32_t *rows_of;	 /* by place: how many rows */
	uint64_t hidden_records; /* of processes and functions never described */
};

void profile_clear(struct profile *profile);
/* overhead.c: what tracing cost. */
int overhead_fill(struct finish_ctx *ctx);
/* The profile's process of an index; NULL: it was never described. */
static inline struct profile_process *process_at(const struct finish_ctx *ctx, uint32_t process)
{
	uint32_t place = ctx->places[process];

	return place == MAP64_NONE ? NULL : &ctx->profile->processes[place];
}

/* NULL: its process or function was never described. */
struct profile_process *process_of(const struct finish_ctx *ctx, const struct row *row);
/* The caller's context; 0: untraced code, or not known. */
uint32_t parent_of(const struct aggregate *aggregate, const struct context *context);

#endif
