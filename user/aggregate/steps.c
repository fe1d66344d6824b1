// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include "aggregate/statistics.h"
#include "base/grow.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- series --- */

/*
 * Steps in a row, and what the calls of a process computed meanwhile (steps.c). Sums run on as
 * calls come; a step's are what they grew by between its ends. The first step's beginning is known
 * only when its first range is over: for it the process's first calls are kept.
 */
/* Calls that are kept for the first step; when there are more before its end, what it computed is
 * not known. 24 bytes each. */
#define STEP_CALLS_MAX 16384

struct step_tally {
	uint64_t flops, thread_flops;
	uint64_t dtypes[PERFX_DTYPES]; /* flops */
	uint64_t counted_count, unread_count, opaque_count;
};

struct step_call {
	uint64_t end_ns, flops;
	uint32_t tid;
	uint8_t cost_state, dtype;
};

struct step_process {
	struct step_tally sum; /* but thread_flops */
	struct step_call *calls;
	size_t calls_count, calls_capacity;
	bool calls_full;
};

struct step_series {
	struct profile_step *steps; /* each of `each`, the last one of fewer perhaps */
	size_t steps_count, capacity;
	uint64_t each;
	uint64_t count, total_ns, max_ns;
	double mean_ns, squares; /* squares: of the distances from the mean (Welford, 1962) */
	uint64_t phases[PROFILE_PHASES], off_cpu_ns;
	uint64_t unknown_count, unknown_until_ns, unknown_ns; /* the first, where not known */
	struct step_tally tally;
};

/* --- tallies --- */

/* What collectives move are no operations, and what an exception ended is not known. */
static bool step_counts(const struct perfx_span *span)
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

static void step_tally_add(struct step_tally *tally, const struct perfx_span *span)
{
	add(tally, span->cost_state, span->dtype, span->flops);
}

static void step_tally_merge(struct step_tally *tally, const struct step_tally *more)
{
	tally->flops += more->flops;
	tally->thread_flops += more->thread_flops;
	for (int i = 0; i < PERFX_DTYPES; i++)
		tally->dtypes[i] += more->dtypes[i];
	tally->counted_count += more->counted_count;
	tally->unread_count += more->unread_count;
	tally->opaque_count += more->opaque_count;
}

static void step_tally_subtract(struct step_tally *tally, const struct step_tally *less)
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

static const struct step_process *step_process_find(const struct steps *steps, uint32_t process)
{
	uint32_t at = map64_get(&steps->process_ids, process);

	return at == MAP64_NONE ? NULL : &steps->processes[at];
}

static struct step_process *step_process_get(struct steps *steps, uint32_t process)
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

static void step_processes_clear(struct steps *steps)
{
	for (size_t i = 0; i < steps->processes_count; i++)
		free(steps->processes[i].calls);
	free(steps->processes);
	map64_clear(&steps->process_ids);
}

static int step_process_add(struct step_process *process, const struct perfx_span *span,
			    uint64_t end_ns)
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

