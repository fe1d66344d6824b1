// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include "base/grow.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Collectives move data and compute nothing; the work of a call that an exception ended is unknown.
 */
bool step_counts(const struct perfx_span *span)
{
	if (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_MOVES))
		return false;
	return span->cost_state == PERFX_COST_COUNTED || span->cost_state == PERFX_COST_UNREAD ||
	       span->cost_state == PERFX_COST_OPAQUE;
}

void step_tally_call(struct step_tally *tally, unsigned cost_state, unsigned dtype, uint64_t flops)
{
	tally->unread_count += cost_state == PERFX_COST_UNREAD;
	tally->opaque_count += cost_state == PERFX_COST_OPAQUE;
	if (cost_state != PERFX_COST_COUNTED)
		return;
	tally->counted_count++;
	tally->flops += flops;
	tally->dtypes[dtype] += flops;
}

void step_tally_merge(struct step_tally *tally, const struct step_tally *more)
{
	tally->flops += more->flops;
	tally->thread_flops += more->thread_flops;
	for (int i = 0; i < PERFX_DTYPES; i++)
		tally->dtypes[i] += more->dtypes[i];
	tally->counted_count += more->counted_count;
	tally->unread_count += more->unread_count;
	tally->opaque_count += more->opaque_count;
}

void step_tally_subtract(struct step_tally *tally, const struct step_tally *less)
{
	tally->flops -= less->flops;
	tally->thread_flops -= less->thread_flops;
	for (int i = 0; i < PERFX_DTYPES; i++)
		tally->dtypes[i] -= less->dtypes[i];
	tally->counted_count -= less->counted_count;
	tally->unread_count -= less->unread_count;
	tally->opaque_count -= less->opaque_count;
}

static void join(struct profile_step *into, const struct profile_step *next)
{
	into->count += next->count;
	into->computed_count += next->computed_count;
	into->divided_count += next->divided_count;
	into->waited_count += next->waited_count;
	into->to_ns = next->to_ns;
	into->total_ns += next->total_ns;
	into->max_ns = max_u64(into->max_ns, next->max_ns);
	for (int i = 0; i < PROFILE_PHASES; i++)
		into->phases[i] += next->phases[i];
	into->flops += next->flops;
	into->off_cpu_ns += next->off_cpu_ns;
}

static int append(struct step_series *series, const struct profile_step *step)
{
	struct profile_step *last =
		series->steps_count ? &series->steps[series->steps_count - 1] : NULL;

	if (last && last->count < series->each) {
		join(last, step);
		return 0;
	}
	series->each = series->each ?: 1;
	if (series->steps_count < PROFILE_STEPS_MAX)
		return LIST_ADD(series->steps, *step);
	/* the series is full: two steps become one */
	series->steps_count /= 2;
	for (size_t i = 0; i < series->steps_count; i++) {
		series->steps[i] = series->steps[2 * i];
		join(&series->steps[i], &series->steps[2 * i + 1]);
	}
	series->each *= 2;
	return append(series, step);
}

int step_series_add(struct step_series *series, const struct profile_step *step,
		    const struct step_tally *tally)
{
	struct profile_step with_flops = *step;
	double distance = (double)step->total_ns - series->mean_ns;

	if (tally) {
		with_flops.flops = tally->flops;
		step_tally_merge(&series->tally, tally);
		if (!series->computed_count++)
			series->computed_from_ns = step->from_ns;
		series->computed_to_ns = step->to_ns;
		series->computed_ns += step->total_ns;
	}
	if (step->divided_count) {
		series->divided.count++;
		series->divided.ns += step->total_ns;
		for (int i = 0; i < PROFILE_PHASES; i++)
			series->divided.phases[i] += step->phases[i];
	}
	if (step->waited_count) {
		series->waited_count++;
		series->waited_ns += step->total_ns;
		series->off_cpu_ns += step->off_cpu_ns;
	}
	series->count++;
	series->total_ns += step->total_ns;
	series->max_ns = max_u64(series->max_ns, step->max_ns);
	for (int i = 0; i < PROFILE_PHASES; i++)
		series->phases[i] += step->phases[i];
	series->mean_ns += distance / (double)series->count;
	series->squares += distance * ((double)step->total_ns - series->mean_ns);
	return append(series, &with_flops);
}

bool step_series_late(struct step_series *series, uint64_t end_ns, const struct step_tally *call)
{
	size_t at = PARTITION_POINT(i, series->steps_count, series->steps[i].to_ns < end_ns);
	struct profile_step *step = series->steps + at;

	if (end_ns <= series->computed_from_ns || end_ns > series->computed_to_ns ||
	    at == series->steps_count || end_ns <= step->from_ns || !step->computed_count)
		return false;
	step->flops += call->flops;
	step_tally_merge(&series->tally, call);
	return true;
}

void step_series_show(const struct step_series *series, struct profile_steps *into)
{
	into->count = series->count;
	into->total_ns = series->total_ns;
	into->avg_ns = series->total_ns / series->count;
	into->max_ns = series->max_ns;
	into->stddev_ns = sqrt(series->squares / (double)series->count);
	memcpy(into->phases, series->phases, sizeof(into->phases));
	if (steps_are_typical(into, series->divided.count, series->divided.ns))
		into->divided = series->divided;
	into->waited_count = series->waited_count;
	into->waited_ns = series->waited_ns;
	into->off_cpu_ns = series->waited_count ? series->off_cpu_ns : PROFILE_ABSENT;
	into->cost = (struct profile_step_cost){
		.steps_count = series->computed_count,
		.ns = series->computed_ns,
		.flops = series->tally.flops,
		.thread_flops = series->tally.thread_flops,
		.dtype = profile_main_dtype(series->tally.dtypes),
		.counted_count = series->tally.counted_count,
		.unread_count = series->tally.unread_count,
		.opaque_count = series->tally.opaque_count,
	};
	into->series = series->steps;
	into->series_count = series->steps_count;
	into->series_each = series->each;
}

int step_times_add(struct step_times *times, const struct profile_step *step)
{
	struct profile_step_time time = {.from_ns = step->from_ns, .to_ns = step->to_ns};

	memcpy(time.phases, step->phases, sizeof(time.phases));
	if (times->count == PROFILE_STEP_TIMES_MAX)
		LIST_DROP_FROM(times, PROFILE_STEP_TIMES_MAX / 2);
	return LIST_ADD_TO(times, time);
}

int step_picks_add(struct step_picks *picks, uint64_t ns)
{
	size_t kept = 0;

	if (picks->seen_count++ & ((1u << picks->shift) - 1))
		return 0;
	if (picks->count == STEP_PICKS_MAX) {
		for (size_t i = 0; i < picks->count; i += 2)
			picks->ns[kept++] = picks->ns[i];
		picks->count = kept;
		picks->shift++;
	}
	if (grow_array(&picks->ns, &picks->capacity, picks->count + 1, sizeof(*picks->ns)))
		return -ENOMEM;
	picks->ns[picks->count++] = ns;
	return 0;
}
