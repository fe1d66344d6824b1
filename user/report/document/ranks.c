// SPDX-License-Identifier: BSD-2-Clause
/*
 *     Rank  Pid   Steps  Step     Own      Waits for others  Data     Forward  …
 *        0  4242    512  20.1 ms  12.0 ms  8.10 ms           …
 *        1  4243    512  20.1 ms  19.8 ms  310 µs
 */
#include "base/units.h"
#include "report/document/compose.h"

static bool has_phase(const struct composer *c, enum profile_phase phase)
{
	const struct ranks *ranks = &c->analysis->ranks;

	for (size_t i = 0; i < ranks->count; i++)
		if (c->profile->processes[ranks->rows[i].process].steps.phases[phase])
			return true;
	return false;
}

static void compose_rank(struct composer *c, const struct rank_row *row)
{
	const struct profile_process *process = &c->profile->processes[row->process];
	const struct profile_steps *steps = &process->steps;

	document_cell_printf(c->document, "%u", process->rank.rank);
	document_cell_printf(c->document, "%u", process->pid);
	document_cell_count(c->document, steps->count);
	document_cell_ns(c->document, steps->avg_ns);
	document_cell_ns(c->document, u64_of(row->own_ns));
	document_cell_ns(c->document, u64_of(row->wait_ns));
	for (int i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];

		if (has_phase(c, phase))
			document_cell_ns(c->document, steps->phases[phase] / steps->count);
	}
}

/* Columns of phases that no rank has are left out. */
static void compose_table(struct composer *c)
{
	static const char *const titles[PROFILE_PHASES] = {
		[PROFILE_PHASE_DATA] = "Data",	       [PROFILE_PHASE_FORWARD] = "Forward",
		[PROFILE_PHASE_BACKWARD] = "Backward", [PROFILE_PHASE_OPTIMIZER] = "Optimizer",
		[PROFILE_PHASE_OTHER] = "Other",       [PROFILE_PHASE_UNTRACED] = "Untraced"};
	struct column columns[6 + PROFILE_PHASES] = {
		{.title = "Rank", .right = true},  {.title = "Pid", .right = true},
		{.title = "Steps", .right = true}, {.title = "Step", .right = true},
		{.title = "Own", .right = true},   {.title = "Waits for others", .right = true}};
	size_t count = 6;

	for (int i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];

		if (has_phase(c, phase))
			columns[count++] = (struct column){
				.title = titles[phase], .right = true, .rank = 1 + (unsigned)i};
	}
	document_add_table(c->document, columns, count, 0);
	for (size_t i = 0; i < c->analysis->ranks.count; i++)
		compose_rank(c, &c->analysis->ranks.rows[i]);
}

void compose_ranks(struct composer *c)
{
	if (c->analysis->ranks.count < 2)
		return;
	document_say(c->document, BLOCK_HEADING, "Ranks");
	compose_table(c);
	document_say(c->document, BLOCK_NOTE,
		     "Times of a step, on average. Waits for others: in collectives; where samples "
		     "say that a thread was in one.");
}
