/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans → steps (profile.h), in one pass: memory is bounded by the spans between two steps.
 */
#ifndef PERFX_AGGREGATE_STEPS_H
#define PERFX_AGGREGATE_STEPS_H

#include "aggregate/period.h"
#include "aggregate/step_class.h"
#include "aggregate/step_costs.h"
#include "base/grow.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>

struct steps {
	struct step_costs costs;
	uint64_t from_ns; /* where they go on from others (steps_continue); 0 */
	struct step_thread *threads;
	size_t threads_count, threads_capacity;
	struct map64 thread_ids;     /* process << 32 | tid */
	uint64_t *recording_windows; /* when they were opened, in order */
	size_t recording_windows_count, recording_windows_capacity;
	struct step_thread *shown; /* by a period that is not final */
	size_t shown_count, shown_capacity;
};

/* A span of a function whose class is not 0. 0 or -ENOMEM. */
int steps_span(struct steps *steps, const struct perfx_span *span, unsigned class);
/* A call that has a known cost, or should have one; before steps_span, for functions of a class.
 * late: its cost became known later. 0 or -ENOMEM. */
int steps_cost(struct steps *steps, const struct perfx_span *span, bool late);
/* Calls of the period's context end steps from now on; those of the past are in `calls`. 0 or
 * -ENOMEM. */
int steps_by_period(struct steps *steps, const struct period_calls *calls,
		    const struct period *period);
/* The steps of the past alone, until steps_hide_periods. 0 or -ENOMEM. */
int steps_show_period(struct steps *steps, const struct period_calls *calls,
		      const struct period *period);
void steps_hide_periods(struct steps *steps);
/* Calls of the function evaluate a model: they are the steps of a process that does nothing else.
 */
void steps_of_evaluation(struct steps *steps, uint32_t process, uint32_t function);
/* Borrowed until the next call. All zero when the process has none. */
struct profile_steps steps_of_process(const struct steps *steps, uint32_t process);

/* The steps that calls of a function end on a thread; of very many steps, of one in so many. */
struct steps_middle {
	uint64_t count; /* 0: there are none */
	uint64_t median_ns;
	uint64_t spread_ns; /* between their quartiles */
	/* Two standard deviations of the median of an eighth of them, in order of time; 0: too few
	 * steps. A machine whose speed changes has such medians. */
	uint64_t drift_ns;
};
struct steps_middle steps_middle_of(const struct steps *steps, uint32_t process, uint32_t tid,
				    uint32_t function);
/* A recording window opens: no step begins before it. To be called in order of time. 0 or -ENOMEM.
 */
int steps_recording_window(struct steps *steps, uint64_t opened_ns);
/* For a while until then calls of a process were not seen: its next step begins later. 0 or
 * -ENOMEM. */
int steps_gap(struct steps *steps, uint32_t process, uint64_t until_ns);
/* Steps that have begun in `before` go on in these, which have none yet, from a time on. Of
 * processes that go on. `before` may be asked for its steps still, but gets no more spans. 0 or
 * -ENOMEM. */
int steps_continue(struct steps *steps, struct steps *before, uint64_t from_ns,
		   bool (*goes_on)(void *ctx, uint32_t process), void *ctx);
void steps_clear(struct steps *steps);

#endif
