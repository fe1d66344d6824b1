// SPDX-License-Identifier: BSD-2-Clause
/* Spans, calling contexts and the overflow sums: what is counted per call. */
#include "aggregate/state.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

static void row_samples__free(struct row_samples *samples)
{
	if (!samples)
		return;
	map64_clear(&samples->ids);
	free(samples->list);
	free(samples);
}

static int add_sample(struct row_samples *samples, const struct sample_time *time)
{
	struct row_sample *sample = MAP64_ITEM_OF(samples, time->activity);

	if (!sample)
		return -ENOMEM;
	sample->activity = time->activity;
	sample->ns += (uint64_t)time->interval_us * 1000;
	sample->count++;
	return 0;
}

static bool was_during(const struct aggregate *a, const struct perfx_span *span,
		       const struct sample_time *time)
{
	const struct activity_key *key = &a->samples.sampled.list[time->activity].key;

	return key->process == span->process && key->state == PERFX_SAMPLE_ON_CPU &&
	       time->time_ns < span->start_ns + span->duration_ns;
}

/* A timed call has ended: its samples came before it. 0 or -ENOMEM. */
static int parallel_span(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	const struct sample_times *times = &a->samples.times;
	int err = 0;

	if (!times->count || row->threads_count > 1 || span->flags & PERFX_SPAN_ASYNC)
		return 0;
	if (!row->samples)
		row->samples = calloc(1, sizeof(*row->samples));
	if (!row->samples)
		return -ENOMEM;
	row->samples->tid = span->tid;
	add_up(&row->samples->wall_ns, span->duration_ns);
	for (size_t i = times->count; i > 0 && times->list[i - 1].time_ns >= span->start_ns; i--)
		if (!err && was_during(a, span, &times->list[i - 1]))
			err = add_sample(row->samples, &times->list[i - 1]);
	return err;
}

static int fill_during(const struct finish_ctx *ctx, const struct row_samples *samples,
		       struct profile_row *out)
{
	out->during.list = calloc(samples->count + 1, sizeof(*out->during.list));
	if (!out->during.list)
		return -ENOMEM;
	out->during_ns = samples->wall_ns;
	out->during_tid = samples->tid;
	for (size_t i = 0; i < samples->count; i++) {
		const struct row_sample *sample = &samples->list[i];
		struct profile_activity *to = &out->during.list[out->during.count++];

		*to = samples_describe(ctx, &ctx->a->samples.sampled.list[sample->activity]);
		to->count = sample->count;
		to->ns = sample->ns;
	}
	return 0;
}

int parallel_fill(struct finish_ctx *ctx)
{
	const struct aggregate *a = ctx->a;
	int err = 0;

	for (size_t p = 0; p < ctx->profile->processes_count; p++) {
		struct profile_process *process = &ctx->profile->processes[p];

		for (size_t i = 0; i < process->rows_count && !err; i++) {
			struct profile_row *out = &process->rows[i];
			const struct row *row = row_find(a, process->index, out->function);

			if (row && row->samples && row->threads_count == 1)
				err = fill_during(ctx, row->samples, out);
		}
	}
	return err;
}

static struct row *row_new(struct aggregate *a, uint32_t process, uint32_t function)
{
	struct row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	row->index = (uint32_t)a->rows_count;
	row->process = process;
	row->function = function;
	row->min_ns = UINT64_MAX;
	row->step_class = STEP_UNDECIDED;
	row->usual_cost = usual_cost_of(&a->usual_costs, process, function);
	row->gpu_class = GPU_CLASS_UNDECIDED;
	row->sketch = sketch__new();
	if (!row->sketch || grow_array(&a->rows, &a->rows_capacity, a->rows_count + 1, sizeof(row)))
		goto fail;
	if (map64_put(&a->row_ids, (uint64_t)process << 32 | function, (uint32_t)a->rows_count))
		goto fail;
	a->rows[a->rows_count++] = row;
	a->processes[process]->has_rows = true;
	return row;
fail:
	row__free(row);
	return NULL;
}

void row__free(struct row *row)
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

struct row *row_find(const struct aggregate *a, uint32_t process, uint32_t function)
{
	uint32_t id = map64_get(&a->row_ids, MAP64_PAIR(process, function));

	return id == MAP64_NONE ? NULL : a->rows[id];
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
	context = GROW_TO(a->contexts, span->context);
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
	int64_t at = process_thread(a->processes[row->process], tid);

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
		a->processes[row->process]->has_steps = true;
	return steps_span(&a->steps, span, row->step_class | STEP_TRACED);
}

/* Keras evaluates and predicts by functions of the same names as it trains. */
static bool is_of_evaluation(const struct profile_frame *frame)
{
	static const char *const methods[] = {"evaluate", "predict", "test_on_batch",
					      "predict_on_batch", NULL};
	const char *dot = strrchr(frame->function, '.');

	return frame->language == PERFX_LANGUAGE_PYTHON && strstr(frame->file, "/keras/") &&
	       text_is_one_of(dot ? dot + 1 : frame->function, methods);
}

int calls_find_evaluations(struct finish_ctx *ctx)
{
	struct aggregate *a = ctx->a;

	for (size_t i = 0; i < a->contexts_count; i++) {
		const struct context *context = &a->contexts[i];
		int found;

		if (!context->row || (context->row->step_class & STEP_UNDECIDED) ||
		    !(context->row->step_class & STEP_RANK_MASK))
			continue;
		found = stack_has_frame(a, context->process, context->stack, is_of_evaluation);
		if (found < 0)
			return found;
		if (found)
			steps_of_evaluation(&a->steps, context->process, context->function);
	}
	return 0;
}

