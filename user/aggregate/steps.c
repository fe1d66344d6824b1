// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/step_thread.h"
#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

/* Times kept at most of a thread that ends steps, and of another one; what is older is no longer
 * divided, and is "untraced". */
#define TIMES_MAX	 65536
#define TIMES_OTHERS_MAX 8192
#define THREADS_MAX	 4096

/* What has been named is one, also where several functions have that name (a function that was
 * traced anew for other shapes). */
static struct ender *ender_of(struct step_thread *thread, uint32_t function, uint16_t object,
			      unsigned rank)
{
	struct ender *ender;

	for (size_t i = 0; i < thread->enders_count; i++) {
		ender = &thread->enders[i];
		if (ender->rank == rank && (rank == STEP_BY_NAME || (ender->function == function &&
								     ender->object == object)))
			return ender;
	}
	if (thread->enders_count >= (object ? ENDERS_MAX / 2 : ENDERS_MAX))
		return NULL;
	ender = &thread->enders[thread->enders_count];
	*ender = (struct ender){
		.function = function, .rank = rank, .object = object, .durations = sketch__new()};
	thread->enders_count += ender->durations != NULL;
	return ender->durations ? ender : NULL;
}

/* Is there a step before it, in the same recording window? */
static bool follows_another(const struct step_thread *thread, const struct ender *ender)
{
	return ender->last_ns && ender->last_ns >= thread->opened_ns;
}

/* Adds up all calls of the process, and as thread_flops those of the thread. */
static struct step_tally sum_of(const struct steps *steps, const struct step_thread *thread)
{
	struct step_tally sum = step_costs_sum(&steps->costs, thread->process);

	sum.thread_flops = thread->flops;
	return sum;
}

/* Subtracts the sum at the last end from the sum `now`; false: the last one is not known. */
static bool tally_step(const struct steps *steps, const struct step_thread *thread,
		       const struct ender *ender, uint64_t from_ns, const struct step_tally *now,
		       struct step_tally *into)
{
	if (!follows_another(thread, ender))
		return step_costs_since(&steps->costs, thread->process, thread->tid, from_ns, into);
	*into = *now;
	step_tally_subtract(into, &ender->at);
	return !ender->at_unknown;
}

static void join_untraced(uint64_t phases[PROFILE_PHASES], enum profile_phase phase)
{
	phases[PROFILE_PHASE_UNTRACED] += phases[phase];
	phases[phase] = 0;
}

static bool is_within(uint64_t limit_ns, uint64_t end_ns)
{
	return !limit_ns || end_ns <= limit_ns;
}

/* A step from one time to another, with what its thread waited; tally NULL: not known. is_past: it
 * belongs to the run alone. */
static int add_step(const struct steps *steps, const struct step_thread *thread,
		    struct ender *ender, struct profile_step *step, const struct step_tally *tally,
		    bool is_past)
{
	struct step_limits limits = step_costs_limits(&steps->costs, thread->process);

	if (!is_within(limits.costs_ns, step->to_ns) ||
	    step_costs_changed(&steps->costs, thread->process, step->from_ns, step->to_ns))
		tally = NULL;
	step->count = 1;
	step->computed_count = tally != NULL;
	step->divided_count = is_within(limits.times_ns, step->to_ns);
	step->total_ns = step->max_ns = step->to_ns - step->from_ns;
	step->waited_count = is_within(limits.waits_ns, step->to_ns);
	step->off_cpu_ns = min_u64(step->off_cpu_ns, step->total_ns);
	phase_times_divide(&thread->phases, step->from_ns, step->to_ns,
			   ender->rank == STEP_BY_BACKWARD, step->phases);
	/* forward and other are known only as long as all functions are timed; ranges stay */
	if (!step->divided_count) {
		join_untraced(step->phases, PROFILE_PHASE_FORWARD);
		join_untraced(step->phases, PROFILE_PHASE_OTHER);
	}
	if (!is_within(limits.backward_ns, step->to_ns)) {
		join_untraced(step->phases, PROFILE_PHASE_BACKWARD);
		if (!step_thread_knows_optimizer(thread))
			join_untraced(step->phases, PROFILE_PHASE_OPTIMIZER);
	}
	ender->run.count++;
	ender->run.total_ns += step->total_ns;
	ender->run.flops += tally ? tally->flops : 0;
	for (int i = 0; i < PROFILE_PHASES; i++)
		ender->run.phases[i] += step->phases[i];
	if (is_past)
		return 0;
	if (step_series_add(&ender->series, step, tally) || step_times_add(&ender->times, step) ||
	    step_picks_add(&ender->picks, step->total_ns))
		return -ENOMEM;
	return sketch__add(ender->durations, step->total_ns);
}

