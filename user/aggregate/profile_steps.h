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
 *	forward    what lies between the data and the backward pass that follows; without data, what
 *	           lies before each backward pass
 *	other      the rest; so the parts add up to the steps' time
 *
 * Where backward passes end the steps, and no data is seen, forward is not told from the rest.
 */
#ifndef PERFX_AGGREGATE_PROFILE_STEPS_H
#define PERFX_AGGREGATE_PROFILE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum profile_phase {
	PROFILE_PHASE_OTHER = 0,
	PROFILE_PHASE_FORWARD,
	PROFILE_PHASE_DATA,
	PROFILE_PHASE_BACKWARD,
	PROFILE_PHASE_OPTIMIZER,
	PROFILE_PHASES
};

struct profile_steps {
	uint64_t count;	   /* ends seen; 0: no steps are known, and nothing below is */
	uint32_t function; /* whose ends they are */
	uint32_t tid;	   /* on which thread */
	uint64_t total_ns, avg_ns, p50_ns, p95_ns, max_ns;
	uint64_t phases[PROFILE_PHASES]; /* sums over the steps, ns */
};

#endif
