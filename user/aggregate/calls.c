// SPDX-License-Identifier: BSD-2-Clause
/* Spans, calling contexts and the overflow sums: what is counted per call. */
#include "aggregate/calls.h"
#include "aggregate/gpu.h"
#include "aggregate/steps.h"
#include "base/text.h"
#include "cost/collectives.h"

#include <stdlib.h>
#include <string.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Functions of one file come one after another: they share its strings. */
static const char *shared_string(struct aggregate *a, const char *before, const char *text)
{
	return before && !strcmp(before, text) ? before : pool_add(&a->strings, text);
}

static int handle_function(struct aggregate *a, const struct event *event)
{
	const struct perfx_function *record = &event->function;
	struct profile_function *f, *before;

	if (record->function == 0 || record->function > AGGREGATE_FUNCTIONS_MAX)
		return undecoded(a);
	f = GROW_TO(a->calls->functions, record->function - 1);
	if (!f)
		return -ENOMEM;
	before = record->function > 1 ? f - 1 : f;

	f->name = pool_add(&a->strings, event->strings[0]);
	f->module = shared_string(a, before->module, event->strings[1]);
	f->build_id = shared_string(a, before->build_id, event->strings[2]);
	if (!f->name || !f->module || !f->build_id)
		return -ENOMEM;
	f->label = record->flags & PERFX_FUNCTION_RANGE
			   ? f->name
			   : intern_label(a, f->name, record->operator_bytes);
	if (!f->label)
		return -ENOMEM;
	f->module_base = base_name(f->module);
	f->source = record->source;
	f->offset = record->offset;
	f->flags = record->flags;
	f->id = record->function;
	return 0;
}

static void row__free(struct row *row)
{
	if (!row)
		return;
	sketch__free(row->sketch);
	free(row->thread_bits);
	free(row->orphans.costs);
	free(row->perf);
	row_samples__free(row->samples);
	free(row);
}

static struct row *row_new(struct aggregate *a, uint32_t process, uint32_t function)
{
	struct row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	row->index = (uint32_t)a->calls->rows_count;
	row->process = process;
	row->function = function;
	row->min_ns = UINT64_MAX;
	row->step_class = STEP_UNDECIDED;
	row->usual_cost = usual_cost_of(a, process, function);
	row->gpu_class = GPU_CLASS_UNDECIDED;
	row->sketch = sketch__new();
	if (!row->sketch || GROW_BY_ONE(a->calls->rows))
		goto fail;
	if (map64_put(&a->calls->row_ids, (uint64_t)process << 32 | function,
		      (uint32_t)a->calls->rows_count))
		goto fail;
	a->calls->rows[a->calls->rows_count++] = row;
	a->processes->list[process]->has_rows = true;
	return row;
fail:
	row__free(row);
	return NULL;
}

struct row *row_find(const struct aggregate *a, uint32_t process, uint32_t function)
{
	uint32_t id = map64_get(&a->calls->row_ids, MAP64_PAIR(process, function));

	return id == MAP64_NONE ? NULL : a->calls->rows[id];
}

/* *row is NULL when process or function is out of range. 0 or -ENOMEM. */
static int row_get(struct aggregate *a, uint32_t process, uint32_t function, struct row **row)
{
	*row = NULL;
	if (function == 0 || function > AGGREGATE_FUNCTIONS_MAX)
		return 0;
	*row = row_find(a, process, function);
	if (*row)
		return 0;
	if (!process_get(a, process))
		return errno == ENOMEM ? -ENOMEM : 0;
	*row = row_new(a, process, function);
	return *row ? 0 : -ENOMEM;
}

/* Does the node belong to this process and function, or to none yet? */
static bool context_takes(const struct context *context, uint32_t process, uint32_t function)
{
	if (!context->row && !context->described)
		return true;
	return context->process == process && context->function == function;
}

/* The row and sums of a span whose context is new, not known, or contradicts an earlier one.
 * *row is NULL when the span cannot be used. */
static int place_slowly(struct aggregate *a, const struct perfx_span *span, struct row **row,
			struct sums **sums)
{
	struct context *context;
	int err;