/* Counts the end of any step, whole or not. */
static void count_end(struct ender *ender, bool is_past)
{
	ender->run.ends_count++;
	ender->series.ends_count += !is_past;
}

static void note_end(const struct step_thread *thread, struct ender *ender, uint64_t end_ns,
		     const struct step_tally *at)
{
	ender->last_ns = end_ns;
	ender->at = *at;
	ender->at_off_cpu_ns = thread->off_cpu_ns;
	ender->at_unknown = false;
}

/* Between an end and an entry there is no step. */
static void set_by_entry(struct ender *ender, bool by_entry)
{
	if (ender->by_entry != by_entry)
		ender->last_ns = 0;
	ender->by_entry = by_entry;
}

/* Did calls that are steps of another kind, those of an evaluation, end between the step's begin
 * and its own call? Their operations are not this step's. */
static bool holds_other_steps(const struct step_thread *thread, const struct ender *ender,
			      uint64_t from_ns, uint64_t called_ns)
{
	for (size_t i = 0; i < thread->enders_count && ender->rank == STEP_BY_CALL; i++) {
		const struct ender *other = &thread->enders[i];

		if (other != ender && other->rank == STEP_BY_CALL && other->last_ns > from_ns &&
		    other->last_ns <= called_ns)
			return true;
	}
	return false;
}

/* begun_ns: when a step that follows no other one began; UINT64_MAX: that was not seen. Then it is
 * not whole, and only its end counts. */
static int end_step(struct steps *steps, struct step_thread *thread, struct ender *ender,
		    uint64_t begun_ns, uint64_t end_ns)
{
	bool follows = follows_another(thread, ender);
	uint64_t from_ns = follows ? ender->last_ns : begun_ns;
	struct profile_step step = {
		.from_ns = from_ns,
		.to_ns = max_u64(end_ns, from_ns),
		.off_cpu_ns = thread->off_cpu_ns - (follows ? ender->at_off_cpu_ns : 0),
	};
	struct step_tally now = sum_of(steps, thread), later, tally;
	bool known;

	/* a step that ends at the entry of a call ended before now: the calls since then are
	 * subtracted, if they are still kept */
	if (ender->by_entry &&
	    step_costs_since(&steps->costs, thread->process, thread->tid, step.to_ns, &later))
		step_tally_subtract(&now, &later);
	count_end(ender, false);
	if (from_ns == UINT64_MAX) {
		note_end(thread, ender, end_ns, &now);
		return 0;
	}
	known = tally_step(steps, thread, ender, from_ns, &now, &tally) &&
		!holds_other_steps(thread, ender, from_ns, min_u64(begun_ns, end_ns));
	if (add_step(steps, thread, ender, &step, known ? &tally : NULL, false))
		return -ENOMEM;
	note_end(thread, ender, step.to_ns, &now);
	return 0;
}

/* The end of a call, or its entry where its end is not known, ends a step; arguments as end_step's.
 * It is one of its function's, and one of the steps of its optimizer alone. */
static int end_steps(struct steps *steps, struct step_thread *thread, const struct perfx_span *span,
		     unsigned rank, uint64_t begun_ns, uint64_t end_ns)
{
	struct ender *all = ender_of(thread, span->function, 0, rank), *one;
	bool by_entry = span->flags & PERFX_SPAN_UNTIMED, again;
	int err;

	if (!all)
		return 0;
	set_by_entry(all, by_entry);
	err = end_step(steps, thread, all, begun_ns, end_ns);
	one = !err && span->object ? ender_of(thread, span->function, span->object, rank) : NULL;
	again = all->last_object == span->object;
	all->last_object = span->object;
	if (!one || one == all)
		return err;
	one->again_count += again;
	set_by_entry(one, by_entry);
	return end_step(steps, thread, one, begun_ns, end_ns);
}

/* Nothing reads the times before the first open step again. */
static void forget_old(struct step_thread *thread)
{
	uint64_t oldest_ns = UINT64_MAX;

	for (size_t i = 0; i < thread->enders_count; i++)
		oldest_ns = min_u64(oldest_ns, thread->enders[i].last_ns);
	phase_times_forget(&thread->phases, thread->enders_count ? oldest_ns : 0,
			   thread->enders_count ? TIMES_MAX : TIMES_OTHERS_MAX);
}

static struct step_thread *thread_find(const struct steps *steps, uint32_t process, uint32_t tid)
{
	return MAP64_FIND(steps->thread_ids, MAP64_PAIR(process, tid), steps->threads);
}

