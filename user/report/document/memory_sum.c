// SPDX-License-Identifier: BSD-2-Clause
/*
 * What resident memory consists of, for a process and for the job. In a brief report a line:
 *
 *     Resident at the end 408 MiB = malloc: free, kept 130 MiB + … + other parts 2.10 MiB
 *
 * otherwise a table:
 *
 *      Begin     Peak      End  PSS, end  Resident memory
 *     69 MiB   70 MiB   70 MiB    35 MiB  malloc: blocks in use
 */
#include "analyze/memory_sum.h"
#include "base/escape.h"
#include "base/order.h"
#include "base/units.h"
#include "report/document/compose.h"

/* Named in a brief report. */
#define BRIEF_PARTS 4

struct sized_part {
	uint64_t bytes;
	int part;
};

ORDER(by_bytes, struct sized_part, DESCENDING(a->bytes, b->bytes), ASCENDING(a->part, b->part))

static void compose_brief(struct composer *c, const struct profile_process *p)
{
	const struct perfx_memory_sum *sum = memory_sum_at(p, MEMORY_END);
	struct sized_part parts[PERFX_MEMORY_PARTS];
	struct text text = {0};
	uint64_t rest = 0;

	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		parts[i] = (struct sized_part){sum->resident[i], i};
	SORT_ITEMS(parts, PERFX_MEMORY_PARTS, by_bytes);
	text_printf(&text, "Resident at the end %s = ", as_bytes(memory_sum_resident(sum)));
	for (int i = 0; i < PERFX_MEMORY_PARTS; i++) {
		if (i >= BRIEF_PARTS)
			rest += parts[i].bytes;
		else if (parts[i].bytes)
			text_printf(&text, "%s%s %s", i ? " + " : "",
				    memory_part_words(parts[i].part), as_bytes(parts[i].bytes));
	}
	if (rest)
		text_printf(&text, " + other parts %s", as_bytes(rest));
	if (sum->swapped_bytes)
		text_printf(&text, "; swapped out %s", as_bytes(sum->swapped_bytes));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static uint64_t proportional_of(const struct perfx_memory_sum *sum, uint64_t bytes)
{
	return sum->flags & PERFX_MEMORY_SUM_PROPORTIONAL ? bytes : PROFILE_ABSENT;
}

static void compose_parts(struct composer *c, const struct profile_process *p)
{
	const struct perfx_memory_sum *begin = memory_sum_at(p, MEMORY_BEGIN);
	const struct perfx_memory_sum *peak = memory_sum_at(p, MEMORY_PEAK);
	const struct perfx_memory_sum *end = memory_sum_at(p, MEMORY_END);

	document_headings(c->document, 0, NUMBERS("Begin"), NUMBERS("Peak"), NUMBERS("End"),
			  NUMBERS("PSS, end", .rank = 1), REST("Resident memory"));
	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		if (begin->resident[i] || peak->resident[i] || end->resident[i])
			document_row(c->document, cell_bytes(begin->resident[i]),
				     cell_bytes(peak->resident[i]), cell_bytes(end->resident[i]),
				     cell_bytes(proportional_of(end, end->proportional[i])),
				     memory_part_words(i));
	document_row(c->document, cell_bytes(memory_sum_resident(begin)),
		     cell_bytes(memory_sum_resident(peak)), cell_bytes(memory_sum_resident(end)),
		     cell_bytes(proportional_of(end, memory_sum_proportional(end))), "sum");
	if (begin->swapped_bytes || peak->swapped_bytes || end->swapped_bytes)
		document_row(c->document, cell_bytes(begin->swapped_bytes),
			     cell_bytes(peak->swapped_bytes), cell_bytes(end->swapped_bytes),
			     cell_bytes(PROFILE_ABSENT), "swapped out, not in the sum");
}

static void say_heaps(struct text *text, const struct perfx_memory_sum *sum)
{
	const char *rough =
		sum->flags & PERFX_MEMORY_SUM_ROUGH ? " (about: it changed while it was read)" : "";
	struct perfx_memory_sum others = *sum;
	struct text names = {0};

	others.flags &= ~(uint32_t)PERFX_MEMORY_SUM_GLIBC;
	if (sum->flags & PERFX_MEMORY_SUM_GLIBC)
		text_printf(text, " malloc (glibc) holds %s in %s arena%s, of which %s is free%s.",
			    as_bytes(sum->heap_held_bytes), as_count(sum->heap_arenas_count),
			    plural(sum->heap_arenas_count), as_bytes(sum->heap_free_bytes), rough);
	if (memory_sum_allocators(&others, true, &names))
		text_printf(text, " malloc (%s) holds %s, of which %s is free%s.",
			    text_peek(&names), as_bytes(sum->other_heaps_held_bytes),
			    as_bytes(sum->other_heaps_free_bytes), rough);
	text_clear(&names);
	if (memory_sum_allocators(sum, false, &names))
		text_printf(text,
			    " A heap could not be read (%s): it is not divided into used and free.",
			    text_peek(&names));
	text_finish(&names, &text->failed);
}

/* "Read 3 times, at most 0.9 s from the highest moment …": what the columns are of. */
static void compose_moments(struct composer *c, const struct profile_process *p)
{
	const struct profile_memory_sums *sums = p->memory_sums;
	const struct perfx_memory_sum *end = &sums->last;
	uint64_t traced = memory_sum_traced(p, end), most = memory_sum_resident(&sums->peak);
	struct text text = {0};

	text_printf(&text, "Read at %s",
		    as_ns(profile_since_start(c->profile, sums->first.time_ns)));
	text_printf(&text, ", %s", as_ns(profile_since_start(c->profile, sums->peak.time_ns)));
	text_printf(&text, " and %s.", as_ns(profile_since_start(c->profile, end->time_ns)));
	if (p->rss_peak_bytes != PROFILE_ABSENT && p->rss_peak_bytes > most + most / 50)
		text_printf(&text, " Peak is the highest reading; in between it was %s.",
			    as_bytes(p->rss_peak_bytes));
	if (traced != PROFILE_ABSENT && traced)
		text_printf(&text, " Of the blocks in use %s were allocated while recording.",
			    as_bytes(traced));
	say_heaps(&text, end);
	text_printf(&text, " Reserved, touched or not: %s.", as_bytes(end->reserved_bytes));
	document_add(c->document, BLOCK_NOTE, &text);
}

void compose_memory_sum(struct composer *c, const struct profile_process *p)
{
	if (!p->memory_sums)
		return;
	if (c->limits->brief) {
		compose_brief(c, p);
		return;
	}
	document_say(c->document, BLOCK_SECTION, "Memory sum");
	if (c->limits->charts && p->memory_sums->points_count > 1)
		document_add_chart(c->document,
				   (struct chart){.kind = CHART_MEMORY_SUM, .process = p});
	compose_parts(c, p);
	compose_moments(c, p);
}

void compose_job_memory(struct composer *c)
{
	struct perfx_memory_sum sums[MEMORY_MOMENTS];
	size_t counts[MEMORY_MOMENTS];

	for (int i = 0; i < MEMORY_MOMENTS; i++)
		counts[i] = memory_sum_of_job(c->profile, i, &sums[i]);
	if (counts[MEMORY_PEAK] < 2 || !(sums[MEMORY_PEAK].flags & PERFX_MEMORY_SUM_PROPORTIONAL))
		return;
	if (c->limits->brief) {
		document_printf(
			c->document, BLOCK_PARAGRAPH,
			"Memory of %zu processes: %s at the peak, shared memory counted once",
			counts[MEMORY_PEAK], as_bytes(memory_sum_proportional(&sums[MEMORY_PEAK])));
		return;
	}
	document_printf(c->document, BLOCK_SECTION,
			"Memory of all processes (%zu at the peak), shared memory counted once",
			counts[MEMORY_PEAK]);
	document_headings(c->document, 0, NUMBERS("Begin"), NUMBERS("Peak"), NUMBERS("End"),
			  REST("Resident memory"));
	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		if (sums[0].proportional[i] || sums[1].proportional[i] || sums[2].proportional[i])
			document_row(c->document, cell_bytes(sums[0].proportional[i]),
				     cell_bytes(sums[1].proportional[i]),
				     cell_bytes(sums[2].proportional[i]), memory_part_words(i));
	document_row(c->document, cell_bytes(memory_sum_proportional(&sums[0])),
		     cell_bytes(memory_sum_proportional(&sums[1])),
		     cell_bytes(memory_sum_proportional(&sums[2])), "sum");
}
