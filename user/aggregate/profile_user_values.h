/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of the program's own, by name and process: what perfx_counter and perfx_counter_add gave.
 * (What perf events count is profile_perf_counters.h.)
 */
#ifndef PERFX_AGGREGATE_PROFILE_USER_VALUES_H
#define PERFX_AGGREGATE_PROFILE_USER_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Older points of a long series are thinned out: at most this many are kept. */
#define PROFILE_VALUE_POINTS_MAX 256

struct profile_user_value_point {
	uint64_t time_ns;
	double value; /* from then on; finite */
};

struct profile_user_value {
	uint32_t id;
	const char *name;
	uint64_t samples_count;	 /* calls; exact */
	uint64_t added_count;	 /* of these, that added to it; the others set it */
	uint64_t strange_count;	 /* of these, that gave no finite number: only counted */
	uint64_t lost_count;	 /* of these, without a record: not in lowest and highest */
	uint64_t unsummed_count; /* of those, neither in the sum nor in the value */
	double value; /* at the end: as it was set last, and what was added since; of one that was
			 never set, what was added. No number: unknown */
	double sum, lowest, highest; /* of the numbers given; lowest > highest: none was */
	double rate; /* the sum by the seconds that were recorded; < 0 is possible */
	const struct profile_user_value_point *points; /* of the value */
	size_t points_count;
};

#endif
