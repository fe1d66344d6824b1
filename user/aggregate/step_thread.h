/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread and what ends its steps. Part of steps.c and step_choice.c. */
#ifndef PERFX_AGGREGATE_STEP_THREAD_H
#define PERFX_AGGREGATE_STEP_THREAD_H

#include "aggregate/period.h"
#include "aggregate/statistics.h"
#include "aggregate/steps.h"

/*
 * The times in which a thread was in each phase of a step. Where calls of several phases lie inside
 * each other, the phase with the greater number counts.
 */

/* A time in which a phase holds, or (OTHER) traced code ran. */
struct phase_time {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	enum profile_phase phase;
};

struct phase_times {
	struct phase_time *list; /* one after another */
	size_t count, capacity;
	bool has_backward;
	bool has_closure; /* an optimizer called what had a backward pass in it */
};

/* A call's time; to be called in the order in which calls end. 0 or -ENOMEM. */
int phase_times_add(struct phase_times *times, struct phase_time new);
/* Adds the time of each phase in a step from one time to another, ns. by_backward: backward passes
 * end the steps, so that traced code belongs to a forward pass only where the data phase is known.
 */
void phase_times_divide(const struct phase_times *times, uint64_t from_ns, uint64_t to_ns,
			bool by_backward, uint64_t phases[PROFILE_PHASES]);
/* Drops phases that have ended by a time, and the older half where more than `most` are left. */
void phase_times_forget(struct phase_times *times, uint64_t until_ns, size_t most);
void phase_times_clear(struct phase_times *times);

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
