// SPDX-License-Identifier: BSD-2-Clause
/* The costs of single calls and of the overflow sums, added up by calling context. */
#include "aggregate/calls.h"
#include "aggregate/steps.h"
#include "base/order.h"

#include <stdlib.h>

static void cost_add(struct profile_cost *cost, const struct profile_cost *more)
{
	add_up(&cost->flops, more->flops);
	add_up(&cost->bytes, more->bytes);
	add_up(&cost->moved_bytes, more->moved_bytes);
	add_up(&cost->bus_bytes, more->bus_bytes);
	add_up(&cost->bus_moved_bytes, more->bus_moved_bytes);
	add_up(&cost->counted_count, more->counted_count);
	add_up(&cost->unread_count, more->unread_count);
	add_up(&cost->opaque_count, more->opaque_count);
	add_up(&cost->nested_count, more->nested_count);
	add_up(&cost->submitted_count, more->submitted_count);
	add_up(&cost->assumed_count, more->assumed_count);
}

/* NULL: no memory. */
static struct costs *costs_get(struct costs **costs)
{
	if (!*costs)
		*costs = calloc(1, sizeof(**costs));
	return *costs;
}

/* The type of a call without a record is not known. */
static void add_counted(struct costs *costs, uint64_t flops, uint64_t bytes, uint64_t count,
			enum perfx_dtype dtype)
{
	const struct profile_cost more = {
		.flops = flops,
		.bytes = flops ? bytes : 0,
		.moved_bytes = flops ? 0 : bytes,
		.counted_count = count,
	};

	cost_add(&costs->cost, &more);
	add_up(&costs->dtypes[dtype], flops);
}

static int add_span(struct costs **costs, const struct perfx_span *span)
{
	bool timed = !(span->flags & PERFX_SPAN_UNTIMED);
	struct costs *f;

	/* its work before the exception is not known */
	if (span->flags & PERFX_SPAN_UNWOUND)
		return 0;
	f = costs_get(costs);
	if (!f)
		return -ENOMEM;
	switch ((enum perfx_cost_state)span->cost_state) {
	case PERFX_COST_NONE:
	case PERFX_COST_BY_OBJECT: /* add_span_of_object */
		break;
	case PERFX_COST_OPAQUE:
		f->cost.opaque_count++;
		add_up(&f->opaque_ns, span->self_ns);
		break;
	case PERFX_COST_COUNTED:
		if (span->flags & PERFX_SPAN_MOVES) {
			const struct profile_cost more = {
				.moved_bytes = span->bytes,
				.bus_bytes = span->flops,
				.bus_moved_bytes = span->flops ? span->bytes : 0,
				.counted_count = 1,
			};

			cost_add(&f->cost, &more);
			break;
		}
		add_counted(f, span->flops, span->bytes, 1, span->dtype);
		f->cost.submitted_count += !!(span->flags & PERFX_SPAN_SUBMITTED);
		if (timed && span->flops) {
			add_up(&f->counted_ns, span->duration_ns);
			add_up(&f->timed_flops, span->flops);
		}
		break;
	case PERFX_COST_INSIDE:
	case PERFX_COST_ELSEWHERE:
		f->cost.nested_count++;
		if (timed)
			add_up(&f->nested_ns, span->duration_ns);
		break;
	case PERFX_COST_UNREAD:
		f->cost.unread_count++;
		if (timed)
			add_up(&f->unread_ns, span->duration_ns);
		break;
	}
	return 0;
}

static uint64_t share_of(uint64_t ns, uint64_t part, u128 whole)
{
	return (uint64_t)((u128)ns * part / whole);
}

int costs_overflow(struct costs **costs, const struct perfx_overflow_calls *record)
{
	u128 all = (u128)record->counted_count + record->unread_count + record->nested_count +
		   record->opaque_count;
	const struct profile_cost more = {.unread_count = record->unread_count,
					  .nested_count = record->nested_count,
					  .opaque_count = record->opaque_count,
					  .bus_bytes = record->bus_bytes,
					  .bus_moved_bytes = record->bus_moved_bytes};
	struct costs *f;

	if (!all)
		return 0;
	f = costs_get(costs);
	if (!f)
		return -ENOMEM;
	add_counted(f, record->flops, record->bytes, record->counted_count, PERFX_DTYPE_UNKNOWN);
	cost_add(&f->cost, &more);
	if (record->flops) {
		add_up(&f->counted_ns, share_of(record->total_ns, record->counted_count, all));
		add_up(&f->timed_flops, record->flops);
	}
	add_up(&f->unread_ns, share_of(record->total_ns, record->unread_count, all));
	add_up(&f->nested_ns, share_of(record->total_ns, record->nested_count, all));
	add_up(&f->opaque_ns, share_of(record->self_ns, record->opaque_count, all));
	return 0;
}