static bool step_process_since(const struct step_process *process, uint32_t tid, uint64_t from_ns,
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
	into->off_cpu_ns += next->off_cpu_ns;
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

static int step_series_add(struct step_series *series, const struct profile_step *step,
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
	series->off_cpu_ns += step->off_cpu_ns;
	series->mean_ns += distance / (double)series->count;
	series->squares += distance * ((double)step->total_ns - series->mean_ns);
	return append(series, &with_flops);
}

static void step_series_late(struct step_series *series, uint64_t end_ns,
			     const struct step_tally *call)
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

static void step_series_show(const struct step_series *series, struct profile_steps *into)
{
	into->count = series->count;
	into->total_ns = series->total_ns;
	into->avg_ns = series->total_ns / series->count;
	into->max_ns = series->max_ns;
	into->stddev_ns = sqrt(series->squares / (double)series->count);
	memcpy(into->phases, series->phases, sizeof(into->phases));
	into->off_cpu_ns = series->off_cpu_ns;
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

/* --- picks ---
 *
 * Steps' times as they were, for a median that is to be exact: with more than PICKS_MAX, every
 * second one, every fourth, …
 */

#define PICKS_MAX 1024

struct picks {
	uint64_t *ns;
	size_t count, capacity;
	uint64_t seen_count;
	unsigned shift; /* of those seen, one in 1 << shift is kept */
};

static int pick(struct picks *picks, uint64_t ns)
{
	size_t kept = 0;

	if (picks->seen_count++ & ((1u << picks->shift) - 1))
		return 0;
	if (picks->count == PICKS_MAX) {
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

/* --- threads --- */

/* Kept at most of a thread that ends steps, and of another one; what is older is no longer divided,
 * and is "untraced". */
#define INTERVALS_MAX	     65536
#define INTERVALS_OTHERS_MAX 8192
/* Functions that end steps on one thread: optimizers. */
#define ENDERS_MAX 16
/* Depths of calls that are counted separately; deeper ones count as the last. */
#define DEPTHS_MAX  64
#define THREADS_MAX 4096

/* A time in which a phase holds, or (OTHER) traced code ran; those of a thread lie one after
 * another.
 */
struct interval {
	uint64_t from_ns, to_ns;
	enum profile_phase phase;
};

/* The last steps, one by one. */
struct step_times {
	struct profile_step_time *list;
	size_t count, capacity;
};

/* What ends steps. */
struct ender {
	uint32_t function;
	unsigned rank;
	uint64_t last_ns;
	struct step_series series;
	struct step_times times;
	struct step_tally at; /* when it ended last */
	uint64_t at_off_cpu_ns;
	struct sketch *durations;
	struct picks picks;
};

struct step_thread {
	uint32_t process, tid;
	uint64_t first_ns;   /* of the first range, of its window where there are any; UINT64_MAX */
	uint64_t opened_ns;  /* when that was opened; 0 */
	uint64_t flops;	     /* of its calls */
	uint64_t off_cpu_ns; /* in its calls, each wait once */
	/* By depth: in calls that have ended inside one that has not. */
	uint64_t inner_off_cpu_ns[DEPTHS_MAX + 1];
	struct interval *intervals;
	size_t count, capacity;
	struct ender enders[ENDERS_MAX];
	size_t enders_count;
};

unsigned step_class(unsigned source, const char *name, unsigned flags)
{
	unsigned class = flags & PERFX_FUNCTION_RANGE ? STEP_RANGE : 0;

	if (source == PERFX_SOURCE_TORCH && (flags & PERFX_FUNCTION_RANGE)) {
		if (begins_with(name, "Optimizer."))
			class |= PROFILE_PHASE_OPTIMIZER;
		if (begins_with(name, "Optimizer.step#"))
			class |= STEP_BY_OPTIMIZER << STEP_RANK_SHIFT;
		if (begins_with(name, "enumerate(DataLoader)"))
			class |= PROFILE_PHASE_DATA;
	} else if (source == PERFX_SOURCE_TORCH &&
		   !strcmp(name, "torch::autograd::Engine::execute")) {
		class = PROFILE_PHASE_BACKWARD | STEP_RANGE | STEP_BY_BACKWARD << STEP_RANK_SHIFT;
	}
	if (flags & PERFX_FUNCTION_STEP)
		class = (class & ~STEP_RANK_MASK) | STEP_RANGE | STEP_BY_NAME << STEP_RANK_SHIFT;
	return class;
}

/* --- intervals --- */

static int add_interval(struct step_thread *thread, uint64_t from_ns, uint64_t to_ns,
			enum profile_phase phase)
{
	if (from_ns >= to_ns)
		return 0;
	if (grow_array(&thread->intervals, &thread->capacity, thread->count + 1,
		       sizeof(*thread->intervals)))
		return -ENOMEM;
	thread->intervals[thread->count++] = (struct interval){from_ns, to_ns, phase};
	return 0;
}

static void drop_oldest(struct step_thread *thread, size_t count)
{
	thread->count -= count;
	memmove(thread->intervals, thread->intervals + count,
		thread->count * sizeof(*thread->intervals));
}

/* Puts an interval among those that it overlaps, `rest`; what takes precedence stays whole. */
static int merge(struct step_thread *thread, const struct interval *rest, size_t rest_count,
		 struct interval new)
{
	struct interval after = {0};
	int err = 0;

	for (size_t i = 0; !err && i < rest_count; i++) {
		struct interval old = rest[i];

		if (old.phase >= new.phase) {
			err = add_interval(thread, new.from_ns,
					   old.from_ns < new.to_ns ? old.from_ns : new.to_ns,
					   new.phase);
			if (!err)
				err = add_interval(thread, old.from_ns, old.to_ns, old.phase);
			if (old.to_ns > new.from_ns)
				new.from_ns = old.to_ns;
			continue;
		}
		err = add_interval(thread, old.from_ns,
				   old.to_ns < new.from_ns ? old.to_ns : new.from_ns, old.phase);
		if (old.to_ns > new.to_ns)
			after = (struct interval){new.to_ns, old.to_ns, old.phase};
	}
	if (!err)
		err = add_interval(thread, new.from_ns, new.to_ns, new.phase);
	return err ? err : add_interval(thread, after.from_ns, after.to_ns, after.phase);
}

/* Calls inside a call add nothing to its interval. */
static void drop_inner(struct step_thread *thread, const struct interval *outer)
{
	while (thread->count) {
		const struct interval *last = &thread->intervals[thread->count - 1];

		if (last->from_ns < outer->from_ns || last->phase != outer->phase)
			break;
		thread->count--;
	}
}

/* Spans come by their ends, so what a new one overlaps are the last. */
static int insert(struct step_thread *thread, struct interval new)
{
	size_t first, rest_count;
	struct interval *rest;
	int err;

	drop_inner(thread, &new);
	first = thread->count;
	while (first && thread->intervals[first - 1].to_ns > new.from_ns)
		first--;
	rest_count = thread->count - first;
	if (!rest_count)
		return add_interval(thread, new.from_ns, new.to_ns, new.phase);
	rest = malloc(rest_count * sizeof(*rest));
	if (!rest)
		return -ENOMEM;
	memcpy(rest, thread->intervals + first, rest_count * sizeof(*rest));
	thread->count = first;
	err = merge(thread, rest, rest_count, new);
	free(rest);
	return err;
}

/* --- steps --- */

/* While a step is gone through. */
struct division {
	uint64_t *phases;
	uint64_t at_ns;	     /* up to where it is divided */
	uint64_t waiting_ns; /* traced code: forward, if a backward pass follows */
	bool has_data, armed;
};

static void pass_gap(struct division *d, uint64_t to_ns)
{
	if (to_ns > d->at_ns)
		d->phases[PROFILE_PHASE_UNTRACED] += to_ns - d->at_ns;
}

static void settle_waiting(struct division *d, enum profile_phase phase)
{
	d->phases[phase] += d->waiting_ns;
	d->waiting_ns = 0;
}

static void pass_interval(struct division *d, const struct interval *interval, uint64_t from_ns,
			  uint64_t to_ns)
{
	pass_gap(d, from_ns);
	if (interval->phase == PROFILE_PHASE_OTHER && d->armed)
		d->waiting_ns += to_ns - from_ns;
	else
		d->phases[interval->phase] += to_ns - from_ns;
	d->at_ns = to_ns;
	if (interval->phase == PROFILE_PHASE_BACKWARD) {
		settle_waiting(d, PROFILE_PHASE_FORWARD);
		d->armed = d->armed && !d->has_data;
	} else if (interval->phase == PROFILE_PHASE_DATA) {
		settle_waiting(d, PROFILE_PHASE_OTHER);
		d->armed = true;
	}
}

static bool has_phase(const struct step_thread *thread, size_t from, enum profile_phase phase)
{
	for (size_t i = from; i < thread->count; i++)
		if (thread->intervals[i].phase == phase)
			return true;
	return false;
}

static void divide(const struct step_thread *thread, uint64_t from_ns, uint64_t to_ns,
		   const struct ender *ender, uint64_t phases[PROFILE_PHASES])
{
	struct division d = {.phases = phases, .at_ns = from_ns};
	size_t i = thread->count;

	while (i && thread->intervals[i - 1].to_ns > from_ns)
		i--;
	d.has_data = has_phase(thread, i, PROFILE_PHASE_DATA);
	d.armed = !d.has_data && ender->rank != STEP_BY_BACKWARD;
	for (; i < thread->count && thread->intervals[i].from_ns < to_ns; i++) {
		const struct interval *interval = &thread->intervals[i];

		pass_interval(&d, interval,
			      interval->from_ns > from_ns ? interval->from_ns : from_ns,
			      interval->to_ns < to_ns ? interval->to_ns : to_ns);
	}
	pass_gap(&d, to_ns);
	settle_waiting(&d, PROFILE_PHASE_OTHER);
}

/* What has been named is one, also where several functions have that name (a function that was
 * traced anew for other shapes). */
static struct ender *ender_of(struct step_thread *thread, uint32_t function, unsigned rank)
{
	struct ender *ender;

	for (size_t i = 0; i < thread->enders_count; i++)
		if (thread->enders[i].function == function ||
		    (rank == STEP_BY_NAME && thread->enders[i].rank == rank))
			return &thread->enders[i];
	if (thread->enders_count == ENDERS_MAX)
		return NULL;
	ender = &thread->enders[thread->enders_count];
	*ender = (struct ender){.function = function, .rank = rank, .durations = sketch__new()};
	thread->enders_count += ender->durations != NULL;
	return ender->durations ? ender : NULL;
}

/* Is there a step before it? What was before its window was not recorded. */
static bool follows_another(const struct step_thread *thread, const struct ender *ender)
{
	return ender->series.count && ender->last_ns >= thread->opened_ns;
}

/* What was computed since it ended last; false: that is not known. */
static bool tally_step(const struct steps *steps, const struct step_thread *thread,
		       const struct ender *ender, uint64_t from_ns, struct step_tally *into)
{
	const struct step_process *process = step_process_find(steps, thread->process);
	struct step_tally now = {0};

	if (process)
		now = process->sum;
	now.thread_flops = thread->flops;
	*into = now;
	if (follows_another(thread, ender)) {
		step_tally_subtract(into, &ender->at);
		return true;
	}
	return !process || step_process_since(process, thread->tid, from_ns, into);
}

static int step_times_add(struct step_times *times, const struct profile_step *step)
{
	struct profile_step_time *time;

	if (times->count == PROFILE_STEP_TIMES_MAX) {
		times->count /= 2;
		memmove(times->list, times->list + times->count,
			times->count * sizeof(*times->list));
	}
	if (grow_array(&times->list, &times->capacity, times->count + 1, sizeof(*times->list)))
		return -ENOMEM;
	time = &times->list[times->count++];
	*time = (struct profile_step_time){.from_ns = step->from_ns, .to_ns = step->to_ns};
	memcpy(time->phases, step->phases, sizeof(time->phases));
	return 0;
}

static int end_step(struct steps *steps, struct step_thread *thread, struct ender *ender,
		    uint64_t end_ns)
{
	uint64_t from_ns = follows_another(thread, ender) ? ender->last_ns : thread->first_ns;
	struct profile_step step = {
		.count = 1, .from_ns = from_ns, .to_ns = end_ns > from_ns ? end_ns : from_ns};
	const struct step_process *process = step_process_find(steps, thread->process);
	struct step_tally tally;
	bool known = tally_step(steps, thread, ender, from_ns, &tally);

	step.total_ns = step.max_ns = step.to_ns - from_ns;
	step.off_cpu_ns =
		thread->off_cpu_ns - (follows_another(thread, ender) ? ender->at_off_cpu_ns : 0);
	if (step.off_cpu_ns > step.total_ns)
		step.off_cpu_ns = step.total_ns;
	divide(thread, from_ns, end_ns, ender, step.phases);
	if (step_series_add(&ender->series, &step, known ? &tally : NULL) ||
	    step_times_add(&ender->times, &step))
		return -ENOMEM;
	ender->last_ns = step.to_ns;
	ender->at = process ? process->sum : (struct step_tally){0};
	ender->at.thread_flops = thread->flops;
	ender->at_off_cpu_ns = thread->off_cpu_ns;
	if (pick(&ender->picks, step.total_ns))
		return -ENOMEM;
	return sketch__add(ender->durations, step.total_ns);
}

/* What lies before all steps that are not over is not looked at again. */
static void forget_old(struct step_thread *thread)
{
	uint64_t oldest_ns = UINT64_MAX;
	size_t done = 0, most;

	for (size_t i = 0; i < thread->enders_count; i++)
		if (thread->enders[i].last_ns < oldest_ns)
			oldest_ns = thread->enders[i].last_ns;
	while (thread->enders_count && done < thread->count &&
	       thread->intervals[done].to_ns <= oldest_ns)
		done++;
	if (done > 64)
		drop_oldest(thread, done);
	most = thread->enders_count ? INTERVALS_MAX : INTERVALS_OTHERS_MAX;
	if (thread->count > most)
		drop_oldest(thread, most / 2);
}

static struct step_thread *thread_of(struct steps *steps, uint32_t process, uint32_t tid)
{
	uint64_t key = (uint64_t)process << 32 | tid;
	uint32_t at = map64_get(&steps->thread_ids, key);

	if (at != MAP64_NONE)
		return &steps->threads[at];
	if (steps->threads_count == THREADS_MAX) {
		errno = ERANGE;
		return NULL;
	}
	errno = ENOMEM;
	if (grow_array(&steps->threads, &steps->threads_capacity, steps->threads_count + 1,
		       sizeof(*steps->threads)) ||
	    map64_put(&steps->thread_ids, key, (uint32_t)steps->threads_count))
		return NULL;
	steps->threads[steps->threads_count] =
		(struct step_thread){.process = process, .tid = tid, .first_ns = UINT64_MAX};
	return &steps->threads[steps->threads_count++];
}

int steps_recording_window(struct steps *steps, uint64_t opened_ns)
{
	if (grow_array(&steps->recording_windows, &steps->recording_windows_capacity,
		       steps->recording_windows_count + 1, sizeof(*steps->recording_windows)))
		return -ENOMEM;
	steps->recording_windows[steps->recording_windows_count++] = opened_ns;
	return 0;
}

/* When the window was opened that a time lies in; 0. */
static uint64_t opened_of(const struct steps *steps, uint64_t time_ns)
{
	for (size_t i = steps->recording_windows_count; i-- > 0;)
		if (steps->recording_windows[i] <= time_ns)
			return steps->recording_windows[i];
	return 0;
}

/* A call's waits contain those of the calls inside it, which have ended before it. */
static void add_off_cpu(struct step_thread *thread, const struct perfx_span *span)
{
	size_t depth = span->depth < DEPTHS_MAX ? span->depth : DEPTHS_MAX - 1;
	uint64_t inner_ns = thread->inner_off_cpu_ns[depth + 1];

	if (span->flags & PERFX_SPAN_ASYNC)
		return;
	if (span->off_cpu_ns > inner_ns)
		thread->off_cpu_ns += span->off_cpu_ns - inner_ns;
	thread->inner_off_cpu_ns[depth + 1] = 0;
	thread->inner_off_cpu_ns[depth] += span->off_cpu_ns;
}

/* Where a thread has shown no range yet, there is no step to be divided. */
static int traced_span(struct steps *steps, const struct perfx_span *span)
{
	uint32_t at = map64_get(&steps->thread_ids, (uint64_t)span->process << 32 | span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	int err;

	if (at == MAP64_NONE || end_ns < span->start_ns || (span->flags & PERFX_SPAN_ASYNC))
		return 0;
	add_off_cpu(&steps->threads[at], span);
	err = insert(&steps->threads[at],
		     (struct interval){span->start_ns, end_ns, PROFILE_PHASE_OTHER});
	forget_old(&steps->threads[at]);
	return err;
}

static int range_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	struct step_thread *thread = thread_of(steps, span->process, span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	enum profile_phase phase = class & STEP_PHASE_MASK;
	unsigned rank = (class & STEP_RANK_MASK) >> STEP_RANK_SHIFT;
	struct ender *ender;
	uint64_t opened_ns;
	int err = 0;

	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (end_ns < span->start_ns) /* damage */
		return 0;
	add_off_cpu(thread, span);
	opened_ns = opened_of(steps, span->start_ns);
	if (span->start_ns < thread->first_ns || opened_ns > thread->opened_ns) {
		thread->first_ns = span->start_ns;
		thread->opened_ns = opened_ns;
	}
	/* a range that is a step is no part of one */
	if (phase || ((class & STEP_TRACED) && !rank && !(span->flags & PERFX_SPAN_ASYNC)))
		err = insert(thread, (struct interval){span->start_ns, end_ns, phase});
	ender = !err && rank ? ender_of(thread, span->function, rank) : NULL;
	if (ender)
		err = end_step(steps, thread, ender, end_ns);
	forget_old(thread);
	return err;
}

int steps_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	return class == STEP_TRACED ? traced_span(steps, span) : range_span(steps, span, class);
}

/* --- what is computed --- */

/* Calls of which it was learned late what they do: those that have ended in a step are put there.
 */
static void cost_late(const struct steps *steps, const struct perfx_span *span, uint64_t end_ns)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == span->process && j < thread->enders_count;
		     j++) {
			struct ender *ender = &thread->enders[j];
			struct step_tally call = {0};

			if (!ender->series.count || end_ns > ender->last_ns)
				continue;
			step_tally_add(&call, span);
			if (span->tid == thread->tid)
				call.thread_flops = call.flops;
			step_tally_merge(&ender->at, &call);
			step_series_late(&ender->series, end_ns, &call);
		}
	}
}

int steps_cost(struct steps *steps, const struct perfx_span *span, bool late)
{
	uint64_t end_ns = span->start_ns + span->duration_ns;
	struct step_process *process;
	uint32_t at;

	if (!step_counts(span) || end_ns < span->start_ns)
		return 0;
	process = step_process_get(steps, span->process);
	if (!process || step_process_add(process, span, end_ns))
		return -ENOMEM;
	if (late)
		cost_late(steps, span, end_ns);
	at = map64_get(&steps->thread_ids, (uint64_t)span->process << 32 | span->tid);
	if (at != MAP64_NONE && span->cost_state == PERFX_COST_COUNTED)
		steps->threads[at].flops += span->flops;
	return 0;
}

/* --- the result --- */

static bool is_better(const struct ender *a, const struct ender *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->series.count < b->series.count;
}

static uint64_t quantile_of(const struct ender *ender, double q)
{
	uint64_t value = sketch__quantile(ender->durations, q);

	return value < ender->series.max_ns ? value : ender->series.max_ns;
}

struct profile_steps steps_of_process(const struct steps *steps, uint32_t process)
{
	struct profile_steps result = {0};
	const struct ender *best = NULL;

	for (size_t i = 0; i < steps->threads_count; i++) {
		const struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == process && j < thread->enders_count; j++) {
			if (best && !is_better(&thread->enders[j], best))
				continue;
			best = &thread->enders[j];
			result.tid = thread->tid;
		}
	}
	if (!best)
		return result;
	step_series_show(&best->series, &result);
	result.function = best->function;
	result.p50_ns = quantile_of(best, 0.50);
	result.p95_ns = quantile_of(best, 0.95);
	result.times = best->times.list;
	result.times_count = best->times.count;
	return result;
}

uint64_t steps_median(const struct steps *steps, uint32_t process, uint32_t tid, uint32_t function,
		      uint64_t *count)
{
	uint32_t at = map64_get(&steps->thread_ids, (uint64_t)process << 32 | tid);

	*count = 0;
	for (size_t i = 0; at != MAP64_NONE && i < steps->threads[at].enders_count; i++) {
		const struct ender *ender = &steps->threads[at].enders[i];

		if (ender->function != function)
			continue;
		*count = ender->series.count;
		return median_u64(ender->picks.ns, ender->picks.count);
	}
	return 0;
}

void steps_clear(struct steps *steps)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		free(steps->threads[i].intervals);
		for (size_t j = 0; j < steps->threads[i].enders_count; j++) {
			sketch__free(steps->threads[i].enders[j].durations);
			free(steps->threads[i].enders[j].picks.ns);
			free(steps->threads[i].enders[j].series.steps);
			free(steps->threads[i].enders[j].times.list);
		}
	}
	free(steps->threads);
	free(steps->recording_windows);
	map64_clear(&steps->thread_ids);
	step_processes_clear(steps);
	*steps = (struct steps){0};
}
