// SPDX-License-Identifier: BSD-2-Clause
/* Rows and calling contexts of the profile, which need all calls: sums and sorting. */
#include "aggregate/calls.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A call edge: a row and who called it. */
struct edge {
	uint32_t row, caller;
	uint64_t calls_count, total_ns;
};

/* State while the profile is filled. */
struct rows_ctx {
	struct finish_ctx *finish;
	const struct aggregate *a;
	struct profile *profile;
	struct sums *sums;  /* by row */
	struct edge *edges; /* by row, then caller */
	size_t edges_count;
};

static uint32_t caller_of(const struct aggregate *a, const struct context *context)
{
	const struct context *parent;

	if (!context->described)
		return PROFILE_CALLER_UNKNOWN;
	if (context->parent == 0)
		return PROFILE_CALLER_UNTRACED;
	parent = &a->calls->contexts[context->parent];
	return parent->described || parent->row ? parent->function : PROFILE_CALLER_UNKNOWN;
}

static void add_edge(struct rows_ctx *w, const struct row *row, uint32_t caller,
		     const struct sums *sums)
{
	sums_add(&w->sums[row->index], sums->calls_count, sums->total_ns, sums->self_ns);
	w->edges[w->edges_count++] = (struct edge){
		.row = row->index,
		.caller = caller,
		.calls_count = sums->calls_count,
		.total_ns = sums->total_ns,
	};
}

ORDER(by_row_and_caller, struct edge, ASCENDING(a->row, b->row), ASCENDING(a->caller, b->caller))

/* One edge for each (row, caller), where several contexts gave several. */
static void merge_edges(struct rows_ctx *w)
{
	size_t kept = 0;

	SORT_ITEMS(w->edges, w->edges_count, by_row_and_caller);
	for (size_t i = 0; i < w->edges_count; i++) {
		struct edge *edge = &w->edges[i], *last = kept ? &w->edges[kept - 1] : NULL;

		if (last && last->row == edge->row && last->caller == edge->caller) {
			add_up(&last->calls_count, edge->calls_count);
			add_up(&last->total_ns, edge->total_ns);
		} else {
			w->edges[kept++] = *edge;
		}
	}
	w->edges_count = kept;
}

static int sum_contexts(struct rows_ctx *w)
{
	const struct aggregate *a = w->a;
	const struct calls *calls = a->calls;

	w->sums = calloc(calls->rows_count + 1, sizeof(*w->sums));
	w->edges = calloc(calls->contexts_count + calls->rows_count + 1, sizeof(*w->edges));
	if (!w->sums || !w->edges)
		return -ENOMEM;
	for (size_t i = 0; i < calls->contexts_count; i++) {
		const struct context *context = &calls->contexts[i];

		if (context->row && context->sums.calls_count)
			add_edge(w, context->row, caller_of(a, context), &context->sums);
	}
	for (size_t i = 0; i < calls->rows_count; i++)
		if (calls->rows[i]->orphans.calls_count)
			add_edge(w, calls->rows[i], PROFILE_CALLER_UNKNOWN,
				 &calls->rows[i]->orphans);
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

/* A bucket's middle may lie outside of the measured values. */
static uint64_t quantile_of(const struct row *row, double q)
{
	return min_u64(max_u64(sketch__quantile(row->sketch, q), row->min_ns), row->max_ns);
}

static void fill_row(const struct rows_ctx *w, const struct row *row, struct profile_row *out)
{
	const struct sums *sums = &w->sums[row->index];
	const struct profile_function *function = profile_function(w->profile, row->function);
	uint64_t untimed = add_capped(row->untimed_count, row->unwound_count);
	/* while a goroutine waits, its thread runs others */
	bool is_go = function && function->flags & PERFX_FUNCTION_GO;

	*out = (struct profile_row){
		.function = row->function,
		.calls_count = sums->calls_count,
		.timed_count = sub_capped(sums->calls_count, untimed),
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
		.center_ns = PROFILE_ABSENT,
		.stddev_ns = stddev_of(row),
		.threads_count = row->threads_count,
		.alloc_bytes = PROFILE_ABSENT,
		.recorded_ns = row->sum_ns > UINT64_MAX ? UINT64_MAX : (uint64_t)row->sum_ns,
		.off_cpu_ns = w->a->calls->has_off_cpu && !is_go ? row->off_cpu_ns : PROFILE_ABSENT,
		.perf = row->perf,
		.gpu_ns = PROFILE_ABSENT,
	};
	if (out->timed_count)
		out->avg_ns = out->total_ns / out->timed_count;
	if (!row->recorded_count)
		return;
	out->min_ns = row->min_ns;
	out->max_ns = row->max_ns;
	out->p50_ns = quantile_of(row, 0.50);
	out->p95_ns = quantile_of(row, 0.95);
	out->p99_ns = quantile_of(row, 0.99);
	if (row->sum_ns)
		out->center_ns = (uint64_t)(row->moment / row->sum_ns);
	out->sketch = row->sketch;
}

ORDER(by_calls, struct profile_caller, DESCENDING(a->calls_count, b->calls_count),
      ASCENDING(a->caller, b->caller))

/* The edges of a row begin at `edge` and lie side by side. */
static int fill_callers(const struct rows_ctx *w, size_t edge, struct profile_row *out)
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
	SORT_ITEMS(out->callers, out->callers_count, by_calls);
	return 0;
}