int costs_assumed(struct costs **costs, const struct perfx_span *span, uint64_t count)
{
	uint64_t flops = span->cost_state == PERFX_COST_COUNTED ? span->flops : 0, bytes = 0;
	struct costs *f = costs_get(costs);

	if (!f)
		return -ENOMEM;
	if (__builtin_mul_overflow(flops, count, &flops) ||
	    __builtin_mul_overflow(flops ? span->bytes : 0, count, &bytes))
		return 0;
	if (span->cost_state != PERFX_COST_COUNTED)
		add_up(&f->cost.nested_count, count);
	else
		add_counted(f, flops, bytes, count, PERFX_DTYPE_UNKNOWN);
	add_up(&f->cost.assumed_count, count);
	return 0;
}

/*
 * Calls that are distinguished by an object, from which their cost is read. It comes once, as an
 * OBJECT_COST record; spans that come before it wait for that.
 */

/* Ids are handed out from 1, one for each object. */
#define OBJECT_COSTS_MAX (1u << 20)
#define WAITING_MAX	 (1u << 20)

/* Cost of a run of an object's operation; state NONE also where it is not known yet. */
struct object_cost {
	uint64_t flops, bytes;
	uint8_t state, dtype;
	bool settled;
};

struct object_costs {
	struct object_cost *list; /* by id */
	size_t list_capacity, list_count;
	struct perfx_span *waiting; /* spans whose OBJECT_COST record has not come */
	size_t waiting_capacity, waiting_count;
};

static int handle_object_cost(struct aggregate *a, const struct event *event)
{
	const struct perfx_object_cost *record = &event->object_cost;
	struct object_cost *cost;

	if (record->object_cost == 0 || record->object_cost > OBJECT_COSTS_MAX)
		return undecoded(a);
	cost = GROW_TO(a->costs->list, record->object_cost);
	if (!cost)
		return -ENOMEM;
	*cost = (struct object_cost){.flops = record->flops,
				     .bytes = record->bytes,
				     .state = record->state,
				     .dtype = record->dtype,
				     .settled = true};
	return 0;
}

static const struct object_cost *object_cost_of(const struct aggregate *a, uint64_t cost)
{
	return cost < a->costs->list_count && a->costs->list[cost].settled ? &a->costs->list[cost]
									   : NULL;
}

static int settle_cost(struct aggregate *a, struct costs **costs, const struct perfx_span *span,
		       const struct object_cost *cost, bool late)
{
	struct perfx_span settled = *span;

	if (cost->state == PERFX_COST_NONE)
		return 0;
	settled.cost_state = cost->state;
	settled.dtype = cost->dtype;
	settled.flops = cost->flops;
	settled.bytes = cost->bytes;
	return add_span(costs, &settled) ?: steps_cost(a->steps, &settled, late);
}

static const struct object_cost unread = {.state = PERFX_COST_UNREAD};

/* A span whose cost is that of its object. */
static int add_span_of_object(struct aggregate *a, struct costs **costs,
			      const struct perfx_span *span)
{
	const struct object_cost *cost = object_cost_of(a, span->flops);

	if (cost)
		return settle_cost(a, costs, span, cost, false);
	if (a->costs->waiting_count >= WAITING_MAX)
		return settle_cost(a, costs, span, &unread, false);
	return LIST_ADD(a->costs->waiting, *span);
}

int costs_span(struct aggregate *a, struct costs **costs, const struct perfx_span *span)
{
	if (span->cost_state == PERFX_COST_BY_OBJECT)
		return add_span_of_object(a, costs, span);
	return add_span(costs, span) ?: steps_cost(a->steps, span, false);
}

/* Spans whose object was not described when they came. 0 or -ENOMEM. */
static int object_costs_settle(struct finish_ctx *ctx)
{
	struct aggregate *a = ctx->a;
	size_t count = a->costs->waiting_count;

	a->costs->waiting_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct perfx_span *span = &a->costs->waiting[i];
		const struct object_cost *cost = object_cost_of(a, span->flops);
		struct sums *sums = calls_sums(a, span);

		if (sums && settle_cost(a, &sums->costs, span, cost ? cost : &unread, true))
			return -ENOMEM;
	}
	return 0;
}

