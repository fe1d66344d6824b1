// SPDX-License-Identifier: BSD-2-Clause
/*
 * What ranges compute, with everything that runs inside them on their thread:
 *
 *     Ranges, with what runs inside them
 *      Total  Calls        FLOPs  GFLOP/s  Of roof  FLOP/B  Bound by  Range
 *     4.50 s     20  64.4 G       14.3     9.0 %    12.0     overhead  forward
 */
#include "analyze/roofline.h"
#include "report/compose.h"

#include <stdlib.h>

static bool is_range(const struct composer *c, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(c->profile, row->function);

	return function && (function->flags & PERFX_FUNCTION_RANGE) && row->inclusive.counted_count;
}

static int by_total(const void *left, const void *right)
{
	const struct profile_row *a = *(const struct profile_row *const *)left;
	const struct profile_row *b = *(const struct profile_row *const *)right;

	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return a->function < b->function ? -1 : a->function > b->function;
}

static void compose_range(struct composer *c, const struct profile_process *p,
			  const struct profile_row *row)
{
	struct roofline line = roofline_of_row(c->profile, p, row);
	const char *bound = roofline_class_name(line.bound);
	struct text name = {0};

	document_cell_ns(c->document, row->timed_count ? row->total_ns : PROFILE_ABSENT);
	document_cell_count(c->document, row->calls_count);
	document_cell_flops(c->document, &row->inclusive);
	document_cell_gflops(c->document, line.flops_per_s);
	document_cell_bytes(c->document, row->inclusive.bytes + row->inclusive.moved_bytes);
	if (line.flops_per_s >= 0 && line.attainable_flops_per_s > 0)
		document_cell_share(c->document, (uint64_t)line.flops_per_s,
				    (uint64_t)line.attainable_flops_per_s);
	else
		document_cell_printf(c->document, "-");
	document_cell_printf(c->document, line.intensity < 0 ? "-" : "%.3g", line.intensity);
	document_cell_printf(c->document, "%s", bound ? bound : "-");
	compose_function_name(c, p, row->function, &name);
	document_cell(c->document, &name);
}

void compose_ranges(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Total", .right = true},
		{.title = "Calls", .right = true, .rank = 3},
		{.title = "FLOPs", .right = true},
		{.title = "GFLOP/s", .right = true},
		{.title = "Bytes", .right = true, .rank = 2},
		{.title = "Of roof", .right = true, .rank = 1},
		{.title = "FLOP/B", .right = true},
		{.title = "Bound by"},
		{.title = "Range", .takes_rest = true},
	};
	const struct profile_row **rows = calloc(p->rows_count + 1, sizeof(*rows));
	size_t count = 0;

	if (!rows) {
		c->document->failed = true;
		return;
	}
	for (size_t i = 0; i < p->rows_count; i++)
		if (is_range(c, &p->rows[i]))
			rows[count++] = &p->rows[i];
	qsort(rows, count, sizeof(*rows), by_total);
	if (count) {
		document_say(c->document, BLOCK_CAPTION, "Ranges, with what runs inside them");
		document_table(c->document, columns);
	}
	for (size_t i = 0; i < count && i < c->limits->functions; i++)
		compose_range(c, p, rows[i]);
	free(rows);
}