ORDER(by_self, struct profile_row, DESCENDING(a->self_ns, b->self_ns),
      DESCENDING(a->calls_count, b->calls_count), ASCENDING(a->function, b->function))

struct profile_process *process_of(const struct finish_ctx *w, const struct row *row)
{
	return profile_function(w->profile, row->function) ? process_at(w, row->process) : NULL;
}

/* Room for each process's rows. */
static int make_rows(struct rows_ctx *w)
{
	struct profile *p = w->profile;
	size_t *counts = calloc(p->processes_count + 1, sizeof(*counts));
	int err = counts ? 0 : -ENOMEM;

	for (size_t i = 0; i < w->edges_count && !err; i++) {
		const struct row *row = w->a->calls->rows[w->edges[i].row];
		struct profile_process *process = process_of(w->finish, row);

		if (i && w->edges[i - 1].row == w->edges[i].row)
			continue;
		if (process)
			counts[process - p->processes]++;
		else
			add_up(&w->finish->hidden_records, w->sums[row->index].calls_count);
	}
	for (size_t i = 0; i < p->processes_count && !err; i++) {
		p->processes[i].rows = calloc(counts[i] + 1, sizeof(struct profile_row));
		err = p->processes[i].rows ? 0 : -ENOMEM;
	}
	free(counts);
	return err;
}

static int fill_rows(struct rows_ctx *w)
{
	struct profile *p = w->profile;
	int err = make_rows(w);

	for (size_t i = 0; i < w->edges_count && !err; i++) {
		const struct row *row = w->a->calls->rows[w->edges[i].row];
		struct profile_process *process = process_of(w->finish, row);
		struct profile_row *out;

		if (!process || (i && w->edges[i - 1].row == w->edges[i].row))
			continue;
		out = &process->rows[process->rows_count++];
		fill_row(w, row, out);
		add_up(&process->calls_count, out->calls_count);
		add_up(&process->self_ns, out->self_ns);
		add_up(&p->calls_count, out->calls_count);
		err = fill_callers(w, i, out);
	}
	for (size_t i = 0; i < p->processes_count; i++)
		SORT_ITEMS(p->processes[i].rows, p->processes[i].rows_count, by_self);
	return err;
}

static struct profile_process *process_of_context(const struct rows_ctx *w,
						  const struct context *context)
{
	return context->described && context->process < w->a->processes->count
		       ? process_at(w->finish, context->process)
		       : NULL;
}

/* A damaged file may hang a node under another process's: then it is a root. */
uint32_t parent_of(const struct calls *calls, const struct context *context)
{
	const struct context *parent = &calls->contexts[context->parent];

	return parent->described && parent->process == context->process ? context->parent : 0;
}

static int fill_contexts(struct rows_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	struct profile_process *process;

	for (size_t i = 0; i < a->calls->contexts_count; i++) {
		process = process_of_context(w, &a->calls->contexts[i]);
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
	for (size_t i = 0; i < a->calls->contexts_count; i++) {
		const struct context *context = &a->calls->contexts[i];

		process = process_of_context(w, context);
		if (!process)
			continue;
		process->contexts[process->contexts_count++] = (struct profile_context){
			.id = (uint32_t)i,
			.parent = parent_of(a->calls, context),
			.function = context->function,
			.calls_count = context->sums.calls_count,
			.total_ns = context->sums.total_ns,
			.self_ns = context->sums.self_ns,
			.caller = frame_of(w->finish, context->process, context->caller),
			.stack = stack_of(w->finish, context->process, context->stack),
		};
	}
	return 0;
}

int calls_fill(struct finish_ctx *ctx)
{
	const struct calls *calls = ctx->a->calls;
	struct profile *p = ctx->profile;
	struct rows_ctx w = {.finish = ctx, .a = ctx->a, .profile = p};
	int err;

	p->functions = calls->functions;
	p->functions_count = calls->functions_count;
	memcpy(p->perf_counters, calls->perf_counters, sizeof(p->perf_counters));
	p->perf_counters_why = calls->perf_counters_why;
	err = sum_contexts(&w) ?: fill_rows(&w) ?: fill_contexts(&w);
	free(w.sums);
	free(w.edges);
	return err;
}