static void object_costs_clear(void *state)
{
	struct object_costs *costs = state;

	free(costs->list);
	free(costs->waiting);
}

const struct part part_object_costs = {
	PART_STATE(costs),
	.add = {TAKES(OBJECT_COST, object_cost)},
	.finish = object_costs_settle,
	.clear = object_costs_clear,
};

/*
 * Costs by calling context → what each function computes with all that it calls, and what each
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

/* Costs of a row, own and inclusive. */
struct row_cost {
	struct costs own; /* unread_ns: less the time in calls of known cost */
	struct profile_cost inclusive;
	uint64_t dtypes[PERFX_DTYPES]; /* inclusive flops */
	uint64_t computing_ns;
	uint32_t open; /* how often it is on the path during the walk */
};

/* A context with all below it. Node 0 is above all roots. */
struct node {
	struct profile_cost cost;
	uint64_t dtypes[PERFX_DTYPES];
	/* Time in calls that have a known cost or should have one, of calls inside each other the
	 * outer ones. */
	uint64_t covered_ns;
	uint32_t parent, child, sibling; /* 0: none */
};

static void dtypes_add(uint64_t *dtypes, const uint64_t *more)
{
	for (int i = 0; i < PERFX_DTYPES; i++)
		add_up(&dtypes[i], more[i]);
}

static void costs_add(struct costs *costs, const struct costs *more, uint64_t unread_ns)
{
	cost_add(&costs->cost, &more->cost);
	dtypes_add(costs->dtypes, more->dtypes);
	add_up(&costs->counted_ns, more->counted_ns);
	add_up(&costs->timed_flops, more->timed_flops);
	add_up(&costs->unread_ns, unread_ns);
	add_up(&costs->opaque_ns, more->opaque_ns);
}

static void sum_upwards(const struct calls *calls, struct row_cost *rows, struct node *nodes)
{
	for (size_t i = calls->contexts_count; i-- > 1;) {
		const struct context *context = &calls->contexts[i];
		const struct costs *costs = context->row ? context->sums.costs : NULL;
		struct node *node = &nodes[i], *parent;

		node->parent = parent_of(calls, context);
		parent = &nodes[node->parent];
		node->sibling = parent->child;
		parent->child = (uint32_t)i;
		if (costs) {
			/* its own, beside those of its callees, which are in the node already;
			 * inside a call with a known cost none is counted: they are in unread ones
			 */
			uint64_t unread_ns = sub_capped(costs->unread_ns, node->covered_ns);

			add_up(&node->covered_ns, add_capped(costs->counted_ns, unread_ns));
			cost_add(&node->cost, &costs->cost);
			dtypes_add(node->dtypes, costs->dtypes);
			costs_add(&rows[context->row->index].own, costs, unread_ns);
		}
		cost_add(&parent->cost, &node->cost);
		dtypes_add(parent->dtypes, node->dtypes);
		add_up(&parent->covered_ns, node->covered_ns);
	}
}

/* Adds sums to the inclusive costs of a row. Nested calls take no computing time, for their work is
 * in the cost of another call. */
static void add_inclusive(struct row_cost *row, const struct sums *sums,
			  const struct profile_cost *cost, const uint64_t *dtypes)
{
	uint64_t nested_ns = sums->costs ? sums->costs->nested_ns : 0;

	cost_add(&row->inclusive, cost);
	dtypes_add(row->dtypes, dtypes);
	add_up(&row->computing_ns, sub_capped(sums->total_ns, nested_ns));
}

/* Contexts without a row have no ended call. */
static void walk(const struct calls *calls, struct row_cost *rows, const struct node *nodes)
{
	const struct context *contexts = calls->contexts;
	uint32_t at = nodes[0].child;

	while (at) {
		const struct row *row = contexts[at].row;

		if (row && !rows[row->index].open++)
			add_inclusive(&rows[row->index], &contexts[at].sums, &nodes[at].cost,
				      nodes[at].dtypes);
		if (nodes[at].child) {
			at = nodes[at].child;
			continue;
		}
		for (bool done = false; at && !done;) {
			row = contexts[at].row;
			if (row)
				rows[row->index].open--;
			done = nodes[at].sibling;
			at = done ? nodes[at].sibling : nodes[at].parent;
		}
	}
}

/* The costs of all rows, which the caller frees. *rows is NULL if no call has a known cost. 0 or
 * -ENOMEM. */
