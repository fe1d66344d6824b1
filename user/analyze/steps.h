/* SPDX-License-Identifier: BSD-2-Clause */
/* What is to be said of a training's steps. Pure functions of the profile. */
#ifndef PERFX_ANALYZE_STEPS_H
#define PERFX_ANALYZE_STEPS_H

#include "analyze/roofline.h"

/* A step is slow that takes more than so many times the median. */
#define STEPS_SLOW 1.5

/* What steps compute; a number that is not known is < 0. */
struct step_rates {
	double flops; /* of a step, on average */
	double flops_per_s;
	double thread_share; /* of the operations, those of the steps' own thread */
	struct roof roof;    /* of all cores; flops_per_s 0: not known */
	double mfu;
	/* In the process, by calls that came without a record (the overflow sums): in no step. */
	uint64_t unrecorded_flops;
};

struct step_rates steps_rates(const struct profile *profile, const struct profile_process *process);
/* Of steps that follow each other; < 0: not known. */
double steps_mfu(const struct profile *profile, const struct profile_steps *steps,
		 const struct profile_step *step);

/* Is there a slow one among them? */
bool steps_slow(const struct profile_steps *steps, const struct profile_step *step);
/* Ends of steps that came without a record: each made one step of two. */
uint64_t steps_unrecorded(const struct profile_process *process);

#endif
