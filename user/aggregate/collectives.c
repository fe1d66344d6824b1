// SPDX-License-Identifier: BSD-2-Clause
#include "cost/collectives.h"
#include "aggregate/state.h"

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
	const struct profile_function *f = function_at(a, row->function);

	if (row->meets == MEETS_UNDECIDED && f && f->id)
		row->meets = collective_meets(f->name) ? MEETS : MEETS_NOT;
	if (row->meets != MEETS)
		return 0;
	make_room(collectives);
	return LIST_ADD_TO(
		collectives,
		(struct profile_collective){.from_ns = span->start_ns,
					    .to_ns = add_capped(span->start_ns, span->duration_ns),
					    .function = span->function});
}
