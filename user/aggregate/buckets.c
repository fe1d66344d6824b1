// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/gpu.h"

#include <string.h>

static void widen(struct buckets *b)
{
	for (unsigned i = 0; i < BUCKETS_COUNT / 2; i++)
		b->values[i] = b->values[2 * i] + b->values[2 * i + 1];
	memset(b->values + BUCKETS_COUNT / 2, 0, sizeof(b->values) / 2);
	b->width_ns *= 2;
}

/* The bucket of a time; made where there is none yet. */
static unsigned bucket_of(struct buckets *b, uint64_t time_ns)
{
	if (!b->width_ns)
		b->width_ns = BUCKETS_WIDTH_NS;
	while ((time_ns - b->from_ns) / b->width_ns >= BUCKETS_COUNT)
		widen(b);
	return (unsigned)((time_ns - b->from_ns) / b->width_ns);
}

void buckets_add(struct buckets *b, uint64_t time_ns, uint64_t value)
{
	if (time_ns >= b->from_ns)
		b->values[bucket_of(b, time_ns)] += value;
}

void buckets_add_time(struct buckets *b, uint64_t from_ns, uint64_t to_ns)
{
	from_ns = max_u64(from_ns, b->from_ns);
	if (to_ns <= from_ns)
		return;
	bucket_of(b, to_ns); /* no more widening below */
	while (from_ns < to_ns) {
		unsigned at = bucket_of(b, from_ns);
		uint64_t end_ns = b->from_ns + (at + 1) * b->width_ns;

		/* <: times of a damaged file, at the end of all that there are */
		if (end_ns > to_ns || end_ns < from_ns)
			end_ns = to_ns;
		b->values[at] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

uint64_t buckets_between(const struct buckets *b, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BUCKETS_COUNT; i++) {
		uint64_t start_ns = b->from_ns + i * b->width_ns, end_ns = start_ns + b->width_ns;
		uint64_t begin_ns = max_u64(start_ns, from_ns), stop_ns = min_u64(end_ns, to_ns);

		if (b->values[i] && begin_ns < stop_ns)
			sum += (uint64_t)((unsigned __int128)b->values[i] * (stop_ns - begin_ns) /
					  b->width_ns);
	}
	return sum;
}