static struct step_thread *thread_of(struct steps *steps, uint32_t process, uint32_t tid)
{
	struct step_thread *thread = thread_find(steps, process, tid);

	if (thread)
		return thread;
	if (steps->threads_count == THREADS_MAX) {
		errno = ERANGE;
		return NULL;
	}
	thread = MAP64_ITEM(steps->thread_ids, MAP64_PAIR(process, tid), steps->threads);
	if (thread)
		*thread = (struct step_thread){
			.process = process, .tid = tid, .first_ns = UINT64_MAX};
	return thread;
}

int steps_recording_window(struct steps *steps, uint64_t opened_ns)
{
	return LIST_ADD(steps->recording_windows, opened_ns);
}

int steps_gap(struct steps *steps, uint32_t process, uint64_t until_ns)
{
	return step_costs_gap(&steps->costs, process, until_ns);
}

/* Since when calls of a process were seen at a time; 0: from the start on. */
static uint64_t opened_of(const struct steps *steps, uint32_t process, uint64_t time_ns)
{
	uint64_t gap_ns = step_costs_gap_end(&steps->costs, process);
	uint64_t opened_ns = gap_ns <= time_ns ? gap_ns : 0;

	for (size_t i = steps->recording_windows_count; i-- > 0;)
		if (steps->recording_windows[i] <= time_ns)
			return max_u64(steps->recording_windows[i], opened_ns);
	return opened_ns;
}

/* A call's waits contain those of the calls inside it, which have ended before it. */
static void add_off_cpu(struct step_thread *thread, const struct perfx_span *span)
{
	size_t depth = min_u64(span->depth, DEPTHS_MAX - 1);
	uint64_t inner_ns = thread->inner_off_cpu_ns[depth + 1];

	if (span->flags & PERFX_SPAN_ASYNC)
		return;
	if (span->off_cpu_ns > inner_ns)
		thread->off_cpu_ns += span->off_cpu_ns - inner_ns;
	thread->inner_off_cpu_ns[depth + 1] = 0;
	thread->inner_off_cpu_ns[depth] += span->off_cpu_ns;
}

static bool is_period(const struct period *period, uint32_t function, uint32_t context)
{
	return function == period->function && (!period->context || context == period->context);
}

/* The function whose period is that of the steps was called again. There is no step before the
 * first call, nor between recording windows. */
static int end_period(struct steps *steps, struct step_thread *thread,
		      const struct perfx_span *span)
{
	bool by_entry = thread->period.compiled || (span->flags & PERFX_SPAN_UNTIMED);
	struct ender *ender = ender_of(thread, span->function, 0, STEP_BY_PERIOD);

	if (!ender)
		return 0;
	thread->opened_ns = opened_of(steps, span->process, span->start_ns);
	set_by_entry(ender, by_entry);
	return end_step(steps, thread, ender, UINT64_MAX,
			span->start_ns + (by_entry ? 0 : span->duration_ns));
}

/* Where a thread has shown no range yet, there is no step to be divided. */
static int traced_span(struct steps *steps, const struct perfx_span *span)
{
	struct step_thread *thread = thread_find(steps, span->process, span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	int err;

	if (!thread || end_ns < span->start_ns || (span->flags & PERFX_SPAN_ASYNC))
		return 0;
	add_off_cpu(thread, span);
	err = phase_times_add(&thread->phases,
			      (struct phase_time){span->start_ns, end_ns, PROFILE_PHASE_OTHER});
	if (!err && is_period(&thread->period, span->function, span->context))
		err = end_period(steps, thread, span);
	forget_old(thread);
	return err;
}

static int range_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	struct step_thread *thread = thread_of(steps, span->process, span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	enum profile_phase phase = class & STEP_PHASE_MASK;
	unsigned rank = (class & STEP_RANK_MASK) >> STEP_RANK_SHIFT;
	uint64_t opened_ns;
	int err = 0;

	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (end_ns < span->start_ns) /* damage */
		return 0;
	add_off_cpu(thread, span);
	opened_ns = opened_of(steps, span->process, span->start_ns);
	thread->first_ns = min_u64(thread->first_ns, span->start_ns);
	thread->opened_ns = max_u64(thread->opened_ns, opened_ns);
	/* a range that is a step is no part of one */
	if (phase || ((class & STEP_TRACED) && (!rank || rank == STEP_BY_CALL) &&
		      !(span->flags & PERFX_SPAN_ASYNC)))
		err = phase_times_add(&thread->phases,
				      (struct phase_time){span->start_ns, end_ns, phase});
	if (!err && rank)
		/* a range with a phase ends a step; another range is the step */
		err = end_steps(steps, thread, span, rank, phase ? UINT64_MAX : span->start_ns,
				end_ns);
	else if (!err && is_period(&thread->period, span->function, span->context))
		err = end_period(steps, thread, span);
	forget_old(thread);
	return err;
}

/* A call that is only counted: its end, and its time, are not known. */
static int untimed_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	struct step_thread *thread = thread_find(steps, span->process, span->tid);
	unsigned rank = (class & STEP_RANK_MASK) >> STEP_RANK_SHIFT;

	if (!thread)
		return 0;
	thread->opened_ns = opened_of(steps, span->process, span->start_ns);
	if (rank)
		return end_steps(steps, thread, span, rank, UINT64_MAX, span->start_ns);
	if (is_period(&thread->period, span->function, span->context))
		return end_period(steps, thread, span);
	return 0;
}

