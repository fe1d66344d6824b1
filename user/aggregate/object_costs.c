// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls that are distinguished by an object which says what each of them does. What was read from
 * it comes once, as an OBJECT_COST record; calls that were faster wait for that.
 */
#include "aggregate/internal.h"

/* Ids are handed out from 1, one for each object. */
#define OBJECT_COSTS_MAX (1u << 20)
#define WAITING_MAX	 (1u << 20)

int object_costs_add(struct aggregate *a, const struct perfx_object_cost *record)
{
	if (record->object_cost == 0 || record->object_cost > OBJECT_COSTS_MAX)
		return undecoded(a);
	if (grow_array(&a->object_costs, &a->object_costs_capacity, (size_t)record->object_cost + 1,
		       sizeof(*a->object_costs)))
		return -ENOMEM;
	if (record->object_cost >= a->object_costs_count)
		a->object_costs_count = (size_t)record->object_cost + 1;
	a->object_costs[record->object_cost] = (struct object_cost){.flops = record->flops,
								    .bytes = record->bytes,
								    .state = record->state,
								    .dtype = record->dtype,
								    .settled = true};
	return 0;
}

static const struct object_cost *find(const struct aggregate *a, uint64_t cost)
{
	return cost < a->object_costs_count && a->object_costs[cost].settled
		       ? &a->object_costs[cost]
		       : NULL;
}

static int take(struct aggregate *a, struct costs **costs, const struct perfx_span *span,
		const struct object_cost *cost, bool late)
{
	struct perfx_span settled = *span;
	int err;

	if (cost->state == PERFX_COST_NONE)
		return 0;
	settled.cost_state = cost->state;
	settled.dtype = cost->dtype;
	settled.flops = cost->flops;
	settled.bytes = cost->bytes;
	err = costs_span(costs, &settled);
	return err ? err : steps_cost(&a->steps, &settled, late);
}

int object_costs_span(struct aggregate *a, struct costs **costs, const struct perfx_span *span)
{
	static const struct object_cost unread = {.state = PERFX_COST_UNREAD};
	const struct object_cost *cost = find(a, span->flops);

	if (cost)
		return take(a, costs, span, cost, false);
	if (a->waiting_count >= WAITING_MAX)
		return take(a, costs, span, &unread, false);
	if (grow_array(&a->waiting, &a->waiting_capacity, a->waiting_count + 1,
		       sizeof(*a->waiting)))
		return -ENOMEM;
	a->waiting[a->waiting_count++] = *span;
	return 0;
}

int object_costs_settle(struct aggregate *a)
{
	static const struct object_cost unread = {.state = PERFX_COST_UNREAD};
	size_t count = a->waiting_count;

	a->waiting_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct perfx_span *span = &a->waiting[i];
		const struct object_cost *cost = find(a, span->flops);
		struct sums *sums = calls_sums(a, span);

		if (sums && take(a, &sums->costs, span, cost ? cost : &unread, true))
			return -ENOMEM;
	}
	return 0;
}
