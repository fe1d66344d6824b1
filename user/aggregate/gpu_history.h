/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which call asked for what a device did, and which function made that call.
 *
 * Spans, the agent's records of calls, and those of activities come by different ways, up to half a
 * second apart, and a kernel may run long after its launch. So a bounded past of each is kept and
 * settled from time to time:
 *
 *	activity ──call id──▶ call ──thread, time──▶ innermost span around it ──▶ calling context
 *
 * What finds no partner before it is forgotten is counted.
 */
#ifndef PERFX_AGGREGATE_GPU_HISTORY_H
#define PERFX_AGGREGATE_GPU_HISTORY_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

struct aggregate;

/* A call of a process that uses GPUs; all of these: 0 or -ENOMEM. */
int history_span(struct aggregate *aggregate, const struct perfx_span *span);
int history_sample(struct aggregate *aggregate, const struct perfx_sample *sample);
int history_call(struct aggregate *aggregate, const struct perfx_gpu_call *call, uint32_t work);
int history_activity(struct aggregate *aggregate, const struct perfx_gpu_activity *activity,
		     uint32_t work);
/* all: nothing comes any more. */
int history_settle(struct aggregate *aggregate, bool all);
void history_clear(struct gpu_history *history);

#endif
