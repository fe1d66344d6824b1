// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of two recordings:
 *
 *     steps 40 → 60 · a step computes 6.00 GFLOP → 6.00 GFLOP · at 60.0 GFLOP/s → 50.0 GFLOP/s
 *
 *      Change  Ratio        A        B  Significant  Step
 *     +20.0 %   1.20   100 ms   120 ms  slower       mean
 *      +5.0 %   1.05   100 ms   105 ms               median
 *     +40.0 %   1.40  50.0 ms  70.0 ms               mean, data
 */
#include "report/difference_cells.h"

#include "base/quantity.h"

#include <math.h>

static void add_count_of(struct text *text, double count)
{
	add_count(text, (uint64_t)count);
}

static void add_operations(struct text *text, double flops)
{
	add_si(text, flops, "FLOP");
}

static void compose_facts(struct comparer *c, const struct diff_steps *steps)
{
	struct text facts = {0};

	add_fact(&facts, "steps", steps->count, add_count_of);
	add_fact(&facts, "a step computes", steps->flops, add_operations);
	add_fact(&facts, "at", steps->flops_per_s, add_flops);
	add_fact(&facts, "MFU", steps->mfu, add_share);
	document_add(c->document, BLOCK_PARAGRAPH, &facts);
}

static void compose_pair(struct comparer *c, struct diff_pair pair, const char *verdict,
			 const char *what, const char *part)
{
	cell_change(c, pair);
	cell_ratio(c, pair);
	cells_ns(c, pair);
	document_cell_printf(c->document, "%s", verdict);
	document_cell_printf(c->document, "%s%s", what, part);
}

static void compose_mean(struct comparer *c, const struct diff_steps *steps)
{
	cell_change(c, steps->avg_ns);
	cell_ratio(c, steps->avg_ns);
	cells_ns(c, steps->avg_ns);
	cell_verdict(c, difference_of_time(steps->time), steps->time, steps->regressed,
		     "too few steps");
	document_cell_printf(c->document, "mean");
}

void compose_step_changes(struct comparer *c, const struct diff_steps *steps)
{
	static const struct column columns[] = {
		{.title = "Change", .right = true}, {.title = "Ratio", .right = true, .rank = 5},
		{.title = "A", .right = true},	    {.title = "B", .right = true},
		{.title = "Significant"},	    {.title = "Step", .takes_rest = true},
	};

	if (!steps->in)
		return;
	document_say(c->document, BLOCK_CAPTION, "Steps");
	compose_facts(c, steps);
	document_table(c->document, columns);
	compose_mean(c, steps);
	compose_pair(c, steps->p50_ns, "", "median", "");
	compose_pair(c, steps->p95_ns, "", "p95", "");
	compose_pair(c, steps->max_ns, "", "longest", "");
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];
		struct diff_pair pair = steps->phases_ns[phase];

		if (pair.a > 0 || pair.b > 0)
			compose_pair(c, pair, "", "mean, ", profile_phase_name(phase));
	}
}
