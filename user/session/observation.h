/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps without probes: for a short time before and after the recording nothing is attached but
 * the probe on the function that ends steps, so that their times are those of the untraced program.
 * The report sets the recorded steps beside them: the slowdown as observed.
 *
 * It is a sink before the recording's own, which keeps to itself what comes at those times.
 */
#ifndef PERFX_SESSION_OBSERVATION_H
#define PERFX_SESSION_OBSERVATION_H

#include "attach/tracer.h"
#include "decode/pack.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Does a call of this function, or the range that it marks, end a step? */
bool observation_ends_steps(const struct plan *plan, const struct plan_function *function);

/* Does any function of the plan? */
bool observation_is_possible(const struct plan *plan);

/* Durations of steps before and after the recording, in order. */
struct unprobed {
	const uint64_t *before_ns, *after_ns;
	size_t before_count, after_count;
};

/* Median of a step: the mean of both times' medians, so that a machine that becomes slower all the
 * time does not look like a slowdown; 0: too few steps. *noise_ns: two standard errors of it and
 * half of what the two differ by. The error is found from the medians of consecutive parts, since
 * what disturbs a machine lasts longer than a step. */
uint64_t unprobed_median(const struct unprobed *unprobed, uint64_t *noise_ns);

struct observation;

/* next is borrowed. NULL: no memory. */
struct observation *observation__new(struct sink *next);
void observation__free(struct observation *observation);
struct sink *observation__sink(struct observation *observation);
/* One of the two times: lets the tracer record for so long, or until the user interrupts. pids: the
 * traced processes, what their main threads wait for a CPU meanwhile. */
void observation__watch(struct observation *observation, struct tracer *tracer, const pid_t *pids,
			size_t count, uint64_t ns);
/* The recording begins: steps that ended earlier are none of its. */
void observation__recording(struct observation *observation, uint64_t from_ns);
/* It has ended, and all its records have come: from now on only facts pass. */
void observation__after(struct observation *observation);
/* All pass again, UNPROBED_STEPS records first. */
void observation__emit(struct observation *observation);

#endif
