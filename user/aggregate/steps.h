/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans → steps (profile.h), in one pass: memory is bounded by the spans between two steps.
 */
#ifndef PERFX_AGGREGATE_STEPS_H
#define PERFX_AGGREGATE_STEPS_H

#include "aggregate/period.h"
#include "aggregate/profile.h"
#include "base/grow.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>

/* Which calls end steps, and to which phase of a step their time belongs. */

/* Bits that say which part calls of a function have in steps. */
#define STEP_PHASE_MASK 0x07 /* enum profile_phase */
#define STEP_RANGE	0x08 /* a step may begin with it */
#define STEP_RANK_SHIFT 4    /* above: 0 ends no step; the highest counts */
#define STEP_RANK_MASK	0x70
#define STEP_TRACED	0x80 /* the thread was in a traced function: aggregate adds it */

/* As enum profile_steps_by. */
enum step_rank {
	STEP_BY_PERIOD = 0,
	STEP_BY_INFERENCE,
	STEP_BY_BACKWARD,
	STEP_BY_CALL,
	STEP_BY_OPTIMIZER,
	STEP_BY_NAME
};

/* Returns the bits of a function by its source, name and flags (PERFX_FUNCTION_). Pure. */
unsigned step_class(unsigned source, const char *name, unsigned flags);

/* Classes of functions by id, for users that follow steps without an aggregate. */
struct step_classes {
	unsigned *list;
	size_t capacity;
};

/* Without memory the function has none. */
void step_classes_add(struct step_classes *classes, const struct perfx_function *function,
		      const char *name);
/* 0: the span means nothing for steps, or has no time. */
unsigned step_classes_of(const struct step_classes *classes, const struct perfx_span *span);
void step_classes_clear(struct step_classes *classes);

/* Steps in a row, and what the calls of a process computed meanwhile. Part of steps. */

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
	size_t steps_count, steps_capacity;
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
/* A call whose cost became known late: did it end in one of these? */
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

/*
 * Adds up what the calls of each process compute, so that steps can be given their share. Keeps the
 * time at which the overhead budget first stopped measuring a part of it: figures of steps rest on
 * the steps before that time.
 */

/* Until when calls' times, their costs, their waits and backward passes were measured. 0: to the
 * end. */
struct step_limits {
	uint64_t times_ns, costs_ns, waits_ns, backward_ns;
};

struct step_process;

struct step_costs {
	struct step_limits limits; /* of processes that come later */
	struct step_process *list;
	size_t count, capacity;
	struct map64 ids; /* process → list[] */
};

/* A call that step_counts(). 0 or -ENOMEM. */
int step_costs_add(struct step_costs *costs, const struct perfx_span *span);
/* Of all calls so far. */
struct step_tally step_costs_sum(const struct step_costs *costs, uint32_t process);
/* Adds up the calls that ended after from_ns; thread_flops: those of the thread tid. false: some of
 * these calls are no longer kept. */
bool step_costs_since(const struct step_costs *costs, uint32_t process, uint32_t tid,
		      uint64_t from_ns, struct step_tally *into);

/* Something that a process rests on is not measured from some time on; earlier limits stay. 0 or
 * -ENOMEM. */
int step_costs_limit(struct step_costs *costs, uint32_t process, const struct step_limits *limits);
/* The same for processes that are not known yet: nor were their calls of the time before. */
void step_costs_limit_later(struct step_costs *costs, const struct step_limits *limits);
struct step_limits step_costs_limits(const struct step_costs *costs, uint32_t process);
/* FLOPs of the calls that had ended by the process's costs_ns. */
uint64_t step_costs_limited_flops(const struct step_costs *costs, uint32_t process);

/* For a while until then calls of a process were not seen. 0 or -ENOMEM. */
int step_costs_gap(struct step_costs *costs, uint32_t process, uint64_t until_ns);
/* When the last such time ended; 0: there was none. */
uint64_t step_costs_gap_end(const struct step_costs *costs, uint32_t process);

/* The overhead budget changes probes of a process: meanwhile calls may be missed. 0 or -ENOMEM. */
int step_costs_change(struct step_costs *costs, uint32_t process, uint64_t time_ns);
/* Did it do so between two times? */
bool step_costs_changed(const struct step_costs *costs, uint32_t process, uint64_t from_ns,
			uint64_t to_ns);

/* Processes go on in these costs, which have none yet, from a time on. 0 or -ENOMEM. */
int step_costs_continue(struct step_costs *costs, struct step_costs *before, uint64_t from_ns,
			bool (*goes_on)(void *ctx, uint32_t process), void *ctx);
/* Calls that ended by now_ns are in no step that is to come. */
void step_costs_forget_calls(struct step_costs *costs, uint32_t process, uint64_t now_ns);
void step_costs_clear(struct step_costs *costs);

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
