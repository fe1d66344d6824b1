// SPDX-License-Identifier: BSD-2-Clause
/*
 * Figures by calling context → what each function computes with all that it calls, and what each
 * process does.
 *
 * A function's inclusive work is the sum over the subtrees of its outermost contexts, those that
 * are in no other context of the same function: recursion counts once. Contexts in which no call
 * has ended take no part, for their time is not known either.
 *
 * An id is larger than its parent's, so that sums flow to the roots in one pass from the last to
 * the first; the second walks the tree with the path's functions marked. Both are linear, whatever
 * the shape of the tree: it may come from a damaged file.
 */
#include "aggregate/internal.h"

#include <stdlib.h>

/* A context with all below it. Node 0 is above all roots. */
struct node {
	struct profile_work work;
	uint64_t dtypes[PERFX_DTYPES];
	/* Time in calls that have a figure or should have one, of calls inside each other the
	 * outer ones. */
	uint64_t covered_ns;
	uint32_t parent, child, sibling; /* 0: none */
};

static void dtypes_add(uint64_t *dtypes, const uint64_t *more)
{
	for (int i = 0; i < PERFX_DTYPES; i++)
		dtypes[i] = add_capped(dtypes[i], more[i]);
}

static void figures_add(struct figures *figures, const struct figures *more, uint64_t unread_ns)
{
	work_add(&figures->work, &more->work);
	dtypes_add(figures->dtypes, more->dtypes);
	figures->counted_ns = add_capped(figures->counted_ns, more->counted_ns);
	figures->unread_ns = add_capped(figures->unread_ns, unread_ns);
	figures->opaque_ns = add_capped(figures->opaque_ns, more->opaque_ns);
}

/* A context's own figures, when those of its callees are in the node already. */
static void add_own(struct work *w, const struct context *context, struct node *node)
{
	const struct figures *figures = context->sums.figures;
	uint64_t inner_ns = node->covered_ns, unread_ns;

	if (!figures || !context->row)
		return;
	/* inside a call with a figure none is counted: inner_ns is in the unread ones */
	unread_ns = figures->unread_ns > inner_ns ? figures->unread_ns - inner_ns : 0;
	node->covered_ns = add_capped(figures->counted_ns, add_capped(inner_ns, unread_ns));
	work_add(&node->work, &figures->work);
	dtypes_add(node->dtypes, figures->dtypes);
	figures_add(&w->works[context->row->index].own, figures, unread_ns);
}

static void sum_upwards(struct work *w, struct node *nodes)
{
	const struct aggregate *a = w->a;

	for (size_t i = a->contexts_count; i-- > 1;) {
		const struct context *context = &a->contexts[i];
		struct node *node = &nodes[i], *parent;

		node->parent = parent_of(a, context);
		parent = &nodes[node->parent];
		node->sibling = parent->child;
		parent->child = (uint32_t)i;
		add_own(w, context, node);
		work_add(&parent->work, &node->work);
		dtypes_add(parent->dtypes, node->dtypes);
		parent->covered_ns = add_capped(parent->covered_ns, node->covered_ns);
	}
}

/* NULL: no call ended there. */
static struct row_work *row_work_of(const struct work *w, const struct context *context)
{
	return context->row ? &w->works[context->row->index] : NULL;
}

/* What silenced calls do is in the figure of another one: their time is no time of this work. */
static uint64_t work_ns_of(const struct sums *sums)
{
	uint64_t silenced_ns = sums->figures ? sums->figures->silenced_ns : 0;

	return sums->total_ns > silenced_ns ? sums->total_ns - silenced_ns : 0;
}

static void enter(const struct work *w, const struct context *context, const struct node *node)
{
	struct row_work *row = row_work_of(w, context);

	if (!row || row->open++)
		return;
	work_add(&row->inclusive, &node->work);
	dtypes_add(row->dtypes, node->dtypes);
	row->work_ns = add_capped(row->work_ns, work_ns_of(&context->sums));
}

static void leave(const struct work *w, const struct context *context)
{
	struct row_work *row = row_work_of(w, context);

	if (row)
		row->open--;
}

static void walk(const struct work *w, const struct node *nodes)
{
	const struct context *contexts = w->a->contexts;
	uint32_t at = nodes[0].child;

	while (at) {
		enter(w, &contexts[at], &nodes[at]);
		if (nodes[at].child) {
			at = nodes[at].child;
			continue;
		}
		while (at && !nodes[at].sibling) {
			leave(w, &contexts[at]);
			at = nodes[at].parent;
		}
		if (at) {
			leave(w, &contexts[at]);
			at = nodes[at].sibling;
		}
	}
}

/* Calls whose context is not known: roots without callees. */
static void add_orphans(struct work *w)
{
	for (size_t i = 0; i < w->a->rows_count; i++) {
		const struct sums *orphans = &w->a->rows[i]->orphans;
		struct row_work *row = &w->works[i];

		row->work_ns = add_capped(row->work_ns, work_ns_of(orphans));
		if (!orphans->figures)
			continue;
		figures_add(&row->own, orphans->figures, orphans->figures->unread_ns);
		work_add(&row->inclusive, &orphans->figures->work);
		dtypes_add(row->dtypes, orphans->figures->dtypes);
	}
}