int steps_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	if (span->flags & PERFX_SPAN_UNTIMED)
		return untimed_span(steps, span, class);
	return class == STEP_TRACED ? traced_span(steps, span) : range_span(steps, span, class);
}

void steps_of_evaluation(struct steps *steps, uint32_t process, uint32_t function)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == process && j < thread->enders_count; j++)
			thread->enders[j].of_evaluation |= thread->enders[j].function == function;
	}
}

/* Adds up the operations between two times; false: they are not known. */
static bool tally_between(const struct steps *steps, const struct step_thread *thread,
			  uint64_t from_ns, uint64_t to_ns, struct step_tally *into)
{
	struct step_tally later;

	if (!step_costs_since(&steps->costs, thread->process, thread->tid, from_ns, into))
		return false;
	step_costs_since(&steps->costs, thread->process, thread->tid, to_ns, &later);
	step_tally_subtract(into, &later);
	return true;
}

/* The steps of the past, from the calls of that time. is_new: of a thread that has shown no
 * interval yet. */
static int replay_period(const struct steps *steps, struct step_thread *thread, bool is_new,
			 const struct period_calls *calls, const struct period *period)
{
	struct ender *ender = ender_of(thread, period->function, 0, STEP_BY_PERIOD);
	uint64_t off_cpu_ns = 0; /* since the end of the last step */
	int err = 0;

	if (!ender)
		return 0;
	thread->period = *period;
	ender->confidence = period->confidence;
	for (size_t i = 0; i < calls->count && !err; i++) {
		const struct outer_call *call = &calls->list[i];
		bool by_entry = period->compiled || call->untimed, known, is_past;
		struct profile_step step = {.from_ns = ender->last_ns,
					    .to_ns = by_entry ? call->start_ns : call->end_ns};
		struct step_tally tally;

		if (is_new)
			err = phase_times_add(&thread->phases,
					      (struct phase_time){call->start_ns, call->end_ns,
								  PROFILE_PHASE_OTHER});
		if (is_new)
			thread->off_cpu_ns += call->off_cpu_ns;
		off_cpu_ns += call->off_cpu_ns;
		if (err || !is_period(period, call->function, call->context))
			continue;
		thread->opened_ns = opened_of(steps, thread->process, call->start_ns);
		step.off_cpu_ns = off_cpu_ns;
		off_cpu_ns = 0;
		is_past = step.to_ns <= steps->from_ns;
		set_by_entry(ender, by_entry);
		count_end(ender, is_past);
		if (follows_another(thread, ender)) {
			known = tally_between(steps, thread, step.from_ns, step.to_ns, &tally);
			err = add_step(steps, thread, ender, &step, known ? &tally : NULL, is_past);
		}
		ender->last_ns = step.to_ns;
	}
	if (ender->last_ns) {
		/* Notes the operations up to the end of the last step of the past. */
		uint64_t end_ns = ender->last_ns;
		struct step_tally at = sum_of(steps, thread), later;
		bool known = tally_between(steps, thread, end_ns, UINT64_MAX, &later);

		step_tally_subtract(&at, &later);
		note_end(thread, ender, end_ns, &at);
		ender->at_unknown = !known;
		ender->at_off_cpu_ns -= off_cpu_ns;
	}
	return err;
}

/* FLOPs of the thread's calls so far, where these are known. */
static void set_thread_flops(const struct steps *steps, struct step_thread *thread)
{
	struct step_tally all;

	if (tally_between(steps, thread, 0, UINT64_MAX, &all))
		thread->flops = all.thread_flops;
}

int steps_by_period(struct steps *steps, const struct period_calls *calls,
		    const struct period *period)
{
	bool is_new = !thread_find(steps, calls->process, calls->tid);
	struct step_thread *thread = thread_of(steps, calls->process, calls->tid);

	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	thread->is_main = calls->is_main;
	if (is_new)
		set_thread_flops(steps, thread);
	return replay_period(steps, thread, is_new, calls, period);
}

