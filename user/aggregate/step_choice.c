// SPDX-License-Identifier: BSD-2-Clause
/* Chooses the calls that end the steps of a process. */
#include "aggregate/step_thread.h"
#include "aggregate/steps.h"
#include "base/order.h"

#include <stdlib.h>

/* Where one thread ends steps and another one has the same rank. */
struct best_ender {
	const struct step_thread *thread;
	const struct ender *ender; /* NULL: none yet */
};

/* A period of the main thread is that of the program; of others the one with the most time. */
static bool is_better_period(const struct step_thread *thread, const struct ender *ender,
			     const struct best_ender *best)
{
	if (thread->is_main != best->thread->is_main)
		return thread->is_main;
	return ender->run.total_ns > best->ender->run.total_ns;
}

/* If optimizers take turns, at most one in so many ends of an optimizer follows its own last end.
 */
#define TURNS_AGAIN 10

/* Do optimizers of this one's class step between its steps? */
static bool takes_turns(const struct ender *ender)
{
	return !ender->object || TURNS_AGAIN * ender->again_count <= ender->run.ends_count;
}

/* The optimizer that steps least often, unless it did so in less than half of the time: then it is
 * one of another part of the program. */
static bool is_better_optimizer(const struct ender *ender, const struct ender *best)
{
	bool rarer = ender->run.ends_count < best->run.ends_count;
	const struct ender *rare = rarer ? ender : best, *often = rarer ? best : ender;
	bool covers = rare->run.total_ns >= often->run.total_ns / 2;

	return rarer ? covers : often->run.ends_count > rare->run.ends_count && !covers;
}

static bool is_compiled_period(const struct step_thread *thread, const struct ender *ender)
{
	return ender->rank == STEP_BY_PERIOD && thread->period.compiled;
}

/* TensorFlow takes a gradient also while it traces a function, whose calls are the steps. */
static bool is_better_rank(const struct step_thread *thread, const struct ender *ender,
			   const struct best_ender *best)
{
	if ((is_compiled_period(thread, ender) && best->ender->rank == STEP_BY_BACKWARD) ||
	    (is_compiled_period(best->thread, best->ender) && ender->rank == STEP_BY_BACKWARD))
		return ender->run.ends_count > best->ender->run.ends_count;
	return ender->rank > best->ender->rank;
}

static bool is_better(const struct step_thread *thread, const struct ender *ender,
		      const struct best_ender *best)
{
	if (!ender->run.ends_count || !takes_turns(ender))
		return false;
	if (!best->ender)
		return true;
	if (ender->of_evaluation != best->ender->of_evaluation)
		return !ender->of_evaluation;
	if (ender->rank != best->ender->rank)
		return is_better_rank(thread, ender, best);
	if (ender->rank == STEP_BY_PERIOD)
		return is_better_period(thread, ender, best);
	if (ender->rank == STEP_BY_OPTIMIZER)
		return is_better_optimizer(ender, best->ender);
	/* Evaluations come less often than training steps. */
	if (ender->rank == STEP_BY_CALL)
		return ender->run.ends_count > best->ender->run.ends_count;
	return ender->run.ends_count < best->ender->run.ends_count;
}

static void find_best(const struct step_thread *threads, size_t count, uint32_t process,
		      struct best_ender *best)
{
	for (size_t i = 0; i < count; i++) {
		const struct step_thread *thread = &threads[i];

		for (size_t j = 0; thread->process == process && j < thread->enders_count; j++)
			if (is_better(thread, &thread->enders[j], best))
				*best = (struct best_ender){thread, &thread->enders[j]};
	}
}

/* Threads of a pool make the same calls: each comes at least half as often to its end. */
static unsigned count_alike(const struct step_thread *threads, size_t count, uint32_t process,
			    const struct best_ender *best)
{
	unsigned alike = 0;

	for (size_t i = 0; i < count; i++) {
		const struct step_thread *thread = &threads[i];

		if (thread->process != process || thread->tid == best->thread->tid)
			continue;
		for (size_t j = 0; j < thread->enders_count; j++)
			alike += thread->enders[j].rank == best->ender->rank &&
				 thread->enders[j].function == best->ender->function &&
				 2 * thread->enders[j].series.ends_count >=
					 best->ender->series.ends_count;
	}
	return alike;
}