static bool any_figures(const struct aggregate *a)
{
	for (size_t i = 0; i < a->contexts_count; i++) {
		if (a->contexts[i].sums.figures)
			return true;
	}
	for (size_t i = 0; i < a->rows_count; i++) {
		if (a->rows[i]->orphans.figures)
			return true;
	}
	return false;
}

int compute_sum(struct work *w)
{
	struct node *nodes;

	if (!any_figures(w->a))
		return 0;
	w->works = calloc(w->a->rows_count + 1, sizeof(*w->works));
	nodes = calloc(w->a->contexts_count + 1, sizeof(*nodes));
	if (!w->works || !nodes) {
		free(nodes);
		return -ENOMEM;
	}
	sum_upwards(w, nodes);
	walk(w, nodes);
	add_orphans(w);
	free(nodes);
	return 0;
}

static enum perfx_dtype dominant(const uint64_t *dtypes)
{
	int most = PERFX_DTYPE_UNKNOWN;

	for (int i = PERFX_DTYPE_UNKNOWN + 1; i < PERFX_DTYPES; i++) {
		if (dtypes[i] && (!most || dtypes[i] > dtypes[most]))
			most = i;
	}
	return most;
}

void compute_fill_row(const struct work *w, const struct row *row, struct profile_row *out)
{
	const struct row_work *work;

	if (!w->works)
		return;
	work = &w->works[row->index];
	out->work = work->own.work;
	out->inclusive = work->inclusive;
	out->dtype = dominant(work->dtypes);
	out->work_ns = work->work_ns;
}

static bool has_work(const struct profile_work *work)
{
	return work->counted_count || work->unread_count || work->silenced_count ||
	       work->opaque_count;
}

static int add_source(struct profile_compute *compute, enum perfx_source source,
		      const struct profile_work *work)
{
	struct profile_compute_source *sources;
	size_t at = 0;

	while (at < compute->sources_count && compute->sources[at].source != source)
		at++;
	if (at == compute->sources_count) {
		sources = reallocarray(compute->sources, at + 1, sizeof(*sources));
		if (!sources)
			return -ENOMEM;
		compute->sources = sources;
		sources[at] = (struct profile_compute_source){.source = source};
		compute->sources_count++;
	}
	work_add(&compute->sources[at].work, work);
	return 0;
}

static int add_dtypes(struct profile_compute *compute, const uint64_t *dtypes)
{
	if (!compute->dtypes)
		compute->dtypes = calloc(PERFX_DTYPES, sizeof(*compute->dtypes));
	if (!compute->dtypes)
		return -ENOMEM;
	compute->dtypes_count = PERFX_DTYPES;
	for (int i = 0; i < PERFX_DTYPES; i++) {
		compute->dtypes[i].dtype = i;
		compute->dtypes[i].flops = add_capped(compute->dtypes[i].flops, dtypes[i]);
	}
	return 0;
}

static int by_source_flops(const void *left, const void *right)
{
	const struct profile_compute_source *a = left, *b = right;

	if (a->work.flops != b->work.flops)
		return a->work.flops < b->work.flops ? 1 : -1;
	return a->source < b->source ? -1 : a->source > b->source;
}

static int by_dtype_flops(const void *left, const void *right)
{
	const struct profile_compute_dtype *a = left, *b = right;

	if (a->flops != b->flops)
		return a->flops < b->flops ? 1 : -1;
	return a->dtype < b->dtype ? -1 : a->dtype > b->dtype;
}

static void sort_parts(struct profile_compute *compute)
{
	if (compute->sources_count)
		qsort(compute->sources, compute->sources_count, sizeof(*compute->sources),
		      by_source_flops);
	if (compute->dtypes_count)
		qsort(compute->dtypes, compute->dtypes_count, sizeof(*compute->dtypes),
		      by_dtype_flops);
	while (compute->dtypes_count && !compute->dtypes[compute->dtypes_count - 1].flops)
		compute->dtypes_count--;
}

static int add_row(struct profile_compute *compute, enum perfx_source source,
		   const struct figures *own)
{
	if (!has_work(&own->work))
		return 0;
	compute->measured = true;
	work_add(&compute->work, &own->work);
	compute->counted_ns = add_capped(compute->counted_ns, own->counted_ns);
	compute->unread_ns = add_capped(compute->unread_ns, own->unread_ns);
	compute->opaque_ns = add_capped(compute->opaque_ns, own->opaque_ns);
	if (add_source(compute, source, &own->work))
		return -ENOMEM;
	return add_dtypes(compute, own->dtypes);
}

int compute_fill(struct work *w)
{
	struct profile *p = w->profile;

	for (size_t i = 0; w->works && i < w->a->rows_count; i++) {
		const struct row *row = w->a->rows[i];
		struct profile_process *process = process_of(w, row);
		const struct profile_function *function = profile_function(p, row->function);

		if (process && function &&
		    add_row(&process->compute, function->source, &w->works[i].own))
			return -ENOMEM;
	}
	for (size_t i = 0; i < p->processes_count; i++)
		sort_parts(&p->processes[i].compute);
	return 0;
}
