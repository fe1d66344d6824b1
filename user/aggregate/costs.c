// SPDX-License-Identifier: BSD-2-Clause
/* The costs of single calls and of the overflow sums, added up by calling context. */
#include "aggregate/internal.h"

#include <stdlib.h>

void cost_add(struct profile_cost *cost, const struct profile_cost *more)
{
	cost->flops = add_capped(cost->flops, more->flops);
	cost->bytes = add_capped(cost->bytes, more->bytes);
	cost->moved_bytes = add_capped(cost->moved_bytes, more->moved_bytes);
	cost->bus_bytes = add_capped(cost->bus_bytes, more->bus_bytes);
	cost->bus_moved_bytes = add_capped(cost->bus_moved_bytes, more->bus_moved_bytes);
	cost->counted_count = add_capped(cost->counted_count, more->counted_count);
	cost->unread_count = add_capped(cost->unread_count, more->unread_count);
	cost->opaque_count = add_capped(cost->opaque_count, more->opaque_count);
	cost->nested_count = add_capped(cost->nested_count, more->nested_count);
	cost->submitted_count = add_capped(cost->submitted_count, more->submitted_count);
}

static int make(struct costs **costs)
{
	if (!*costs)
		*costs = calloc(1, sizeof(**costs));
	return *costs ? 0 : -ENOMEM;
}

static void add_ns(uint64_t *sum_ns, uint64_t ns)
{
	*sum_ns = add_capped(*sum_ns, ns);
}

/* Of a call without a record the type is not known. */
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
	costs->dtypes[dtype] = add_capped(costs->dtypes[dtype], flops);
}

static void add_moved(struct costs *costs, const struct perfx_span *span)
{
	const struct profile_cost more = {
		.moved_bytes = span->bytes,
		.bus_bytes = span->flops,
		.bus_moved_bytes = span->flops ? span->bytes : 0,
		.counted_count = 1,
	};

	cost_add(&costs->cost, &more);
}

int costs_span(struct costs **costs, const struct perfx_span *span)
{
	bool timed = !(span->flags & PERFX_SPAN_UNTIMED);
	struct costs *f;

	/* what it did before the exception is not known */
	if (span->flags & PERFX_SPAN_UNWOUND)
		return 0;
	if (make(costs))
		return -ENOMEM;
	f = *costs;
	switch ((enum perfx_cost_state)span->cost_state) {
	case PERFX_COST_NONE:
	case PERFX_COST_BY_OBJECT: /* object_costs.c */
		break;
	case PERFX_COST_OPAQUE:
		f->cost.opaque_count++;
		add_ns(&f->opaque_ns, span->self_ns);
		break;
	case PERFX_COST_COUNTED:
		if (span->flags & PERFX_SPAN_MOVES) {
			add_moved(f, span);
			break;
		}
		add_counted(f, span->flops, span->bytes, 1, span->dtype);
		f->cost.submitted_count += !!(span->flags & PERFX_SPAN_SUBMITTED);
		if (timed && span->flops)
			add_ns(&f->counted_ns, span->duration_ns);
		break;
	case PERFX_COST_INSIDE:
	case PERFX_COST_ELSEWHERE:
		f->cost.nested_count++;
		if (timed)
			add_ns(&f->nested_ns, span->duration_ns);
		break;
	case PERFX_COST_UNREAD:
		f->cost.unread_count++;
		if (timed)
			add_ns(&f->unread_ns, span->duration_ns);
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
	if (make(costs))
		return -ENOMEM;
	f = *costs;
	add_counted(f, record->flops, record->bytes, record->counted_count, PERFX_DTYPE_UNKNOWN);
	cost_add(&f->cost, &more);
	if (record->flops)
		add_ns(&f->counted_ns, share_of(record->total_ns, record->counted_count, all));
	add_ns(&f->unread_ns, share_of(record->total_ns, record->unread_count, all));
	add_ns(&f->nested_ns, share_of(record->total_ns, record->nested_count, all));
	add_ns(&f->opaque_ns, share_of(record->self_ns, record->opaque_count, all));
	return 0;
}
