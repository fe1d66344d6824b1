/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What GPUs did and what processes handed to them: by kernel and shape, by copy, by device. Memory
 * is bounded by the kinds of work, never by how often it was done.
 */
#ifndef PERFX_AGGREGATE_GPU_H
#define PERFX_AGGREGATE_GPU_H

#include "aggregate/state.h"
#include "aggregate/statistics.h"

/*
 * A quantity over time, in buckets of equal width: how much of it there was between two moments.
 * When the time outgrows the buckets, two become one. Exact at their borders, and between those as
 * if it were evenly spread in a bucket.
 */
#define BUCKETS_COUNT	 1024
#define BUCKETS_WIDTH_NS 1000000ull /* at first */

/* All zero but for from_ns is an empty one. */
struct buckets {
	uint64_t from_ns, width_ns; /* width_ns 0: BUCKETS_WIDTH_NS */
	uint64_t values[BUCKETS_COUNT];
};

/* Gives each bucket its part of a time, from from_ns on. */
void buckets_add_time(struct buckets *buckets, uint64_t from_ns, uint64_t to_ns);
void buckets_add(struct buckets *buckets, uint64_t time_ns, uint64_t value);
uint64_t buckets_between(const struct buckets *buckets, uint64_t from_ns, uint64_t to_ns);

enum gpu_work_kind {
	GPU_WORK_DEVICE = 0, /* what a device did */
	GPU_WORK_CALL,	     /* a function of the GPU's library, by name */
	GPU_WORK_OTHER,	     /* all that found no row of its own */
};

/* One kind of work of a process: a kernel or graph of one shape, copies of one direction. No
 * padding: compared and hashed as bytes. */
struct gpu_work_key {
	uint32_t process, name;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint8_t op, direction, host_memory;
	uint8_t kind; /* enum gpu_work_kind */
};
_Static_assert(sizeof(struct gpu_work_key) == 40, "hashed as bytes");

/* From where a kind of work was handed over; of calls, who made them. */
#define GPU_CALLERS_MAX 16 /* of a kind of work; more are not distinguished */

struct gpu_caller {
	uint32_t context; /* 0: not known */
	uint64_t count, ns;
};

struct gpu_work {
	struct gpu_work_key key;
	/* as devices did it: records and overflow sums */
	uint64_t count, total_ns, bytes;
	/* Of the records' durations; sketch NULL: there are none. squares: of the distances from
	 * the mean (Welford, 1962). */
	struct sketch *sketch;
	uint64_t min_ns, max_ns;
	double mean_ns, squares;
	/* as it was counted at the calls */
	uint64_t called_count, called_bytes;
	uint32_t stream, registers, static_shared_bytes;
	bool has_stream, several_streams;
	struct gpu_caller callers[GPU_CALLERS_MAX];
	size_t callers_count;
};

/* A number over time. */
struct gpu_metric {
	uint64_t last, highest, sum, count;
};

struct gpu_device {
	bool described, used; /* used: something refers to it */
	struct perfx_gpu_device record;
	const char *name, *uuid, *driver;
	struct gpu_metric metrics[PROFILE_GPU_METRICS];
	uint64_t samples_count;
	uint64_t throttle_samples_count, throttled_counts[PROFILE_GPU_THROTTLES];
	struct profile_gpu_point *points;
	size_t points_count;
	struct thinning points_thinning;
};

/* Time covered by intervals that come in order of their starts. */
struct gpu_covered {
	uint64_t until_ns, ns;
};

/* A time in which a device did nothing for a process. */
struct gpu_gap {
	uint64_t from_ns, to_ns;
	uint32_t process, device;
	uint32_t tid;	  /* that asked for what ended it; 0: not known */
	uint32_t context; /* in which that was, most of the time; 0: in none */
	uint32_t stack;	  /* its samples' most frequent one; 0: none */
};

#define GPU_GAPS_MAX 16

/* A process on a device. */
struct gpu_place {
	uint32_t process, device;
	struct gpu_metric memory_bytes, sm_percent;
	/* of all work; kernels that compute, kernels that communicate, and both */
	struct gpu_covered busy, computing, communicating, either;
	struct gpu_gap gaps[GPU_GAPS_MAX]; /* the longest, in no order */
	size_t gaps_count;
};

/* Waits of a thread for devices. */
#define GPU_WAITERS_MAX 32 /* of a process */

struct gpu_waiter {
	uint32_t tid;
	struct buckets waited;
};

