/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of a training, as its ranges show them. A step lasts from the end before it to its own
 * end; the first one from the first range that the thread has shown. What ends a step is, where
 * there are several, the first of
 *
 *	a range that the user named (--step-range), or that the program marks as a step
 *	PyTorch's range of an optimizer's step
 *	a backward pass (torch::autograd::Engine::execute), where ranges have no names
 *
 * and of several of a kind the one that ends least often: several optimizers.
 *
 * A step's time is divided by what its thread was in, the first of these that holds:
 *
 *	optimizer  a range of an optimizer: its step, its zero_grad
 *	backward   a backward pass
 *	data       the next batch of a DataLoader
 *	forward    traced functions and ranges between the data and the backward pass that follows;
 *	           without data, those before each backward pass
 *	other      traced functions and ranges elsewhere
 *	untraced   the rest, in which nothing that is traced ran on the thread: Python, what no
 *probe sees. So the parts add up to the steps' time.
 *
 * Where backward passes end the steps, and no data is seen, forward is not distinguished from the
 * rest.
 *
 * Operations are those of all calls of the process, whichever thread they ran on, that ended in the
 * step. Calls that came by the overflow sums have no time and are in no step.
 */
#ifndef PERFX_AGGREGATE_PROFILE_STEPS_H
#define PERFX_AGGREGATE_PROFILE_STEPS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum profile_phase {
	PROFILE_PHASE_OTHER = 0,
	PROFILE_PHASE_FORWARD,
	PROFILE_PHASE_DATA,
	PROFILE_PHASE_BACKWARD,
	PROFILE_PHASE_OPTIMIZER,
	PROFILE_PHASE_UNTRACED,
	PROFILE_PHASES
};

/* As they come in a step. */
static const enum profile_phase profile_phases_in_order[PROFILE_PHASES] = {
	PROFILE_PHASE_DATA,	 PROFILE_PHASE_FORWARD, PROFILE_PHASE_BACKWARD,
	PROFILE_PHASE_OPTIMIZER, PROFILE_PHASE_OTHER,	PROFILE_PHASE_UNTRACED};

static inline const char *profile_phase_name(enum profile_phase phase)
{
	static const char *const names[] = {"other",	"forward",   "data",
					    "backward", "optimizer", "untraced"};

	return names[phase];
}

/* Steps that follow each other: one or, where there are more than PROFILE_STEPS_MAX, 2, 4, 8, … */
#define PROFILE_STEPS_MAX 2048

struct profile_step {
	uint64_t count;
	uint64_t from_ns, to_ns;	 /* of the first, of the last; CLOCK_MONOTONIC */
	uint64_t total_ns, max_ns;	 /* max_ns: of the longest */
	uint64_t phases[PROFILE_PHASES]; /* ns */
	uint64_t flops;
};

/* What was computed in steps. */
struct profile_step_cost {
	/* Of how many steps, and how long they took: all or, where the process had computed for
	 * long before the first one, all but that. */
	uint64_t steps_count, ns;
	uint64_t flops, thread_flops; /* thread_flops: by calls on the steps' own thread */
	enum perfx_dtype dtype;	      /* of most of them */
	/* Calls by what is known of their work (enum perfx_cost_state). */
	uint64_t counted_count, unread_count, opaque_count;
};

struct profile_steps {
	uint64_t count;	   /* ends seen; 0: no steps are known, and nothing below is */
	uint32_t function; /* whose ends they are */
	uint32_t tid;	   /* on which thread */
	uint64_t total_ns, avg_ns, p50_ns, p95_ns, max_ns;
	double stddev_ns;		 /* of the population */
	uint64_t phases[PROFILE_PHASES]; /* sums over the steps, ns */
	struct profile_step_cost cost;
	const struct profile_step *series; /* in order */
	size_t series_count;
	uint64_t series_each; /* steps in each but the last */
};

#endif
