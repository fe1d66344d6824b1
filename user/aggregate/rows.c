// SPDX-License-Identifier: BSD-2-Clause
/* Calling contexts → a row for each function of a process, with its callers. */
#include "aggregate/internal.h"

#include <math.h>
#include <stdlib.h>

static uint32_t caller_of(const struct aggregate *a, const struct context *context)
{
	const struct context *parent;

	if (!context->described)
		return PROFILE_CALLER_UNKNOWN;
	if (context->parent == 0)
		return PROFILE_CALLER_UNTRACED;
	parent = &a->contexts[context->parent];
	return parent->described || parent->row ? parent->function : PROFILE_CALLER_UNKNOWN;
}

static void add_edge(struct finish_ctx *w, const struct row *row, uint32_t caller,
		     const struct sums *sums)
{
	struct sums *into = &w->sums[row->index];

	sums_add(into, sums->calls_count, sums->total_ns, sums->self_ns);
	w->edges[w->edges_count++] = (struct edge){
		.row = row->index,
		.caller = caller,
		.calls_count = sums->calls_count,
		.total_ns = sums->total_ns,
	};
}

static int by_row_and_caller(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	return a->caller < b->caller ? -1 : a->caller > b->caller;
}

/* One edge for each (row, caller), where several contexts gave several. */
static void merge_edges(struct finish_ctx *w)
{
	size_t kept = 0;

	qsort(w->edges, w->edges_count, sizeof(*w->edges), by_row_and_caller);
	for (size_t i = 0; i < w->edges_count; i++) {
		struct edge *edge = &w->edges[i], *last = kept ? &w->edges[kept - 1] : NULL;

		if (last && last->row == edge->row && last->caller == edge->caller) {
			last->calls_count = add_capped(last->calls_count, edge->calls_count);
			last->total_ns = add_capped(last->total_ns, edge->total_ns);
		} else {
			w->edges[kept++] = *edge;
		}
	}
	w->edges_count = kept;
}

static int sum_contexts(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;

	w->sums = calloc(a->rows_count + 1, sizeof(*w->sums));
	w->edges = calloc(a->contexts_count + a->rows_count + 1, sizeof(*w->edges));
	if (!w->sums || !w->edges)
		return -ENOMEM;
	for (size_t i = 0; i < a->contexts_count; i++) {
		const struct context *context = &a->contexts[i];

		if (context->row && context->sums.calls_count)
			add_edge(w, context->row, caller_of(a, context), &context->sums);
	}
	for (size_t i = 0; i < a->rows_count; i++) {
		if (a->rows[i]->orphans.calls_count)
			add_edge(w, a->rows[i], PROFILE_CALLER_UNKNOWN, &a->rows[i]->orphans);
	}
	merge_edges(w);
	return 0;
}

/*
 * Population standard deviation from exact sums: with m = floor(mean), the sum of (x - m)² is
 * Σx² - 2mΣx + nm², exact in arithmetic modulo 2^128 because the result fits; what m lacks of the
 * mean is taken off after. Nothing large is subtracted in floating point.
 */
static double stddev_of(const struct row *row)
{
	u128 n = row->recorded_count, mean, around;
	long double rest, variance;

	if (!n || row->squares_overflowed)
		return -1;
	mean = row->sum_ns / n;
	around = row->sum_squares - 2 * mean * row->sum_ns + n * mean * mean;
	rest = (long double)(row->sum_ns - n * mean) / (long double)n;
	variance = (long double)around / (long double)n - rest * rest;
	return variance > 0 ? (double)sqrtl(variance) : 0;
}

/* A bucket's middle may lie outside of what was measured. */
static uint64_t quantile_of(const struct row *row, double q)
{
	uint64_t value = sketch__quantile(row->sketch, q);

	if (value < row->min_ns)
		return row->min_ns;
	return value > row->max_ns ? row->max_ns : value;
}

static void fill_row(const struct finish_ctx *w, const struct row *row, struct profile_row *out)
{
	const struct sums *sums = &w->sums[row->index];
	uint64_t untimed = add_capped(row->untimed_count, row->unwound_count);

	*out = (struct profile_row){
		.function = row->function,
		.calls_count = sums->calls_count,
		.timed_count = sums->calls_count > untimed ? sums->calls_count - untimed : 0,
		.unwound_count = row->unwound_count,
		.overflow_count = row->overflow_count,
		.total_ns = sums->total_ns,
		.self_ns = sums->self_ns,
		.avg_ns = PROFILE_ABSENT,
		.min_ns = PROFILE_ABSENT,
		.max_ns = PROFILE_ABSENT,
		.p50_ns = PROFILE_ABSENT,
		.p95_ns = PROFILE_ABSENT,
		.p99_ns = PROFILE_ABSENT,
		.stddev_ns = stddev_of(row),
		.threads_count = row->threads_count,
		.alloc_bytes = PROFILE_ABSENT,
		.perf = row->perf,
	};
	if (out->timed_count)
		out->avg_ns = out->total_ns / out->timed_count;
	compute_fill_row(w, row, out);
	if (!row->recorded_count)
		return;
	out->min_ns = row->min_ns;
	out->max_ns = row->max_ns;
	out->p50_ns = quantile_of(row, 0.50);
	out->p95_ns = quantile_of(row, 0.95);
	out->p99_ns = quantile_of(row, 0.99);
	out->sketch = row->sketch;
}

