// SPDX-License-Identifier: BSD-2-Clause
/*
 *     Rank  Pid   Steps  Step     Own      Waits for others  Data     Forward  …
 *        0  4242    512  20.1 ms  12.0 ms  8.10 ms           …
 *        1  4243    512  20.1 ms  19.8 ms  310 µs
 *
 *     Rank  Comes last  After the first    Waited  Most for
 *        0       1.9 %           12.1 µs    3.01 s  rank 1: 3.01 s
 *        1      98.1 %           7.80 ms   5.22 ms  rank 0: 5.22 ms
 */
#include "analyze/ranks.h"
#include "base/units.h"
#include "report/document/compose.h"
#include "report/document/plot.h"

#include <math.h>

/* Of a host's name. */
#define HOST_COLUMNS 20

/* Several machines; a phase that a rank has, by its place in profile_phases_in_order. */
enum { HAS_HOSTS = 1, HAS_PHASE = 2 };

static uint32_t rank_of(const struct composer *c, const struct skew_rank *rank)
{
	const struct rank_row *row = &c->analysis->ranks.rows[rank->row];

	return c->profile->processes[row->process].rank.rank;
}

/* When ranks arrive at collectives, and how far apart. */
static void compose_skew(struct composer *c, const struct skew *skew)
{
	uint64_t medians[SKEW_WINDOWS];
	struct text bars = {0};

	document_say(c->document, BLOCK_CAPTION, "Arrivals at collectives");
	document_headings(c->document, 0, NUMBERS("Rank"), NUMBERS("Comes last"),
			  NUMBERS("After the first"), NUMBERS("Waited"), WORDS("Most for"));
	for (size_t k = 0; k < skew->ranks_count; k++) {
		const struct skew_rank *rank = &skew->ranks[k], *awaited = &skew->ranks[rank->most];

		document_row(c->document, document_format(c->document, "%u", rank_of(c, rank)),
			     as_percent((double)rank->last_count / (double)skew->count),
			     cell_ns(u64_of(rank->late_ns)), cell_ns(u64_of(rank->wait_ns)),
			     awaited != rank && skew->waits
				     ? document_format(c->document, "rank %u: %s",
						       rank_of(c, awaited),
						       as_ns(u64_of(rank->most_wait_ns)))
				     : "-");
	}
	/* From the first rank to come to the last, by time. */
	for (size_t k = 0; k < skew->windows_count; k++)
		medians[k] = u64_of(skew->windows[k].median_ns);
	spark(&bars, medians, skew->windows_count);
	document_printf(c->document, BLOCK_PARAGRAPH,
			"%zu collectives; from the first rank to come to the last: median %s, at "
			"most %s; by time %s; %s %s from the first half to the second.",
			skew->count, as_ns(u64_of(skew->median_ns)), as_ns(u64_of(skew->most_ns)),
			text_peek(&bars), skew->trend_ns < 0 ? "less by" : "more by",
			as_ns(u64_of(fabs(skew->trend_ns))));
	text_clear(&bars);
}

void compose_ranks(struct composer *c)
{
	const struct ranks *ranks = &c->analysis->ranks;
	unsigned has = c->profile->hosts_count > 1 ? HAS_HOSTS : 0;

	if (ranks->count < 2)
		return;
	document_say(c->document, BLOCK_HEADING, "Ranks");
	for (size_t i = 0; i < ranks->count; i++)
		for (int k = 0; k < PROFILE_PHASES; k++)
			if (steps_phase_ns(&c->profile->processes[ranks->rows[i].process].steps,
					   profile_phases_in_order[k]) > 0)
				has |= HAS_PHASE << k;
	document_headings(c->document, has, NUMBERS("Rank"), WORDS("Host", .where = HAS_HOSTS),
			  NUMBERS("Pid"), NUMBERS("Steps"), NUMBERS("Step"), NUMBERS("Own"),
			  NUMBERS("Waits for others"),
			  NUMBERS("Data", .rank = 1, .where = HAS_PHASE << 0),
			  NUMBERS("Forward", .rank = 2, .where = HAS_PHASE << 1),
			  NUMBERS("Backward", .rank = 3, .where = HAS_PHASE << 2),
			  NUMBERS("Optimizer", .rank = 4, .where = HAS_PHASE << 3),
			  NUMBERS("Other", .rank = 5, .where = HAS_PHASE << 4),
			  NUMBERS("Untraced", .rank = 6, .where = HAS_PHASE << 5));
	for (size_t i = 0; i < ranks->count; i++) {
		const struct rank_row *row = &ranks->rows[i];
		const struct profile_process *process = &c->profile->processes[row->process];
		const struct profile_steps *steps = &process->steps;
		uint64_t ns[PROFILE_PHASES];

		for (int k = 0; k < PROFILE_PHASES; k++)
			ns[k] = u64_of(fmax(steps_phase_ns(steps, profile_phases_in_order[k]), 0));
		document_row(c->document, document_format(c->document, "%u", process->rank.rank),
			     document_name(c->document, profile_host_name(c->profile, process),
					   HOST_COLUMNS),
			     document_format(c->document, "%u", process->pid),
			     cell_count(steps->count), cell_ns(steps->avg_ns),
			     cell_ns(u64_of(row->own_ns)), cell_ns(u64_of(row->wait_ns)),
			     cell_ns(ns[0]), cell_ns(ns[1]), cell_ns(ns[2]), cell_ns(ns[3]),
			     cell_ns(ns[4]), cell_ns(ns[5]));
	}
	document_say(c->document, BLOCK_NOTE,
		     "Times of a step, on average. Waits for others: in collectives; where samples "
		     "say that a thread was in one.");
	for (size_t i = 0; i < ranks->skews_count; i++)
		if (ranks->skews[i].count)
			compose_skew(c, &ranks->skews[i]);
}
