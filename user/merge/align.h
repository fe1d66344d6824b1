/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One clock for two captures: by calls that end on both sides at nearly the same moment.
 *
 * Neither knows when the other began, so which end of one is which of the other is not known: they
 * are laid side by side with every lag, and the one counts with which their differences vary least.
 * Steps are never quite equal, so a wrong lag shows the steps' own jitter, the right one only that
 * of the ends. Where several lags do as well, the one nearest to the machines' time of day is it.
 * Then each end is paired with the nearest one, which a lost record does not disturb, and the
 * offset is the median of the differences; over a longer time, a line through medians.
 */
#ifndef PERFX_MERGE_ALIGN_H
#define PERFX_MERGE_ALIGN_H

#include "merge/survey.h"

#include <stdbool.h>
#include <stdint.h>

/* time + offset_ns + drift · (time - from_ns) is the reference's time. */
struct alignment {
	enum perfx_alignment by; /* INVALID: it was not found */
	const char *name;	 /* of the function whose ends were compared; NULL: none */
	int64_t offset_ns;
	double drift;
	uint64_t from_ns;
	uint64_t error_ns; /* half of all pairs are nearer to it; UINT64_MAX: not known */
	uint64_t pairs_count;
};

/* Two series of ends, ascending; expected_ns: the offset by other clocks, to choose among lags that
 * do equally well. False: they do not tell. */
bool align_ends(struct alignment *alignment, const uint64_t *reference, size_t reference_count,
		const uint64_t *ends, size_t count, int64_t expected_ns);

/* Of a capture to another: by the same boot, by collectives, by backward passes, by the time of
 * day. */
struct alignment align_captures(const struct survey *reference, const struct survey *capture);

/* The same to what the reference itself is aligned to. */
struct alignment align_through(const struct alignment *outer, struct alignment inner);

uint64_t align_time(const struct alignment *alignment, uint64_t time_ns);

#endif
