/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records that come by several lanes, as one stream in order of time. What comes out is in order as
 * long as each lane has been given all that is older than the time up to which records are asked
 * for; one that comes later goes out late.
 */
#ifndef PERFX_ATTACH_MERGE_H
#define PERFX_ATTACH_MERGE_H

#include <stddef.h>
#include <stdint.h>

struct merge;

/* NULL: memory is out. */
struct merge *merge__new(size_t lanes_count);
void merge__free(struct merge *merge);

/* Copies a record to the end of a lane, whose order is kept: one that says to be older than the
 * record before it counts as just as old. 0 or -ENOMEM. */
int merge__add(struct merge *merge, size_t lane, uint64_t time_ns, const void *record, size_t size);
/* Copies a record to its place in a lane by its time: 0 or -ENOMEM. */
int merge__insert(struct merge *merge, size_t lane, uint64_t time_ns, const void *record,
		  size_t size);
/* The latest time of the lane's records, as it counts; 0: it had none. */
uint64_t merge__last_ns(const struct merge *merge, size_t lane);
/* Gives away all records up to and including that time. They are valid until the next call. */
void merge__take(struct merge *merge, uint64_t until_ns,
		 void (*take)(void *ctx, const void *record, size_t size), void *ctx);

#endif
