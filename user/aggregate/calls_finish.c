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

/* The sums of all contexts of a row, and who called it. */
struct row_sums {
	struct sums *list;  /* by row */
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

static void add_edge(struct row_sums *all, const struct row *row, uint32_t caller,
		     const struct sums *sums)
{
	if (!sums->calls_count)
		return;
	sums_add(&all->list[row->index], sums->calls_count, sums->total_ns, sums->self_ns);
	all->edges[all->edges_count++] = (struct edge){
		.row = row->index,
		.caller = caller,
		.calls_count = sums->calls_count,
		.total_ns = sums->total_ns,
	};
}

ORDER(by_row_and_caller, struct edge, ASCENDING(a->row, b->row), ASCENDING(a->caller, b->caller))

static int sum_contexts(const struct aggregate *a, struct row_sums *all)
{
	const struct calls *calls = a->calls;
	size_t kept = 0;

	all->list = calloc(calls->rows_count + 1, sizeof(*all->list));
	all->edges = calloc(calls->contexts_count + calls->rows_count + 1, sizeof(*all->edges));
	if (!all->list || !all->edges)
		return -ENOMEM;
	FOR_EACH (context, calls->contexts)
		if (context->row)
			add_edge(all, context->row, caller_of(a, context), &context->sums);
	FOR_EACH (row, calls->rows)
		add_edge(all, *row, PROFILE_CALLER_UNKNOWN, &(*row)->orphans);
	/* one edge for each row and caller, where several contexts gave several */
	SORT_ITEMS(all->edges, all->edges_count, by_row_and_caller);
	FOR_EACH (edge, all->edges) {
		struct edge *last = kept ? &all->edges[kept - 1] : NULL;

		if (last && last->row == edge->row && last->caller == edge->caller) {
			add_up(&last->calls_count, edge->calls_count);
			add_up(&last->total_ns, edge->total_ns);
		} else {
			all->edges[kept++] = *edge;
		}
	}
	all->edges_count = kept;
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

static void fill_row(const struct finish_ctx *w, const struct row *row, const struct sums *sums,
		     struct profile_row *out)
{
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
		.gaps = {0, PROFILE_ABSENT, PROFILE_ABSENT, PROFILE_ABSENT, PROFILE_ABSENT},
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
	if (row->gaps && row->gaps->count) {
		const struct gaps *gaps = row->gaps;

		out->gaps.count = gaps->count;
		out->gaps.total_ns = gaps->total_ns;
		out->gaps.max_ns = gaps->max_ns;
		out->gaps.p50_ns = min_u64(sketch__quantile(gaps->sketch, 0.50), gaps->max_ns);
		out->gaps.p99_ns = min_u64(sketch__quantile(gaps->sketch, 0.99), gaps->max_ns);
	}
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

ORDER(by_self, struct profile_row, DESCENDING(a->self_ns, b->self_ns),
      DESCENDING(a->calls_count, b->calls_count), ASCENDING(a->function, b->function))

struct profile_process *process_of(const struct finish_ctx *w, const struct row *row)
{
	return profile_function(w->profile, row->function) ? process_at(w, row->process) : NULL;
}

static int fill_rows(const struct row_sums *all, struct finish_ctx *w)
{
	const struct calls *calls = w->a->calls;
	const struct edge *edge = all->edges;

	FOR_EACH (row, calls->rows) {
		struct profile_process *process = process_of(w, *row);

		if (!process)
			add_up(&w->hidden_records, all->list[(*row)->index].calls_count);
		else if (all->list[(*row)->index].calls_count)
			process->rows_count++;
	}
	FOR_EACH (process, w->profile->processes) {
		process->rows = calloc(process->rows_count + 1, sizeof(*process->rows));
		process->rows_count = 0;
		if (!process->rows)
			return -ENOMEM;
	}
	FOR_EACH (row, calls->rows) {
		const struct sums *sums = &all->list[(*row)->index];
		struct profile_process *process = process_of(w, *row);
		const struct edge *first = edge, *end = all->edges + all->edges_count;
		struct profile_row *out;

		while (edge < end && edge->row == (*row)->index)
			edge++;
		if (!process || !sums->calls_count)
			continue;
		out = &process->rows[process->rows_count++];
		fill_row(w, *row, sums, out);
		add_up(&process->calls_count, out->calls_count);
		add_up(&process->self_ns, out->self_ns);
		add_up(&w->profile->calls_count, out->calls_count);
		out->callers = calloc((size_t)(edge - first), sizeof(*out->callers));
		if (!out->callers)
			return -ENOMEM;
		for (; first < edge; first++)
			out->callers[out->callers_count++] = (struct profile_caller){
				first->caller, first->calls_count, first->total_ns};
		SORT_ITEMS(out->callers, out->callers_count, by_calls);
	}
	FOR_EACH (process, w->profile->processes)
		SORT_ITEMS(process->rows, process->rows_count, by_self);
	return 0;
}

static struct profile_process *process_of_context(const struct finish_ctx *w,
						  const struct context *context)
{
	return context->described && context->process < w->a->processes->count
		       ? process_at(w, context->process)
		       : NULL;
}

/* A damaged file may hang a node under another process's: then it is a root. */
uint32_t parent_of(const struct calls *calls, const struct context *context)
{
	const struct context *parent = &calls->contexts[context->parent];

	return parent->described && parent->process == context->process ? context->parent : 0;
}

static int fill_contexts(const struct finish_ctx *w)
{
	const struct calls *calls = w->a->calls;

	FOR_EACH (context, calls->contexts) {
		struct profile_process *process = process_of_context(w, context);

		if (process)
			process->contexts_count++;
	}
	FOR_EACH (process, w->profile->processes) {
		process->contexts = calloc(process->contexts_count + 1, sizeof(*process->contexts));
		process->contexts_count = 0;
		if (!process->contexts)
			return -ENOMEM;
	}
	FOR_EACH (context, calls->contexts) {
		struct profile_process *process = process_of_context(w, context);

		if (!process)
			continue;
		process->contexts[process->contexts_count++] = (struct profile_context){
			.id = (uint32_t)(context - calls->contexts),
			.parent = parent_of(calls, context),
			.function = context->function,
			.calls_count = context->sums.calls_count,
			.total_ns = context->sums.total_ns,
			.self_ns = context->sums.self_ns,
			.caller = frame_of(w, context->process, context->caller),
			.stack = stack_of(w, context->process, context->stack),
		};
	}
	return 0;
}

int calls_fill(struct finish_ctx *w)
{
	const struct calls *calls = w->a->calls;
	struct profile *p = w->profile;
	struct row_sums all = {0};
	int err;

	p->functions = calls->functions;
	p->functions_count = calls->functions_count;
	memcpy(p->perf_counters, calls->perf_counters, sizeof(p->perf_counters));
	p->perf_counters_why = calls->perf_counters_why;
	err = sum_contexts(w->a, &all) ?: fill_rows(&all, w) ?: fill_contexts(w);
	free(all.list);
	free(all.edges);
	return err;
}
