// SPDX-License-Identifier: BSD-2-Clause
/* Functions, their rows and calling contexts. */
#include "aggregate/calls.h"
#include "base/text.h"

#include <stdlib.h>

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
	if (row->gaps) {
		sketch__free(row->gaps->sketch);
		map64_clear(&row->gaps->thread_ids);
		free(row->gaps->ends);
		free(row->gaps);
	}
	free(row->thread_bits);
	free(row->orphans.costs);
	free(row->perf);
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
	row->step_class = UNDECIDED;
	row->gpu_class = UNDECIDED;
	row->sketch = sketch__new();
	if (!row->sketch || GROW_BY_ONE(a->calls->rows) ||
	    map64_put(&a->calls->row_ids, MAP64_PAIR(process, function), row->index)) {
		row__free(row);
		return NULL;
	}
	a->calls->rows[a->calls->rows_count++] = row;
	a->processes->list[process]->has_rows = true;
	return row;
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

int calls_place(struct aggregate *a, const struct perfx_span *span, struct row **row,
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

struct sums *calls_sums(struct aggregate *a, const struct perfx_span *span)
{
	struct context *context = context_find(a, span->context);
	struct row *row;

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

int context_row(struct aggregate *a, uint32_t id, struct row **row)
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
	add_up(&row->perf->calls_count, record->calls_count);
	add_up(&row->perf->missed_count, record->missed_count);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		add_up(&row->perf->values[i], record->values[i]);
	add_up(&row->perf->flops, record->flops);
	add_up(&row->perf->counted_flops, record->counted_flops);
	return 0;
}

static int calls_take_over(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	(void)from_ns;
	a->calls->has_off_cpu = before->calls->has_off_cpu;
	return 0;
}

static void calls_clear(void *state)
{
	struct calls *calls = state;

	FOR_EACH (row, calls->rows)
		row__free(*row);
	free(calls->rows);
	map64_clear(&calls->row_ids);
	FOR_EACH (context, calls->contexts)
		free(context->sums.costs);
	free(calls->contexts);
	free(calls->functions);
}

const struct part part_calls = {
	PART_STATE(calls),
	.add = {TAKES(FUNCTION, function), TAKES(CONTEXT, context),
		TAKES(PERF_COUNTER, perf_counter), TAKES(CALL_COUNTERS, call_counters)},
	.take_over = calls_take_over,
	.finish = calls_fill,
	.clear = calls_clear,
};
