/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the profile (aggregate/profile.h) that is about allocated memory. */
#ifndef PERFX_AGGREGATE_PROFILE_MEMORY_H
#define PERFX_AGGREGATE_PROFILE_MEMORY_H

#include "aggregate/profile_stack.h"
#include "aggregate/statistics.h"
#include "decode/names.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Memory of one process in one domain, as allocation and free records add up to it.
 *
 * Live bytes are those allocated while tracing and not yet freed: what was there before is not
 * known. Exact where every record is there; bounds where some are lost (`bound`); estimates where
 * the domain was sampled.
 */

/* Windows of equal length over which live bytes are kept, to see what grows. When the trace
 * outgrows them, two become one. */
#define PROFILE_ALLOC_WINDOWS 32

/* One way of allocating: call stack, innermost traced function, allocator. */
struct profile_hotspot {
	const struct profile_frame *const *frames; /* innermost first; borrowed */
	size_t frames_count;
	uint32_t stack_flags; /* PERFX_STACK_ */
	uint32_t function;    /* innermost traced function that was running; 0: none */
	uint32_t context;     /* its calling context */
	const char *allocator;

	struct profile_estimate allocs, allocated_bytes;
	/* of allocs: their own stacks were left out, they are taken for calls of this one */
	uint64_t left_out_count;
	uint64_t frees_count;
	/* freed by the same thread's next allocator call; PROFILE_ABSENT where frees are inferred
	 */
	uint64_t temporary_count;
	/* Estimated from the sampled blocks that live; PROFILE_ABSENT where frees are not seen. */
	uint64_t live_count, live_bytes;
	uint64_t live_at_peak_bytes; /* when the domain had its peak */
	uint64_t peak_bytes;	     /* its own */
	uint64_t freed_bytes;
	uint64_t lifetime_ns; /* mean, of the freed blocks; PROFILE_ABSENT: none was freed */
	/* when the oldest block that lives was allocated; PROFILE_ABSENT: none lives */
	uint64_t oldest_ns;
	/* of the live ones, allocated in the first half of the time that the process was there */
	uint64_t old_bytes;
	/* live bytes at the end of each window; alloc_windows_count are filled, the last up to the
	 * end */
	uint64_t live_windows[PROFILE_ALLOC_WINDOWS];
	/* live_bytes by the window in which they were allocated: what stays, without what comes and
	 * goes in every step */
	uint64_t kept_windows[PROFILE_ALLOC_WINDOWS];
};

/* Allocations of [2^(i-1)+1, 2^i] bytes (0: of 0 bytes; 1: of 1), the last: all that are larger. */
#define PROFILE_SIZES 41

struct profile_memory_point {
	uint64_t time_ns;
	uint64_t live_bytes;
	uint64_t allocs_count, allocated_bytes; /* so far */
};

struct profile_allocator {
	const char *name, *module;
	uint64_t allocs_count, frees_count, allocated_bytes, live_bytes;
};

/* Why the numbers are bounds, where they are not exact. */
#define PROFILE_MEMORY_LOST_ALLOCS                                                                \
	PERFX_BEFORE_LOST_ALLOCS			  /* live and peak are lower bounds (≥) \
							   */
#define PROFILE_MEMORY_LOST_FREES PERFX_BEFORE_LOST_FREES /* live and peak are upper bounds (≤) */

struct profile_memory {
	enum perfx_domain domain;
	struct profile_allocator *allocators; /* allocated bytes descending */
	size_t allocators_count;

	struct profile_estimate allocs, allocated_bytes;
	/* Of known blocks; a realloc of one is a free and an alloc. munmap is one, however many
	 * mappings it touches; what it leaves of one is a block of its own. */
	uint64_t frees_count;
	uint64_t unknown_frees_count; /* of blocks from before, or whose record is lost */
	uint64_t replaced_count;  /* allocations at an address that was thought live: lost frees */
	uint64_t temporary_count; /* PROFILE_ABSENT where frees are inferred */
	uint64_t current_count, current_bytes; /* PROFILE_ABSENT where frees are not seen */
	uint64_t peak_bytes, peak_ns;	       /* peak_ns: CLOCK_MONOTONIC; absent likewise */

	/* how it was recorded */
	bool sampled;		       /* at any time */
	bool frees_inferred;	       /* likewise: PERFX_MEMORY_FREES_INFERRED */
	uint64_t sample_bytes;	       /* the last rate */
	enum perfx_memory_level level; /* the last one */
	uint64_t recorded_ns;	       /* how long it was recorded at all (duty cycle, off) */
	unsigned bound;		       /* PROFILE_MEMORY_LOST_ */
	uint64_t lost_allocs_count, lost_allocated_bytes, lost_frees_count; /* in the totals */

	uint64_t sizes[PROFILE_SIZES]; /* allocations by size (estimates where sampled) */
	struct profile_memory_point *points;
	size_t points_count;
	uint64_t alloc_window_ns; /* length of the hotspots' windows; the first begins with the
				     trace */
	uint64_t alloc_windows_from_ns;
	size_t alloc_windows_count;
	/* Frees of unknown blocks by window. When they go on long after the start, old blocks are
	 * being replaced by new ones. */
	uint64_t unknown_frees_windows[PROFILE_ALLOC_WINDOWS];

	struct profile_hotspot *hotspots; /* live at the peak, then allocated bytes, descending */
	size_t hotspots_count;
};

/* Readings of a process's whole memory, in order of time: MEMORY_SUM. */
#define PROFILE_MEMORY_SUMS_MAX 256

struct profile_memory_sums {
	struct perfx_memory_sum first, peak, last; /* peak: with the most resident memory */
	struct perfx_memory_sum *points;	   /* older ones are thinned out */
	size_t points_count;			   /* 0: none was read */
};

static inline uint64_t memory_sum_resident(const struct perfx_memory_sum *sum)
{
	uint64_t bytes = 0;

	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		bytes += sum->resident[i];
	return bytes;
}

static inline uint64_t memory_sum_proportional(const struct perfx_memory_sum *sum)
{
	uint64_t bytes = 0;

	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		bytes += sum->proportional[i];
	return bytes;
}

#endif
