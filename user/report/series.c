// SPDX-License-Identifier: BSD-2-Clause
/* Memory over time and by size, a row each:
 *     Live over 10.0 s: ▁▂▅█▇▇▂▁ 2.00 MiB to 1.20 GiB
 *     Sizes: 16 B ▁▂█▂▁ 1.00 MiB; half are of at most 128 B
 */
#include "base/quantity.h"
#include "base/units.h"
#include "report/compose.h"
#include "report/sparkline.h"

#define SPARK_COLUMNS 40

struct series {
	uint64_t columns[SPARK_COLUMNS], least, most;
};

/* The highest live bytes, or the bytes allocated, in each of SPARK_COLUMNS parts of the time. */
static void fill(struct series *series, const struct profile_memory *memory,
		 const struct profile_process *p)
{
	uint64_t wall_ns = profile_wall_ns(p), live = 0, allocated = 0;
	bool is_held = memory_sees_frees(memory);
	size_t at = 0;

	for (size_t i = 0; i < SPARK_COLUMNS; i++) {
		uint64_t end =
			p->from_ns + (uint64_t)((double)wall_ns * (double)(i + 1) / SPARK_COLUMNS);
		uint64_t highest = live, lowest = live, before = allocated;

		for (; at < memory->points_count && memory->points[at].time_ns <= end; at++) {
			live = memory->points[at].live_bytes;
			allocated = memory->points[at].allocated_bytes;
			highest = live > highest ? live : highest;
			lowest = live < lowest ? live : lowest;
		}
		series->columns[i] = is_held ? highest : allocated - before;
		lowest = is_held ? lowest : allocated - before;
		series->least = lowest < series->least ? lowest : series->least;
		series->most =
			series->columns[i] > series->most ? series->columns[i] : series->most;
	}
}

void compose_memory_series(struct composer *c, const struct profile_process *p,
			   const struct profile_memory *memory)
{
	struct series series = {.least = UINT64_MAX};
	struct text text = {0};
	char buffer[UNITS_MAX];

	if (memory->points_count < 2)
		return;
	if (c->limits->charts) {
		document_add_chart(c->document, (struct chart){.kind = CHART_HELD,
							       .process = p,
							       .memory = memory});
		return;
	}
	fill(&series, memory, p);
	text_add(&text, memory_sees_frees(memory) ? "Live over " : "Allocated over ");
	text_add(&text, format_ns(buffer, profile_wall_ns(p)));
	text_add(&text, ": ");
	spark(&text, series.columns, SPARK_COLUMNS);
	text_add(&text, " ");
	add_bytes(&text, series.least);
	text_add(&text, " to ");
	add_bytes(&text, series.most);
	if (!memory_sees_frees(memory))
		text_printf(&text, " in each %s",
			    format_ns(buffer, profile_wall_ns(p) / SPARK_COLUMNS));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static uint64_t largest_of(size_t bucket)
{
	return bucket ? 1ULL << (bucket - 1) : 0;
}

void compose_sizes(struct composer *c, const struct profile_memory *memory)
{
	size_t first = PROFILE_SIZES, last = 0, half = 0;
	uint64_t all = 0, sum = 0;
	struct text text = {0};

	for (size_t i = 0; i < PROFILE_SIZES; i++) {
		if (!memory->sizes[i])
			continue;
		first = first < i ? first : i;
		last = i;
		all += memory->sizes[i];
	}
	if (!all)
		return;
	while (half < last && (sum += memory->sizes[half]) < all - all / 2)
		half++;
	text_add(&text, "Sizes: ");
	add_bytes(&text, largest_of(first));
	text_add(&text, " ");
	spark(&text, memory->sizes + first, last - first + 1);
	text_add(&text, last == PROFILE_SIZES - 1 ? " more than " : " ");
	add_bytes(&text, largest_of(last == PROFILE_SIZES - 1 ? last - 1 : last));
	text_add(&text, "; half are of at most ");
	add_bytes(&text, largest_of(half));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}
