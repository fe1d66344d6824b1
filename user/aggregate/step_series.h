/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps in a row, and what the calls of a process computed meanwhile (steps.c). Sums run on as
 * calls come; a step's are what they grew by between its ends. The first step's beginning is known
 * only when its first range is over: for it the process's first calls are kept.
 */
#ifndef PERFX_AGGREGATE_STEP_SERIES_H
#define PERFX_AGGREGATE_STEP_SERIES_H

#include "aggregate/steps.h"

/* Calls that are kept for the first step; when there are more before its end, what it computed is
 * not known. 24 bytes each. */
#define STEP_CALLS_MAX 16384

struct step_tally {
	uint64_t flops, thread_flops;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t counted_count, unread_count, opaque_count;
};

struct step_call {
	uint64_t end_ns, flops;
	uint32_t tid;
	uint8_t cost_state, dtype;
};

struct step_process {
	struct step_tally sum; /* but thread_flops */
	struct step_call *calls;
	size_t calls_count, calls_capacity;
	bool calls_full;
};

struct step_series {
	struct profile_step *steps; /* each of `each`, the last one of fewer perhaps */
	size_t steps_count, capacity;
	uint64_t each;
	uint64_t count, total_ns, max_ns;
	double mean_ns, squares; /* squares: of the distances from the mean (Welford, 1962) */
	uint64_t phases[PROFILE_PHASES];
	uint64_t unknown_count, unknown_until_ns, unknown_ns; /* the first, where not known */
	struct step_tally tally;
};

/* Does it have a known cost, or should it? */
bool step_counts(const struct perfx_span *span);

void step_tally_add(struct step_tally *tally, const struct perfx_span *span);
void step_tally_merge(struct step_tally *tally, const struct step_tally *more);
void step_tally_subtract(struct step_tally *tally, const struct step_tally *less);

/* NULL: no call of it has a known cost; of _get, memory is out. */
const struct step_process *step_process_find(const struct steps *steps, uint32_t process);
struct step_process *step_process_get(struct steps *steps, uint32_t process);
void step_processes_clear(struct steps *steps);
/* 0 or -ENOMEM */
int step_process_add(struct step_process *process, const struct perfx_span *span, uint64_t end_ns);
/* What it computed since then, and that thread; false: not known. */
bool step_process_since(const struct step_process *process, uint32_t tid, uint64_t from_ns,
			struct step_tally *into);

/* tally NULL: not known. 0 or -ENOMEM. */
int step_series_add(struct step_series *series, const struct profile_step *step,
		    const struct step_tally *tally);
/* A call that ended then, in a step that is over. */
void step_series_late(struct step_series *series, uint64_t end_ns, const struct step_tally *call);
/* All but function, tid and quantiles. */
void step_series_show(const struct step_series *series, struct profile_steps *into);

#endif
