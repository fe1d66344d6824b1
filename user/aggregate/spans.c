// SPDX-License-Identifier: BSD-2-Clause
/* A call and the overflow sums go to all parts that count calls. */
#include "aggregate/calls.h"
#include "aggregate/gpu.h"
#include "aggregate/steps.h"
#include "cost/collectives.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

static int row_time(struct row *row, uint64_t start_ns, uint64_t duration_ns)
{
	int err = sketch__add(row->sketch, duration_ns);

	if (err)
		return err;
	row->recorded_count++;
	row->min_ns = min_u64(row->min_ns, duration_ns);
	row->max_ns = max_u64(row->max_ns, duration_ns);
	row->sum_ns += duration_ns;
	row->moment += (u128)duration_ns * start_ns;
	if (unlikely(__builtin_add_overflow(row->sum_squares, (u128)duration_ns * duration_ns,
					    &row->sum_squares)))
		row->squares_overflowed = true;
	return 0;
}

static int row_thread_slowly(struct aggregate *a, struct row *row, uint32_t tid)
{
	int64_t at = process_thread(a->processes->list[row->process], tid);

	if (at < 0)
		return (int)at;
	row->last_tid = tid;
	if (at >= PROFILE_THREADS_EXACT)
		return 0;
	if (grow_array(&row->thread_bits, &row->thread_words, (size_t)at / 64 + 1,
		       sizeof(*row->thread_bits)))
		return -ENOMEM;
	if (!(row->thread_bits[at / 64] & 1ULL << (at % 64))) {
		row->thread_bits[at / 64] |= 1ULL << (at % 64);
		row->threads_count++;
	}
	return 0;
}

/* A timed call of a row that is not MEETS_NOT. 0 or -ENOMEM. */
static int collectives_span(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	struct collectives *collectives = &a->processes->list[row->process]->collectives;
	const struct profile_function *f = function_at(a, row->function);

	if (row->meets == MEETS_UNDECIDED && f && f->id)
		row->meets = collective_meets(f->name) ? MEETS : MEETS_NOT;
	if (row->meets != MEETS)
		return 0;
	/* the older half goes */
	if (collectives->count == PROFILE_COLLECTIVES_MAX)
		LIST_DROP_FROM(collectives, PROFILE_COLLECTIVES_MAX / 2);
	return LIST_ADD_TO(
		collectives,
		(struct profile_collective){.from_ns = span->start_ns,
					    .to_ns = add_capped(span->start_ns, span->duration_ns),
					    .function = span->function});
}

/* A call that was only counted may have the cost of the function's other calls. */
static int call_cost(struct aggregate *a, struct row *row, struct sums *sums,
		     const struct perfx_span *span)
{
	bool is_part = usual_cost_is_part(a, row);
	struct perfx_span changed;
	int err = 0;

	if (span->cost_state && !is_part) {
		if (!(span->flags & PERFX_SPAN_UNWOUND))
			err = usual_cost_add(a, row, span);
		return err ?: costs_span(a, &sums->costs, span);
	}
	changed = *span;
	if (span->cost_state)
		changed.cost_state = PERFX_COST_INSIDE;
	else if (!usual_cost_assume(a, &changed))
		return 0;
	err = costs_span(a, &sums->costs, &changed);
	if (!err && !span->cost_state)
		sums->costs->cost.assumed_count++;
	return err;
}

/* More threads than these have no gaps. */
#define GAP_THREADS_MAX 4096

/* The gap before an inference, if its thread made one before, in the same recording window. */
static int row_gap(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	struct gaps *gaps = row->gaps ?: (row->gaps = calloc(1, sizeof(*gaps)));
	uint64_t end_ns = add_capped(span->start_ns, span->duration_ns), gap_ns, *last;
	const struct steps *steps = a->steps;

	if (!gaps || (!gaps->sketch && !(gaps->sketch = sketch__new())))
		return -ENOMEM;
	last = MAP64_FIND(gaps->thread_ids, span->tid, gaps->ends);
	if (!last && gaps->ends_count == GAP_THREADS_MAX)
		return 0;
	if (!last) {
		last = MAP64_ITEM(gaps->thread_ids, span->tid, gaps->ends);
		if (!last)
			return -ENOMEM;
		*last = 0;
	}
	gap_ns = sub_capped(span->start_ns, *last);
	if (!*last || (steps->recording_windows_count &&
		       steps->recording_windows[steps->recording_windows_count - 1] > *last)) {
		*last = end_ns;
		return 0;
	}
	*last = max_u64(*last, end_ns);
	gaps->count++;
	add_up(&gaps->total_ns, gap_ns);
	gaps->max_ns = max_u64(gaps->max_ns, gap_ns);
	return sketch__add(gaps->sketch, gap_ns);
}