	*row = NULL;
	if (span->context == 0) {
		err = row_get(a, span->process, span->function, row);
		if (*row)
			*sums = &(*row)->orphans;
		return err;
	}
	if (span->context > AGGREGATE_CONTEXTS_MAX)
		return 0;
	context = GROW_TO(a->calls->contexts, span->context);
	if (!context)
		return -ENOMEM;
	if (!context_takes(context, span->process, span->function))
		return 0;
	err = row_get(a, span->process, span->function, row);
	if (!*row)
		return err;
	context->process = span->process;
	context->function = span->function;
	context->row = *row;
	*sums = &context->sums;
	return 0;
}

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

/* A call: what it means for steps, or that its thread was in traced code. */
static int row_step(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	const struct profile_function *f = function_at(a, row->function);

	if (!f || !f->id)
		return 0;
	if (row->step_class & STEP_UNDECIDED)
		row->step_class = step_class(f->source, f->name, f->flags);
	/* a function of TensorFlow's may be that of an evaluation: the end tells */
	if ((row->step_class & STEP_RANK_MASK) && f->source != PERFX_SOURCE_TF)
		a->processes->list[row->process]->has_steps = true;
	return steps_span(a->steps, span, row->step_class | STEP_TRACED);
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

bool aggregate__shows_step(const struct aggregate *a, const struct perfx_span *span)
{
	const struct process *process = process_find(a, span->process);
	const struct profile_function *f = function_at(a, span->function);

	/* where none are marked, each call may be one of a period */
	return f && f->id &&
	       (!process || !process->has_steps || step_class(f->source, f->name, f->flags));
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

static int add_span(struct aggregate *a, const struct perfx_span *span)
{
	struct context *context = context_find(a, span->context);
	struct sums *sums;
	struct row *row;
	int err;

	if (unlikely(!context || !context->row || context->function != span->function ||
		     context->process != span->process)) {
		err = place_slowly(a, span, &row, &sums);
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
		err = row_time(row, span->start_ns, span->duration_ns);
		add_up(&row->off_cpu_ns, span->off_cpu_ns);
		a->calls->has_off_cpu |= span->off_cpu_ns != 0;
		if (err)
			return err;
		sums_add(sums, 0, span->duration_ns, span->self_ns);
		err = parallel_span(a, row, span);
		if (!err && unlikely(row->meets != MEETS_NOT))
			err = collectives_span(a, row, span);
		if (err)
			return err;
	}
	err = span->cost_state || (span->flags & PERFX_SPAN_UNTIMED) ? call_cost(a, row, sums, span)
								     : 0;
	if (!err && (a->steps->threads_count || unlikely(row->step_class)) &&
	    !(span->flags & PERFX_SPAN_UNWOUND))
		err = row_step(a, row, span);
	err = err ?: periods_span(a, span);
	if (err)
		return err;
	saw_time(a, add_capped(span->start_ns, span->duration_ns));
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

struct sums *calls_sums(struct aggregate *a, const struct perfx_span *span)
{
	struct row *row;

	struct context *context = context_find(a, span->context);

	if (span->context)
		return context ? &context->sums : NULL;
	row = row_find(a, span->process, span->function);
	return row ? &row->orphans : NULL;
}

static int handle_context(struct aggregate *a, const struct event *event)
{
	const struct perfx_context *record = &event->context;
	struct context *context;

	/* A parent is there before its children: no cycles. */
	if (record->context == 0 || record->context > AGGREGATE_CONTEXTS_MAX ||
	    record->parent >= record->context || record->function == 0 ||
	    record->function > AGGREGATE_FUNCTIONS_MAX)
		return undecoded(a);
	context = GROW_TO(a->calls->contexts, record->context);
	if (!context)
		return -ENOMEM;
	if (!context_takes(context, record->process, record->function) ||
	    (context->described && context->parent != record->parent))
		return undecoded(a);
	context->process = record->process;
	context->function = record->function;
	context->parent = record->parent;
	context->caller = record->caller;
	context->stack = record->stack;
	context->described = true;
	return 0;
}

/* The row of a context that is described; *row is NULL where it is not, or is out of range. 0 or
 * -ENOMEM. */
static int context_row(struct aggregate *a, uint32_t id, struct row **row)
{
	struct context *context = context_find(a, id);
	int err = 0;

	*row = NULL;
	if (id == 0 || !context)
		return 0;
	if (!context->row && context->described)
		err = row_get(a, context->process, context->function, &context->row);
	*row = context->row;
	return err;
}

static int handle_overflow_calls(struct aggregate *a, const struct event *event)
{
	struct perfx_overflow_calls parts = event->overflow_calls;
	const struct perfx_overflow_calls *record = &parts;
	struct perfx_span assumed = {0};
	struct context *context;
	struct row *row;
	uint64_t rest;
	int err;

	if (__builtin_sub_overflow(record->calls_count, record->unwound_count, &rest) ||
	    __builtin_sub_overflow(rest, record->untimed_count, &rest))
		return undecoded(a);
	err = context_row(a, record->context, &row);
	if (!row)
		return err ?: undecoded(a);
	context = &a->calls->contexts[record->context];
	sums_add(&context->sums, record->calls_count, record->total_ns, record->self_ns);
	add_up(&a->processes->list[row->process]->overflow_self_ns, record->self_ns);
	row->unwound_count += record->unwound_count;
	row->untimed_count += record->untimed_count;
	row->overflow_count += rest;
	add_up(&row->off_cpu_ns, record->off_cpu_ns);
	if (usual_cost_is_part(a, row)) {
		parts.nested_count += parts.counted_count;
		parts.counted_count = parts.flops = parts.bytes = 0;
	}
	err = costs_overflow(&context->sums.costs, record);
	assumed.process = row->process;
	assumed.function = row->function;
	if (err || !record->untimed_count || !usual_cost_assume(a, &assumed))
		return err;
	return costs_assumed(&context->sums.costs, &assumed, record->untimed_count);
}

static int handle_perf_counter(struct aggregate *a, const struct event *event)
{
	const struct perfx_perf_counter *record = &event->perf_counter;
	struct profile_perf_counter *counter;

	if (record->kind == PERFX_PERF_COUNTER_MISSING) {
		a->calls->perf_counters_why = pool_add(&a->strings, event->strings[2]);
		return a->calls->perf_counters_why ? 0 : -ENOMEM;
	}
	counter = &a->calls->perf_counters[record->counter];
	counter->name = pool_add(&a->strings, event->strings[0]);
	counter->unit = pool_add(&a->strings, event->strings[1]);
	counter->is_flops = record->kind == PERFX_PERF_COUNTER_FLOPS;
	return counter->name && counter->unit ? 0 : -ENOMEM;
}

static void add_call_counters(struct profile_call_counters *to,
			      const struct perfx_call_counters *record)
{
	add_up(&to->calls_count, record->calls_count);
	add_up(&to->missed_count, record->missed_count);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		add_up(&to->values[i], record->values[i]);
	add_up(&to->flops, record->flops);
	add_up(&to->counted_flops, record->counted_flops);
}

static int handle_call_counters(struct aggregate *a, const struct event *event)
{
	const struct perfx_call_counters *record = &event->call_counters;
	struct row *row;
	int err = context_row(a, record->context, &row);

	if (!row)
		return err ?: undecoded(a);
	if (!row->perf)
		row->perf = calloc(1, sizeof(*row->perf));
	if (!row->perf)
		return -ENOMEM;
	add_call_counters(row->perf, record);
	return 0;
}

static int calls_go_on(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	(void)from_ns;
	a->calls->has_off_cpu = before->calls->has_off_cpu;
	return 0;
}

static void calls_clear(void *state)
{
	struct calls *calls = state;

	for (size_t i = 0; i < calls->rows_count; i++)
		row__free(calls->rows[i]);
	free(calls->rows);
	map64_clear(&calls->row_ids);
	for (size_t i = 0; i < calls->contexts_count; i++)
		free(calls->contexts[i].sums.costs);
	free(calls->contexts);
	free(calls->functions);
}

const struct part part_calls = {
	PART_STATE(calls),
	.add = {TAKES(SPAN, span), TAKES(FUNCTION, function), TAKES(CONTEXT, context),
		TAKES(OVERFLOW_CALLS, overflow_calls), TAKES(PERF_COUNTER, perf_counter),
		TAKES(CALL_COUNTERS, call_counters)},
	.go_on = calls_go_on,
	.finish = calls_fill,
	.clear = calls_clear,
};