/* A call that was only counted may have the cost of the function's other calls. */
static int call_cost(struct aggregate *a, struct row *row, struct sums *sums,
		     const struct perfx_span *span)
{
	bool is_part = usual_cost_is_part(&a->usual_costs, row);
	struct perfx_span changed;
	int err = 0;

	if (span->cost_state && !is_part) {
		if (!(span->flags & PERFX_SPAN_UNWOUND))
			err = usual_cost_add(&a->usual_costs, row, span);
		return err ?: costs_span(a, &sums->costs, span);
	}
	changed = *span;
	if (span->cost_state)
		changed.cost_state = PERFX_COST_INSIDE;
	else if (!usual_cost_assume(&a->usual_costs, &changed))
		return 0;
	err = costs_span(a, &sums->costs, &changed);
	if (!err && !span->cost_state)
		sums->costs->cost.assumed_count++;
	return err;
}

bool aggregate__shows_step(const struct aggregate *a, const struct perfx_span *span)
{
	const struct process *process =
		span->process < a->processes_count ? a->processes[span->process] : NULL;
	const struct profile_function *f = function_at(a, span->function);

	/* where none are marked, each call may be one of a period */
	return f && f->id &&
	       (!process || !process->has_steps || step_class(f->source, f->name, f->flags));
}

int handle_span(struct aggregate *a, const struct event *event)
{
	const struct perfx_span *span = &event->span;
	struct context *context = NULL;
	struct sums *sums;
	struct row *row;
	int err;

	if (span->context < a->contexts_count)
		context = &a->contexts[span->context];
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
		a->has_off_cpu |= span->off_cpu_ns != 0;
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
	if (!err && (a->steps.threads_count || unlikely(row->step_class)) &&
	    !(span->flags & PERFX_SPAN_UNWOUND))
		err = row_step(a, row, span);
	err = err ?: periods_span(a, span);
	if (err)
		return err;
	saw_time(a, add_capped(span->start_ns, span->duration_ns));
	err = untraced_span(a, span);
	if (!err && unlikely(a->gpu.follows || row->gpu_class))
		err = gpu_span(a, row, span);
	if (err)
		return err;
	return row->last_tid == span->tid ? 0 : row_thread_slowly(a, row, span->tid);
}

struct sums *calls_sums(struct aggregate *a, const struct perfx_span *span)
{
	struct row *row;

	if (span->context)
		return span->context < a->contexts_count ? &a->contexts[span->context].sums : NULL;
	row = row_find(a, span->process, span->function);
	return row ? &row->orphans : NULL;
}

int handle_context(struct aggregate *a, const struct event *event)
{
	const struct perfx_context *record = &event->context;
	struct context *context;

	/* A parent is there before its children: no cycles. */
	if (record->context == 0 || record->context > AGGREGATE_CONTEXTS_MAX ||
	    record->parent >= record->context || record->function == 0 ||
	    record->function > AGGREGATE_FUNCTIONS_MAX)
		return undecoded(a);
	context = GROW_TO(a->contexts, record->context);
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
	struct context *context;
	int err = 0;

	*row = NULL;
	if (id == 0 || id >= a->contexts_count)
		return 0;
	context = &a->contexts[id];
	if (!context->row && context->described)
		err = row_get(a, context->process, context->function, &context->row);
	*row = context->row;
	return err;
}

int handle_overflow_calls(struct aggregate *a, const struct event *event)
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
	context = &a->contexts[record->context];
	sums_add(&context->sums, record->calls_count, record->total_ns, record->self_ns);
	add_up(&a->processes[row->process]->overflow_self_ns, record->self_ns);
	row->unwound_count += record->unwound_count;
	row->untimed_count += record->untimed_count;
	row->overflow_count += rest;
	add_up(&row->off_cpu_ns, record->off_cpu_ns);
	if (usual_cost_is_part(&a->usual_costs, row)) {
		parts.nested_count += parts.counted_count;
		parts.counted_count = parts.flops = parts.bytes = 0;
	}
	err = costs_overflow(&context->sums.costs, record);
	assumed.process = row->process;
	assumed.function = row->function;
	if (err || !record->untimed_count || !usual_cost_assume(&a->usual_costs, &assumed))
		return err;
	return costs_assumed(&context->sums.costs, &assumed, record->untimed_count);
}

int handle_perf_counter(struct aggregate *a, const struct event *event)
{
	const struct perfx_perf_counter *record = &event->perf_counter;
	struct profile_perf_counter *counter;

	if (record->kind == PERFX_PERF_COUNTER_MISSING) {
		a->perf_counters_why = pool_add(&a->strings, event->strings[2]);
		return a->perf_counters_why ? 0 : -ENOMEM;
	}
	counter = &a->perf_counters[record->counter];
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

int handle_call_counters(struct aggregate *a, const struct event *event)
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

int handle_process_counters(struct aggregate *a, const struct event *event)
{
	const struct perfx_process_counters *record = &event->process_counters;
	struct process *proc = process_get(a, record->process);
	struct profile_process_counters *to;

	if (!proc)
		return rejected(a);
	to = &proc->perf;
	to->threads_count = record->threads_count;
	add_up(&to->enabled_ns, record->enabled_ns);
	add_up(&to->running_ns, record->running_ns);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		add_up(&to->values[i], record->values[i]);
	return 0;
}