/* How many threads repeat the same calls, inferences or those of a period, then none of them the
 * main one: each has units of work of its
 * own, and the process has no steps. 0: it is one thread, whose steps they are. */
static unsigned repeating_threads(const struct steps *steps, uint32_t process,
				  const struct best_ender *best)
{
	unsigned alike;

	if (best->ender->rank != STEP_BY_INFERENCE &&
	    (best->ender->rank != STEP_BY_PERIOD || best->thread->is_main))
		return 0;
	alike = count_alike(steps->threads, steps->threads_count, process, best) +
		count_alike(steps->shown, steps->shown_count, process, best);
	return alike ? alike + 1 : 0;
}

static uint64_t quantile_of(const struct ender *ender, double q)
{
	uint64_t value = sketch__quantile(ender->durations, q);

	return min_u64(value, ender->series.max_ns);
}

struct profile_steps steps_of_process(const struct steps *steps, uint32_t process)
{
	struct profile_steps result = {0};
	struct best_ender found = {0};
	struct step_limits limits;
	const struct ender *best;
	unsigned repeating;

	find_best(steps->threads, steps->threads_count, process, &found);
	if (found.ender)
		result.run = found.ender->run;
	find_best(steps->shown, steps->shown_count, process, &found);
	best = found.ender;
	if (!best || !best->series.ends_count)
		return result;
	repeating = repeating_threads(steps, process, &found);
	if (repeating)
		return (struct profile_steps){.repeating_threads = repeating,
					      .repeated = best->function};
	limits = step_costs_limits(&steps->costs, process);
	result.times_until_ns = limits.times_ns;
	result.costs_until_ns = limits.costs_ns;
	result.backward_until_ns = limits.backward_ns;
	result.optimizer_until_ns =
		step_thread_knows_optimizer(found.thread) ? 0 : limits.backward_ns;
	result.ends_count = best->series.ends_count;
	result.first_ns = found.thread->first_ns;
	result.tid = found.thread->tid;
	result.found_by = (enum profile_steps_by)best->rank;
	result.context = best->rank == STEP_BY_PERIOD ? found.thread->period.context : 0;
	result.confidence = best->rank == STEP_BY_PERIOD ? best->confidence : 1;
	result.function = best->function;
	if (!best->series.count)
		return result;
	step_series_show(&best->series, &result);
	result.p50_ns = quantile_of(best, 0.50);
	result.p95_ns = quantile_of(best, 0.95);
	result.times = best->times.list;
	result.times_count = best->times.count;
	return result;
}

/* Consecutive parts of a recording. In order of their medians, the lowest and the highest part are
 * left out: the first part may have probes that the budget removed. */
#define PARTS 8
/* The others of eight normal values are so many standard deviations apart. */
#define PARTS_APART 1.70

static uint64_t drift_of(const struct step_picks *picks)
{
	uint64_t medians_ns[PARTS];

	if (picks->count < PARTS)
		return 0;
	for (size_t i = 0; i < PARTS; i++) {
		size_t from = picks->count * i / PARTS, to = picks->count * (i + 1) / PARTS;

		medians_ns[i] = median_u64(picks->ns + from, to - from);
	}
	SORT_ITEMS(medians_ns, PARTS, compare_u64);
	return (uint64_t)(2 / PARTS_APART * (double)(medians_ns[PARTS - 2] - medians_ns[1]));
}

struct steps_middle steps_middle_of(const struct steps *steps, uint32_t process, uint32_t tid,
				    uint32_t function)
{
	const struct step_thread *thread =
		MAP64_FIND(steps->thread_ids, MAP64_PAIR(process, tid), steps->threads);

	for (size_t i = 0; thread && i < thread->enders_count; i++) {
		const struct ender *ender = &thread->enders[i];

		if (ender->function == function)
			return (struct steps_middle){
				.count = ender->series.count,
				.median_ns = median_u64(ender->picks.ns, ender->picks.count),
				.spread_ns = quantile_of(ender, 0.75) - quantile_of(ender, 0.25),
				.drift_ns = drift_of(&ender->picks)};
	}
	return (struct steps_middle){0};
}
