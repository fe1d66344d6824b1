// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bytes moved by collectives:
 *
 *     Moved between ranks
 *     Bytes    Bus bytes   GB/s   Bus GB/s   Calls  Function
 *     4.0 GiB    7.0 GiB   0.43       0.75   1,024  ncclAllReduce
 *
 * Rates are over the process's time and not over that of the calls, which return when the work
 * has been handed to the GPU.
 */
#include "report/compose.h"

static bool moves(const struct profile_row *row)
{
	return row->cost.moved_bytes > 0;
}

static void cell_rate(struct document *document, uint64_t bytes, uint64_t wall_ns)
{
	if (bytes == PROFILE_ABSENT || !wall_ns)
		document_cell_printf(document, "-");
	else
		document_cell_printf(document, "%.3g", (double)bytes / (double)wall_ns);
}

static void compose_row(struct composer *c, const struct profile_process *p,
			const struct profile_row *row)
{
	const struct profile_cost *cost = &row->cost;
	uint64_t bus_bytes = profile_bus_known(cost) ? cost->bus_bytes : PROFILE_ABSENT;
	struct text name = {0};

	document_cell_bytes(c->document, cost->moved_bytes);
	document_cell_bytes(c->document, bus_bytes);
	cell_rate(c->document, cost->moved_bytes, profile_wall_ns(p));
	cell_rate(c->document, bus_bytes, profile_wall_ns(p));
	document_cell_count(c->document, cost->counted_count);
	compose_function_name(c, p, row->function, &name);
	document_cell(c->document, &name);
}

static void compose_note(struct composer *c, bool all_known)
{
	struct text text = {0};

	text_add(&text, "GB/s are over the whole window: these calls return when the GPU has been "
			"told, so that bytes by their own time are no bandwidth. Bus bytes are "
			"what passes the busiest link: of an all-reduce 2(n-1)/n of its bytes.");
	if (!all_known)
		text_add(&text, " Where they are missing, the communicator was made before "
				"tracing began: how many ranks it has is not known.");
	document_add(c->document, BLOCK_NOTE, &text);
}

void compose_collectives(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Bytes", .right = true},
		{.title = "Bus bytes", .right = true},
		{.title = "GB/s", .right = true},
		{.title = "Bus GB/s", .right = true},
		{.title = "Calls", .right = true, .rank = 1},
		{.title = "Function", .takes_rest = true},
	};
	bool all_known = true;

	if (!p->compute.cost.moved_bytes)
		return;
	document_say(c->document, BLOCK_CAPTION, "Moved between ranks");
	document_table(c->document, columns);
	for (size_t i = 0; i < p->rows_count; i++) {
		if (!moves(&p->rows[i]))
			continue;
		compose_row(c, p, &p->rows[i]);
		all_known = all_known && profile_bus_known(&p->rows[i].cost);
	}
	compose_note(c, all_known);
}
