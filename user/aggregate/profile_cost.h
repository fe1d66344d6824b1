/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the profile (aggregate/profile.h) that is about operations: FLOPs and bytes. */
#ifndef PERFX_AGGREGATE_PROFILE_COST_H
#define PERFX_AGGREGATE_PROFILE_COST_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Floating-point work, as the arguments of BLAS calls, operators and kernels give it
 * (perfx_record.h: enum perfx_cost_state).
 */

/* Sums over recorded and overflow calls. All 0: no function with a known cost. */
struct profile_cost {
	uint64_t flops, bytes; /* bytes: of calls that compute */
	uint64_t moved_bytes;  /* of calls without an operation: collectives */
	/* Of these, over the bus (perfx_cost.h: enum perfx_bus), and of how many of them that is
	 * known. */
	uint64_t bus_bytes, bus_moved_bytes;
	uint64_t counted_count; /* calls with a known cost */
	uint64_t unread_count;	/* calls whose arguments could not be read */
	uint64_t nested_count;	/* calls whose work another call's cost contains */
	uint64_t opaque_count;	/* calls of compiled code: what it computes is not known */
	/* Of counted_count, calls that returned before their work was done; not known of those
	 * without a record. */
	uint64_t submitted_count;
	/* Of counted_count and nested_count, calls that the overhead budget only counts: their cost
	 * is that of the function's measured calls, which were all alike (reductions.c). */
	uint64_t assumed_count;
};

/* Of all that is moved it is known what goes over the bus. */
static inline bool profile_bus_known(const struct profile_cost *cost)
{
	return cost->moved_bytes && cost->bus_moved_bytes == cost->moved_bytes;
}

/* The costs of one kind of function in a process. */
struct profile_compute_source {
	enum perfx_source source;
	struct profile_cost cost;
};

/* The element type of operands. Overflow sums do not keep it: their calls are UNKNOWN. */
struct profile_compute_dtype {
	enum perfx_dtype dtype;
	uint64_t flops;
};

struct profile_compute {
	bool measured; /* a function with a known cost was attached in this process, or called */
	struct profile_cost cost;
	/* Time of timed calls, ns: of those that compute and have a known cost; and of those that
	 * have none although their function could have one (UNREAD), less that of calls inside them
	 * that do have one. Threads add up; of overflow calls it is shared out by their number. */
	uint64_t counted_ns, unread_ns;
	uint64_t timed_flops; /* of the calls of counted_ns */
	/* In compiled code whose work is not known, less what it calls. */
	uint64_t opaque_ns;
	/* The overhead budget removed a probe then, so `cost` is a lower bound; the process did
	 * until_flops before. 0: it did not. */
	uint64_t until_ns, until_flops;
	struct profile_compute_source *sources; /* flops descending */
	size_t sources_count;
	struct profile_compute_dtype *dtypes; /* flops descending */
	size_t dtypes_count;
};

#endif
