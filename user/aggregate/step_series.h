/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps in a row, and what the calls of a process computed meanwhile. Part of steps. */
#ifndef PERFX_AGGREGATE_STEP_SERIES_H
#define PERFX_AGGREGATE_STEP_SERIES_H

#include "aggregate/profile.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>

/* Sums run on as calls come; a step's are what they grew by between its ends. */
struct step_tally {
	uint64_t flops, thread_flops;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t counted_count, unread_count, opaque_count;
};

/* Does a call's cost count for steps? */
bool step_counts(const struct perfx_span *span);
void step_tally_call(struct step_tally *tally, unsigned cost_state, unsigned dtype, uint64_t flops);
void step_tally_merge(struct step_tally *tally, const struct step_tally *more);
void step_tally_subtract(struct step_tally *tally, const struct step_tally *less);

struct step_series {
	struct profile_step *steps; /* each of `each`, the last one of fewer perhaps */
	size_t steps_count, capacity;
	uint64_t each;
	uint64_t count, total_ns, max_ns;
	double mean_ns, squares; /* squares: of the distances from the mean (Welford, 1962) */
	uint64_t ends_count;	 /* also of steps that are not whole */
	uint64_t phases[PROFILE_PHASES];
	struct profile_step_division divided;
	uint64_t waited_count, waited_ns, off_cpu_ns;
	/* Those whose costs are known; they follow each other. */
	uint64_t computed_count, computed_ns, computed_from_ns, computed_to_ns;
	struct step_tally tally;
};

/* tally NULL: what it computed is not known. 0 or -ENOMEM. */
int step_series_add(struct step_series *series, const struct profile_step *step,
		    const struct step_tally *tally);
/* A call of which it was learned late what it computed: did it end in one of these? */
bool step_series_late(struct step_series *series, uint64_t end_ns, const struct step_tally *call);
/* Borrowed. Not of an empty one. */
void step_series_show(const struct step_series *series, struct profile_steps *into);

/* The last steps, one by one. */
struct step_times {
	struct profile_step_time *list;
	size_t count, capacity;
};

/* 0 or -ENOMEM. */
int step_times_add(struct step_times *times, const struct profile_step *step);

/* Steps' times as they were, for a median that is to be exact: with more than STEP_PICKS_MAX, every
 * second one, every fourth, … */
#define STEP_PICKS_MAX 1024

struct step_picks {
	uint64_t *ns;
	size_t count, capacity;
	uint64_t seen_count;
	unsigned shift; /* of those seen, one in 1 << shift is kept */
};

/* 0 or -ENOMEM. */
int step_picks_add(struct step_picks *picks, uint64_t ns);

#endif