/* A process that uses GPUs. */
struct gpu_process {
	uint32_t process;
	bool has_state, has_wait_spans;
	struct perfx_gpu_state state; /* the last */
	uint32_t level;		      /* the highest at which it was recorded */
	const char *why;	      /* of the state */
	uint64_t activities_count, overflow_count;
	uint64_t unlinked_count;	/* activities whose caller is not known */
	struct sketch *latency;		/* from a launch's call to its start */
	struct buckets *busy, *kernels; /* NULL: nothing ran */
	struct gpu_waiter *waiters[GPU_WAITERS_MAX];
	size_t waiters_count;
};

/*
 * Which call asked for what a device did, and which function made that call.
 *
 * Spans, the agent's records of calls, and those of activities come by different ways, up to half a
 * second apart, and a kernel may run long after its launch. So a bounded past of each is kept and
 * settled from time to time:
 *
 *	activity ──call id──▶ call ──thread, time──▶ innermost span around it ──▶ calling context
 *
 * A record that is dropped before its partner came is counted.
 */

struct past_span {
	uint64_t start_ns, end_ns;
	uint32_t process, tid, context, pad;
};

struct past_call {
	uint64_t start_ns, end_ns, call;
	uint32_t process, tid, context;
	uint32_t work;	      /* index of its own row */
	bool placed, has_met; /* its context is known; an activity of it was seen */
};

struct past_activity {
	uint64_t start_ns, end_ns, call;
	uint32_t process, device, work;
	uint8_t op;
	bool covered; /* in the device's busy time */
};

struct past_sample {
	uint64_t time_ns;
	uint32_t process, tid, stack;
};

struct gpu_history {
	struct past_span *spans;
	struct past_call *calls;
	struct past_activity *activities;
	struct past_sample *samples;
	size_t spans_count, calls_count, activities_count, samples_count;
	size_t spans_capacity, calls_capacity, activities_capacity, samples_capacity;
	uint64_t newest_ns, settled_ns;
	uint64_t forgotten_ns; /* spans that ended before are gone */
};

struct gpu {
	struct profile_gpu_name *names; /* by id; name NULL: not described */
	size_t names_count, names_capacity;
	struct map64 work_ids; /* hash → works[]; of one that is taken, the next key */
	struct gpu_work *works;
	size_t works_count, works_capacity;
	struct gpu_device devices[PERFX_GPU_DEVICES_MAX];
	struct map64 place_ids; /* process << 32 | device → places[] */
	struct gpu_place *places;
	size_t places_count, places_capacity;
	uint64_t *context_ns; /* device time by calling context */
	size_t contexts_capacity;
	bool follows; /* an agent's records may come: the past is kept */
	struct gpu_history history;
	struct map64 process_ids; /* process → processes[] */
	struct gpu_process *processes;
	size_t processes_count, processes_capacity;
	uint64_t activities_count; /* records */
	uint64_t called_count;	   /* launches and copies, counted at their calls */
	uint64_t waits_removed_ns; /* the overhead budget removed a probe on waits; 0: none */
};

/* A call of a function: it may be a wait, and the one that launches. 0 or -ENOMEM. */
int gpu_span(struct aggregate *aggregate, struct row *row, const struct perfx_span *span);
int gpu_sample(struct aggregate *aggregate, const struct perfx_sample *sample);
/* The overhead budget reduced a function. */
void gpu_reduced(struct aggregate *aggregate, const struct perfx_reduced *record);

/* for gpu_history.c */
void gpu_caller_add(struct gpu_work *work, uint32_t context, uint64_t count, uint64_t ns);
struct gpu_place *gpu_place_find(struct gpu *gpu, uint32_t process, uint32_t device);
/* Adds an activity to the covered time of its device; in order of their starts. */
int gpu_cover(struct aggregate *aggregate, struct gpu_place *place,
	      const struct past_activity *activity);
/* The call that asked for it; NULL, or one without place: not known. 0 or -ENOMEM. */
int gpu_link(struct aggregate *aggregate, const struct past_activity *activity,
	     const struct past_call *call);

/* A kernel of NCCL or RCCL? */
bool gpu_communicates(const char *name);

/* gpu_history.c */
/* A call of a process that uses GPUs; all of these: 0 or -ENOMEM. */
int history_span(struct aggregate *aggregate, const struct perfx_span *span);
int history_sample(struct aggregate *aggregate, const struct perfx_sample *sample);
int history_call(struct aggregate *aggregate, const struct perfx_gpu_call *call, uint32_t work);
int history_activity(struct aggregate *aggregate, const struct perfx_gpu_activity *activity,
		     uint32_t work);
/* all: nothing comes any more. */
int history_settle(struct aggregate *aggregate, bool all);
void history_clear(struct gpu_history *history);

/* gpu_finish.c: when rows and steps are filled. 0 or -ENOMEM. */
int gpu_fill(struct finish_ctx *ctx);
void profile_gpu_clear(struct profile *profile);

#endif