static int sum_rows(const struct calls *calls, struct row_cost **rows)
{
	struct node *nodes;
	bool any = false;

	*rows = NULL;
	FOR_EACH (context, calls->contexts)
		any |= context->sums.costs != NULL;
	FOR_EACH (row, calls->rows)
		any |= (*row)->orphans.costs != NULL;
	if (!any)
		return 0;
	*rows = calloc(calls->rows_count + 1, sizeof(**rows));
	nodes = calloc(calls->contexts_count + 1, sizeof(*nodes));
	if (!*rows || !nodes) {
		free(nodes);
		return -ENOMEM;
	}
	sum_upwards(calls, *rows, nodes);
	walk(calls, *rows, nodes);
	free(nodes);
	/* calls whose context is not known are roots without callees */
	for (size_t i = 0; i < calls->rows_count; i++) {
		static const struct costs none;
		const struct sums *orphans = &calls->rows[i]->orphans;
		const struct costs *costs = orphans->costs ?: &none;

		add_inclusive(&(*rows)[i], orphans, &costs->cost, costs->dtypes);
		costs_add(&(*rows)[i].own, costs, costs->unread_ns);
	}
	return 0;
}

ORDER(by_source_flops, struct profile_compute_source, DESCENDING(a->cost.flops, b->cost.flops),
      ASCENDING(a->source, b->source))

ORDER(by_dtype_flops, struct profile_compute_dtype, DESCENDING(a->flops, b->flops),
      ASCENDING(a->dtype, b->dtype))

static int add_to_process(struct profile_compute *compute, enum perfx_source source,
			  const struct costs *own)
{
	const struct profile_cost *cost = &own->cost;
	size_t at = 0;

	if (!cost->counted_count && !cost->unread_count && !cost->nested_count &&
	    !cost->opaque_count)
		return 0;
	compute->measured = true;
	cost_add(&compute->cost, cost);
	add_up(&compute->counted_ns, own->counted_ns);
	add_up(&compute->timed_flops, own->timed_flops);
	add_up(&compute->unread_ns, own->unread_ns);
	add_up(&compute->opaque_ns, own->opaque_ns);
	while (at < compute->sources_count && compute->sources[at].source != source)
		at++;
	if (at == compute->sources_count) {
		struct profile_compute_source *sources =
			reallocarray(compute->sources, at + 1, sizeof(*sources));

		if (!sources)
			return -ENOMEM;
		compute->sources = sources;
		sources[at] = (struct profile_compute_source){.source = source};
		compute->sources_count++;
	}
	cost_add(&compute->sources[at].cost, cost);
	if (!compute->dtypes)
		compute->dtypes = calloc(PERFX_DTYPES, sizeof(*compute->dtypes));
	if (!compute->dtypes)
		return -ENOMEM;
	compute->dtypes_count = PERFX_DTYPES;
	for (int i = 0; i < PERFX_DTYPES; i++) {
		compute->dtypes[i].dtype = i;
		add_up(&compute->dtypes[i].flops, own->dtypes[i]);
	}
	return 0;
}

static int costs_fill(struct finish_ctx *ctx)
{
	const struct step_costs *step_costs = &ctx->a->steps->costs;
	struct row_cost *costs;
	int err = sum_rows(ctx->a->calls, &costs);

	FOR_EACH (process, ctx->profile->processes) {
		struct profile_compute *compute = &process->compute;

		for (size_t i = 0; costs && i < process->rows_count && !err; i++) {
			struct profile_row *out = &process->rows[i];
			const struct row *row = row_find(ctx->a, process->index, out->function);
			const struct row_cost *cost = &costs[row->index];

			out->cost = cost->own.cost;
			out->inclusive = cost->inclusive;
			out->dtype = profile_main_dtype(cost->dtypes);
			out->computing_ns = cost->computing_ns;
			err = add_to_process(compute,
					     profile_function(ctx->profile, out->function)->source,
					     &cost->own);
		}
		SORT_ITEMS(compute->sources, compute->sources_count, by_source_flops);
		SORT_ITEMS(compute->dtypes, compute->dtypes_count, by_dtype_flops);
		while (compute->dtypes_count && !compute->dtypes[compute->dtypes_count - 1].flops)
			compute->dtypes_count--;
		compute->until_ns = step_costs_limits(step_costs, process->index).costs_ns;
		compute->until_flops = step_costs_limited_flops(step_costs, process->index);
	}
	free(costs);
	return err;
}

const struct part part_costs = {.finish = costs_fill};