static int by_calls(const void *left, const void *right)
{
	const struct profile_caller *a = left, *b = right;

	if (a->calls_count != b->calls_count)
		return a->calls_count < b->calls_count ? 1 : -1;
	return a->caller < b->caller ? -1 : a->caller > b->caller;
}

/* The edges of a row begin at `edge` and lie side by side. */
static int fill_callers(const struct finish_ctx *w, size_t edge, struct profile_row *out)
{
	uint32_t row = w->edges[edge].row;
	size_t end = edge;

	while (end < w->edges_count && w->edges[end].row == row)
		end++;
	out->callers = calloc(end - edge, sizeof(*out->callers));
	if (!out->callers)
		return -ENOMEM;
	for (; edge < end; edge++) {
		out->callers[out->callers_count++] = (struct profile_caller){
			.caller = w->edges[edge].caller,
			.calls_count = w->edges[edge].calls_count,
			.total_ns = w->edges[edge].total_ns,
		};
	}
	qsort(out->callers, out->callers_count, sizeof(*out->callers), by_calls);
	return 0;
}

static int by_self(const void *left, const void *right)
{
	const struct profile_row *a = left, *b = right;

	if (a->self_ns != b->self_ns)
		return a->self_ns < b->self_ns ? 1 : -1;
	if (a->calls_count != b->calls_count)
		return a->calls_count < b->calls_count ? 1 : -1;
	return a->function < b->function ? -1 : a->function > b->function;
}

struct profile_process *process_of(const struct finish_ctx *w, const struct row *row)
{
	uint32_t place = w->places[row->process];

	if (place == MAP64_NONE || !profile_function(w->profile, row->function))
		return NULL;
	return &w->profile->processes[place];
}

/* Room for each process's rows. */
static int make_rows(struct finish_ctx *w)
{
	struct profile *p = w->profile;

	for (size_t i = 0; i < w->edges_count; i++) {
		const struct row *row = w->a->rows[w->edges[i].row];
		struct profile_process *process = process_of(w, row);

		if (i && w->edges[i - 1].row == w->edges[i].row)
			continue;
		if (process)
			w->rows_of[process - p->processes]++;
		else
			w->hidden_records =
				add_capped(w->hidden_records, w->sums[row->index].calls_count);
	}
	for (size_t i = 0; i < p->processes_count; i++) {
		p->processes[i].rows = calloc(w->rows_of[i] + 1, sizeof(struct profile_row));
		if (!p->processes[i].rows)
			return -ENOMEM;
	}
	return 0;
}

static int fill_rows(struct finish_ctx *w)
{
	struct profile *p = w->profile;
	int err = make_rows(w);

	for (size_t i = 0; i < w->edges_count && !err; i++) {
		const struct row *row = w->a->rows[w->edges[i].row];
		struct profile_process *process = process_of(w, row);
		struct profile_row *out;

		if (!process || (i && w->edges[i - 1].row == w->edges[i].row))
			continue;
		out = &process->rows[process->rows_count++];
		fill_row(w, row, out);
		process->calls_count = add_capped(process->calls_count, out->calls_count);
		process->self_ns = add_capped(process->self_ns, out->self_ns);
		p->calls_count = add_capped(p->calls_count, out->calls_count);
		err = fill_callers(w, i, out);
	}
	for (size_t i = 0; i < p->processes_count; i++)
		qsort(p->processes[i].rows, p->processes[i].rows_count, sizeof(struct profile_row),
		      by_self);
	return err;
}

static struct profile_process *process_of_context(const struct finish_ctx *w,
						  const struct context *context)
{
	uint32_t place = MAP64_NONE;

	if (context->described && context->process < w->a->processes_count)
		place = w->places[context->process];
	return place == MAP64_NONE ? NULL : &w->profile->processes[place];
}

/* A damaged file may hang a node under another process's: then it is a root. */
uint32_t parent_of(const struct aggregate *a, const struct context *context)
{
	const struct context *parent = &a->contexts[context->parent];

	return parent->described && parent->process == context->process ? context->parent : 0;
}

static int fill_contexts(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	struct profile_process *process;

	for (size_t i = 0; i < a->contexts_count; i++) {
		process = process_of_context(w, &a->contexts[i]);
		if (process)
			process->contexts_count++;
	}
	for (size_t i = 0; i < p->processes_count; i++) {
		process = &p->processes[i];
		process->contexts = calloc(process->contexts_count + 1, sizeof(*process->contexts));
		if (!process->contexts)
			return -ENOMEM;
		process->contexts_count = 0;
	}
	for (size_t i = 0; i < a->contexts_count; i++) {
		const struct context *context = &a->contexts[i];

		process = process_of_context(w, context);
		if (!process)
			continue;
		process->contexts[process->contexts_count++] = (struct profile_context){
			.id = (uint32_t)i,
			.parent = parent_of(a, context),
			.function = context->function,
			.calls_count = context->sums.calls_count,
			.total_ns = context->sums.total_ns,
			.self_ns = context->sums.self_ns,
		};
	}
	return 0;
}

int rows_fill(struct finish_ctx *w)
{
	int err = sum_contexts(w);

	if (!err)
		err = compute_sum(w);
	if (!err)
		err = fill_rows(w);
	if (!err)
		err = fill_contexts(w);
	if (!err)
		err = compute_fill(w);
	return err;
}
