// SPDX-License-Identifier: BSD-2-Clause
#include "cost/collectives.h"
#include "aggregate/state.h"

static void decide(const struct aggregate *a, struct row *row)
{
	const struct profile_function *f =
		row->function <= a->functions_count ? &a->functions[row->function - 1] : NULL;

	if (f && f->id)
		row->meets = collective_meets(f->name) ? MEETS : MEETS_NOT;
}

/* Of more than are kept the older half goes. */
static void make_room(struct collectives *collectives)
{
	size_t half = PROFILE_COLLECTIVES_MAX / 2;

	if (collectives->count < PROFILE_COLLECTIVES_MAX)
		return;
	memmove(collectives->list, collectives->list + half, half * sizeof(*collectives->list));
	collectives->count = half;
}

int collectives_span(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	struct collectives *collectives = &a->processes[row->process]->collectives;

	if (row->meets == MEETS_UNDECIDED)
		decide(a, row);
	if (row->meets != MEETS)
		return 0;
	make_room(collectives);
	return LIST_ADD_TO(
		collectives,
		(struct profile_collective){.from_ns = span->start_ns,
					    .to_ns = add_capped(span->start_ns, span->duration_ns),
					    .function = span->function});
}