/* Passes a call on to its steps; of no step, its thread was in traced code. */
static int row_step(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	const struct profile_function *f = function_at(a, row->function);

	if (!f || !f->id)
		return 0;
	if (row->step_class & UNDECIDED)
		row->step_class = step_class(f->source, f->name, f->flags);
	/* a function of TensorFlow's may be that of an evaluation: the end tells */
	if ((row->step_class & STEP_RANK_MASK) && f->source != PERFX_SOURCE_TF)
		a->processes->list[row->process]->has_steps = true;
	if ((row->step_class & STEP_RANK_MASK) >> STEP_RANK_SHIFT == STEP_BY_INFERENCE &&
	    !(span->flags & PERFX_SPAN_UNTIMED) && row_gap(a, row, span))
		return -ENOMEM;
	return steps_span(a->steps, span, row->step_class | STEP_TRACED);
}

static int add_span(struct aggregate *a, const struct perfx_span *span)
{
	struct context *context = context_find(a, span->context);
	struct sums *sums;
	struct row *row;
	int err = 0;

	if (unlikely(!context || !context->row || context->function != span->function ||
		     context->process != span->process)) {
		err = calls_place(a, span, &row, &sums);
		if (!row)
			return err ?: undecoded(a);
	} else {
		row = context->row;
		sums = &context->sums;
	}

	sums->calls_count++;
	if (unlikely(span->flags & PERFX_SPAN_UNWOUND)) {
		row->unwound_count++;
	} else if (unlikely(span->flags & PERFX_SPAN_UNTIMED)) {
		row->untimed_count++;
	} else {
		add_up(&row->off_cpu_ns, span->off_cpu_ns);
		a->calls->has_off_cpu |= span->off_cpu_ns != 0;
		err = row_time(row, span->start_ns, span->duration_ns);
		if (err)
			return err;
		sums_add(sums, 0, span->duration_ns, span->self_ns);
		err = samples_span(a, row, span);
		if (!err && unlikely(row->meets != MEETS_NOT))
			err = collectives_span(a, row, span);
	}
	if (!err && (span->cost_state || span->flags & PERFX_SPAN_UNTIMED))
		err = call_cost(a, row, sums, span);
	if (!err && (a->steps->threads_count || unlikely(row->step_class)) &&
	    !(span->flags & PERFX_SPAN_UNWOUND))
		err = row_step(a, row, span);
	err = err ?: periods_span(a, span);
	if (err)
		return err;
	saw_time(a, add_capped(span->start_ns, span->duration_ns));
	slices_span(a->slices, span);
	err = untraced_span(a, span);
	if (!err && unlikely(a->gpu->follows || row->gpu_class))
		err = gpu_span(a, row, span);
	if (err)
		return err;
	return row->last_tid == span->tid ? 0 : row_thread_slowly(a, row, span->tid);
}

/* A call was hit at its entry and its end. */
static int handle_span(struct aggregate *a, const struct event *event)
{
	const struct perfx_span *span = &event->span;

	return add_span(a, span) ?: process_hits(a, span->process, span->tid, 2);
}

static int handle_overflow_calls(struct aggregate *a, const struct event *event)
{
	struct perfx_overflow_calls record = event->overflow_calls;
	struct perfx_span assumed = {0};
	struct context *context;
	struct row *row;
	uint64_t timed;
	int err;

	if (__builtin_sub_overflow(record.calls_count, record.unwound_count, &timed) ||
	    __builtin_sub_overflow(timed, record.untimed_count, &timed))
		return undecoded(a);
	err = context_row(a, record.context, &row);
	if (!row)
		return err ?: undecoded(a);
	context = &a->calls->contexts[record.context];
	sums_add(&context->sums, record.calls_count, record.total_ns, record.self_ns);
	add_up(&a->processes->list[row->process]->overflow_self_ns, record.self_ns);
	row->unwound_count += record.unwound_count;
	row->untimed_count += record.untimed_count;
	row->overflow_count += timed;
	add_up(&row->off_cpu_ns, record.off_cpu_ns);
	if (usual_cost_is_part(a, row)) {
		record.nested_count += record.counted_count;
		record.counted_count = record.flops = record.bytes = 0;
	}
	err = costs_overflow(&context->sums.costs, &record);
	assumed.process = row->process;
	assumed.function = row->function;
	if (err || !record.untimed_count || !usual_cost_assume(a, &assumed))
		return err;
	return costs_assumed(&context->sums.costs, &assumed, record.untimed_count);
}

bool aggregate__shows_step(const struct aggregate *a, const struct perfx_span *span)
{
	const struct process *process = process_find(a, span->process);
	const struct profile_function *f = function_at(a, span->function);

	/* where none are marked, each call may be one of a period */
	return f && f->id &&
	       (!process || !process->has_steps || step_class(f->source, f->name, f->flags));
}

const struct part part_spans = {
	.add = {TAKES(SPAN, span), TAKES(OVERFLOW_CALLS, overflow_calls)},
};
