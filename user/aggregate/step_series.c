// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/step_series.h"

#include "base/grow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- tallies --- */

/* What collectives move are no operations, and what an exception ended is not known. */
bool step_counts(const struct perfx_span *span)
{
	if (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_MOVES))
		return false;
	return span->cost_state == PERFX_COST_COUNTED || span->cost_state == PERFX_COST_UNREAD ||
	       span->cost_state == PERFX_COST_OPAQUE;
}

static void add(struct step_tally *tally, unsigned cost_state, unsigned dtype, uint64_t flops)
{
	tally->unread_count += cost_state == PERFX_COST_UNREAD;
	tally->opaque_count += cost_state == PERFX_COST_OPAQUE;
	if (cost_state != PERFX_COST_COUNTED)
		return;
	tally->counted_count++;
	tally->flops += flops;
	tally->dtypes[dtype] += flops;
}

void step_tally_add(struct step_tally *tally, const struct perfx_span *span)
{
	add(tally, span->cost_state, span->dtype, span->flops);
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

static enum perfx_dtype most_of(const struct step_tally *tally)
{
	int most = PERFX_DTYPE_UNKNOWN;

	for (int i = PERFX_DTYPE_UNKNOWN + 1; i < PERFX_DTYPES; i++)
		if (tally->dtypes[i] && (!most || tally->dtypes[i] > tally->dtypes[most]))
			most = i;
	return (enum perfx_dtype)most;
}

/* --- processes --- */

const struct step_process *step_process_find(const struct steps *steps, uint32_t process)
{
	uint32_t at = map64_get(&steps->process_ids, process);

	return at == MAP64_NONE ? NULL : &steps->processes[at];
}

struct step_process *step_process_get(struct steps *steps, uint32_t process)
{
	uint32_t at = map64_get(&steps->process_ids, process);

	if (at != MAP64_NONE)
		return &steps->processes[at];
	if (grow_array(&steps->processes, &steps->processes_capacity, steps->processes_count + 1,
		       sizeof(*steps->processes)) ||
	    map64_put(&steps->process_ids, process, (uint32_t)steps->processes_count))
		return NULL;
	steps->processes[steps->processes_count] = (struct step_process){0};
	return &steps->processes[steps->processes_count++];
}

void step_processes_clear(struct steps *steps)
{
	for (size_t i = 0; i < steps->processes_count; i++)
		free(steps->processes[i].calls);
	free(steps->processes);
	map64_clear(&steps->process_ids);
}

int step_process_add(struct step_process *process, const struct perfx_span *span, uint64_t end_ns)
{
	step_tally_add(&process->sum, span);
	if (process->calls_count == STEP_CALLS_MAX) {
		process->calls_full = true;
		return 0;
	}
	if (grow_array(&process->calls, &process->calls_capacity, process->calls_count + 1,
		       sizeof(*process->calls)))
		return -ENOMEM;
	process->calls[process->calls_count++] = (struct step_call){.end_ns = end_ns,
								    .flops = span->flops,
								    .tid = span->tid,
								    .cost_state = span->cost_state,
								    .dtype = span->dtype};
	return 0;
}

bool step_process_since(const struct step_process *process, uint32_t tid, uint64_t from_ns,
			struct step_tally *into)
{
	*into = (struct step_tally){0};
	for (size_t i = 0; i < process->calls_count; i++) {
		const struct step_call *call = &process->calls[i];

		if (call->end_ns <= from_ns)
			continue;
		add(into, call->cost_state, call->dtype, call->flops);
		if (call->cost_state == PERFX_COST_COUNTED && call->tid == tid)
			into->thread_flops += call->flops;
	}
	return !process->calls_full;
}

/* --- steps in a row --- */

static void join(struct profile_step *into, const struct profile_step *next)
{
	into->count += next->count;
	into->to_ns = next->to_ns;
	into->total_ns += next->total_ns;
	if (next->max_ns > into->max_ns)
		into->max_ns = next->max_ns;
	for (int i = 0; i < PROFILE_PHASES; i++)
		into->phases[i] += next->phases[i];
	into->flops += next->flops;
}

/* Two become one. */
static void halve(struct step_series *series)
{
	size_t kept = 0;

	for (size_t i = 0; i < series->steps_count; i += 2, kept++) {
		series->steps[kept] = series->steps[i];
		if (i + 1 < series->steps_count)
			join(&series->steps[kept], &series->steps[i + 1]);
	}
	series->steps_count = kept;
	series->each *= 2;
}

static int append(struct step_series *series, const struct profile_step *step)
{
	struct profile_step *last =
		series->steps_count ? &series->steps[series->steps_count - 1] : NULL;

	if (last && last->count < series->each) {
		join(last, step);
		return 0;
	}
	if (series->steps_count == PROFILE_STEPS_MAX) {
		halve(series);
		return append(series, step);
	}
	if (grow_array(&series->steps, &series->capacity, series->steps_count + 1,
		       sizeof(*series->steps)))
		return -ENOMEM;
	series->each = series->each ? series->each : 1;
	series->steps[series->steps_count++] = *step;
	return 0;
}

int step_series_add(struct step_series *series, const struct profile_step *step,
		    const struct step_tally *tally)
{
	struct profile_step with_flops = *step;
	double distance = (double)step->total_ns - series->mean_ns;

	if (tally) {
		with_flops.flops = tally->flops;
		step_tally_merge(&series->tally, tally);
	} else {
		series->unknown_count++;
		series->unknown_until_ns = step->to_ns;
		series->unknown_ns += step->total_ns;
	}
	series->count++;
	series->total_ns += step->total_ns;
	if (step->max_ns > series->max_ns)
		series->max_ns = step->max_ns;
	for (int i = 0; i < PROFILE_PHASES; i++)
		series->phases[i] += step->phases[i];
	series->mean_ns += distance / (double)series->count;
	series->squares += distance * ((double)step->total_ns - series->mean_ns);
	return append(series, &with_flops);
}

void step_series_late(struct step_series *series, uint64_t end_ns, const struct step_tally *call)
{
	size_t low = 0, high = series->steps_count;

	if (end_ns <= series->unknown_until_ns)
		return;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (series->steps[middle].to_ns < end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == series->steps_count || end_ns <= series->steps[low].from_ns)
		return;
	series->steps[low].flops += call->flops;
	step_tally_merge(&series->tally, call);
}

void step_series_show(const struct step_series *series, struct profile_steps *into)
{
	into->count = series->count;
	into->total_ns = series->total_ns;
	into->avg_ns = series->total_ns / series->count;
	into->max_ns = series->max_ns;
	into->stddev_ns = sqrt(series->squares / (double)series->count);
	memcpy(into->phases, series->phases, sizeof(into->phases));
	into->cost = (struct profile_step_cost){
		.steps_count = series->count - series->unknown_count,
		.ns = series->total_ns - series->unknown_ns,
		.flops = series->tally.flops,
		.thread_flops = series->tally.thread_flops,
		.dtype = most_of(&series->tally),
		.counted_count = series->tally.counted_count,
		.unread_count = series->tally.unread_count,
		.opaque_count = series->tally.opaque_count,
	};
	into->series = series->steps;
	into->series_count = series->steps_count;
	into->series_each = series->each;
}