int steps_show_period(struct steps *steps, const struct period_calls *calls,
		      const struct period *period)
{
	const struct step_thread new = {.process = calls->process,
					.tid = calls->tid,
					.first_ns = UINT64_MAX,
					.is_main = calls->is_main};
	struct step_thread *thread;

	if (LIST_ADD(steps->shown, new))
		return -ENOMEM;
	thread = &steps->shown[steps->shown_count - 1];
	set_thread_flops(steps, thread);
	return replay_period(steps, thread, true, calls, period);
}

static void step_thread_clear(struct step_thread *thread)
{
	phase_times_clear(&thread->phases);
	for (size_t i = 0; i < thread->enders_count; i++) {
		sketch__free(thread->enders[i].durations);
		free(thread->enders[i].picks.ns);
		free(thread->enders[i].series.steps);
		free(thread->enders[i].times.list);
	}
}

void steps_hide_periods(struct steps *steps)
{
	FOR_EACH (thread, steps->shown)
		step_thread_clear(thread);
	steps->shown_count = 0;
}

/* Adds a call whose cost became known late to the step in which it ended. */
static void cost_late(const struct steps *steps, const struct perfx_span *span, uint64_t end_ns)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == span->process && j < thread->enders_count;
		     j++) {
			struct ender *ender = &thread->enders[j];
			struct step_tally call = {0};

			if (!ender->run.ends_count || end_ns > ender->last_ns)
				continue;
			step_tally_call(&call, span->cost_state, span->dtype, span->flops);
			if (span->tid == thread->tid)
				call.thread_flops = call.flops;
			step_tally_merge(&ender->at, &call);
			if (step_series_late(&ender->series, end_ns, &call) ||
			    end_ns <= steps->from_ns)
				ender->run.flops += call.flops;
		}
	}
}

int steps_cost(struct steps *steps, const struct perfx_span *span, bool late)
{
	uint64_t end_ns = span->start_ns + span->duration_ns;
	struct step_thread *thread;

	if (!step_counts(span) || end_ns < span->start_ns)
		return 0;
	if (step_costs_add(&steps->costs, span))
		return -ENOMEM;
	if (late)
		cost_late(steps, span, end_ns);
	thread = thread_find(steps, span->process, span->tid);
	if (thread && span->cost_state == PERFX_COST_COUNTED)
		thread->flops += span->flops;
	return 0;
}

static int thread_continue(struct steps *steps, struct step_thread *before)
{
	struct step_thread *thread = thread_of(steps, before->process, before->tid);

	if (!thread)
		return -ENOMEM;
	*thread = *before;
	before->phases = (struct phase_times){0};
	thread->enders_count = 0;
	for (; thread->enders_count < before->enders_count; thread->enders_count++) {
		struct ender *ender = &thread->enders[thread->enders_count];

		/* its counts so far belong to the run alone from now on */
		ender->series = (struct step_series){0};
		ender->times = (struct step_times){0};
		ender->picks = (struct step_picks){0};
		ender->durations = sketch__new();
		if (!ender->durations)
			return -ENOMEM;
	}
	return 0;
}

int steps_continue(struct steps *steps, struct steps *before, uint64_t from_ns,
		   bool (*goes_on)(void *ctx, uint32_t process), void *ctx)
{
	int err = 0;

	steps->from_ns = from_ns;
	steps->recording_windows_count = 0;
	for (size_t i = 0; i < before->recording_windows_count && !err; i++)
		err = steps_recording_window(steps, before->recording_windows[i]);
	FOR_EACH (thread, before->threads) {
		const struct phase_times *phases = &thread->phases;
		bool is_active =
			thread->enders_count ||
			(phases->count && phases->list[phases->count - 1].to_ns >= before->from_ns);

		if (!err && is_active && goes_on(ctx, thread->process))
			err = thread_continue(steps, thread);
	}
	err = err ?: step_costs_continue(&steps->costs, &before->costs, from_ns, goes_on, ctx);
	/* where steps end, those to come have no calls of the past */
	FOR_EACH (thread, steps->threads)
		if (!err && thread->enders_count)
			step_costs_forget_calls(&steps->costs, thread->process, from_ns);
	return err;
}

void steps_clear(struct steps *steps)
{
	FOR_EACH (thread, steps->threads)
		step_thread_clear(thread);
	steps_hide_periods(steps);
	free(steps->shown);
	free(steps->threads);
	free(steps->recording_windows);
	map64_clear(&steps->thread_ids);
	step_costs_clear(&steps->costs);
	*steps = (struct steps){0};
}
