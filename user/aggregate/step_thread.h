/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread and what ends its steps. Part of steps.c and step_choice.c. */
#ifndef PERFX_AGGREGATE_STEP_THREAD_H
#define PERFX_AGGREGATE_STEP_THREAD_H

#include "aggregate/period.h"
#include "aggregate/phase_times.h"
#include "aggregate/statistics.h"
#include "aggregate/step_series.h"

/* Functions and optimizers that end steps on one thread; optimizers have half of the places: where
 * each parameter has its own, a few show the step. */
#define ENDERS_MAX 16
/* Depths of calls that are counted separately; deeper ones count as the last. */
#define DEPTHS_MAX 64

/* A function whose calls end steps, or one of its optimizers: PyTorch calls the same function for
 * all optimizers of a class. */
struct ender {
	uint32_t function;
	unsigned rank;
	uint16_t object; /* perfx_span.object; 0: all of the function's calls */
	uint16_t last_object;
	uint64_t again_count; /* ends that followed its own, without one of another object */
	uint64_t last_ns;
	struct step_series series;
	struct step_times times;
	struct profile_step_sums run;
	struct step_tally at; /* when it ended last */
	bool at_unknown;
	uint64_t at_off_cpu_ns;
	double confidence;
	struct sketch *durations;
	struct step_picks picks;
	bool by_entry; /* its last call had no time, and ended the step at its entry */
	bool of_evaluation;
};

struct step_thread {
	uint32_t process, tid;
	uint64_t first_ns;   /* of the first range; UINT64_MAX */
	uint64_t opened_ns;  /* when the last range's recording window was opened; 0 */
	uint64_t flops;	     /* of its calls */
	uint64_t off_cpu_ns; /* in its calls, each wait once */
	/* By depth: in calls that have ended inside one that has not. */
	uint64_t inner_off_cpu_ns[DEPTHS_MAX + 1];
	struct phase_times phases;
	struct ender enders[ENDERS_MAX];
	size_t enders_count;
	struct period period; /* function 0: none is known */
	bool is_main;
};

/* Is the optimizer's time known without that of backward passes? */
static inline bool step_thread_knows_optimizer(const struct step_thread *thread)
{
	return thread->phases.has_backward && !thread->phases.has_closure;
}

#endif
