/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads did outside of what is counted by call: samples of those that run and wait, and the
 * exact sums of the time that they waited.
 */
#ifndef PERFX_AGGREGATE_SAMPLES_H
#define PERFX_AGGREGATE_SAMPLES_H

#include "aggregate/profile.h"
#include "base/grow.h"

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

struct aggregate;
struct finish_ctx;

void samples_clear(struct samples *samples);
/* Of an activity what the profile has; when stacks are filled. */
struct profile_activity samples_describe(const struct finish_ctx *ctx,
					 const struct activity *activity);
/* At the end, when stacks and rows are filled. 0 or -ENOMEM. */
int samples_fill(struct finish_ctx *ctx);

#endif
