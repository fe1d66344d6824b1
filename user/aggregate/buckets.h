/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A quantity over time, in buckets of equal width: how much of it there was between two moments.
 * When the time outgrows the buckets, two become one. Exact at their borders, and between those as
 * if it were evenly spread in a bucket.
 */
#ifndef PERFX_AGGREGATE_BUCKETS_H
#define PERFX_AGGREGATE_BUCKETS_H

#include <stdint.h>

#define BUCKETS_COUNT	 1024
#define BUCKETS_WIDTH_NS 1000000ull /* at first */

/* All zero but for from_ns is an empty one. */
struct buckets {
	uint64_t from_ns, width_ns; /* width_ns 0: BUCKETS_WIDTH_NS */
	uint64_t values[BUCKETS_COUNT];
};

/* A time: each bucket gets its part of it. What lies before from_ns is left out. */
void buckets_add_time(struct buckets *buckets, uint64_t from_ns, uint64_t to_ns);
void buckets_add(struct buckets *buckets, uint64_t time_ns, uint64_t value);
uint64_t buckets_between(const struct buckets *buckets, uint64_t from_ns, uint64_t to_ns);

#endif
