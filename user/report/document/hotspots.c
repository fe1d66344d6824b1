// SPDX-License-Identifier: BSD-2-Clause
/* Allocation sites: a row for each, then the call stacks of the first ones. */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"
#include "report/document/compose.h"

#include <limits.h>
#include <stdlib.h>

/* Frames in a table's cell, and columns of each. */
#define WHERE_FRAMES  3
#define WHERE_COLUMNS 60
/* Suspects of a leak below the table's end that are shown all the same. */
#define LEAKS_BELOW 5

/* What is shown of a domain. */
struct places {
	const struct profile_process *process;
	const struct profile_memory *memory;
	const struct memory_analysis *analysis;
	size_t *rows; /* of memory->hotspots */
	size_t rows_count;
};

/* The first ones, then leaks. */
static void select_rows(struct places *s, size_t limit)
{
	size_t below = 0;

	for (size_t i = 0; i < s->memory->hotspots_count; i++) {
		if (i >= limit && (!s->analysis->trends[i].leak || below++ >= LEAKS_BELOW))
			continue;
		s->rows[s->rows_count++] = i;
	}
}

static void add_frame(struct text *text, const struct profile_frame *frame,
		      enum location_style style, unsigned columns)
{
	struct text name = {0}, shortened = {0};

	location_frame(&name, frame, style);
	utf8_shorten(&shortened, text_peek(&name), columns ? columns : UINT_MAX);
	escape_name(text, text_peek(&shortened));
	text->failed |= name.failed || shortened.failed;
	text_clear(&name);
	text_clear(&shortened);
}

/* "append (train.c:12) ← train_step (train.c:80) ← …"; of a Python program its own lines. A stack
 * that is guessed in part has a ~. */
static void cell_where(struct composer *c, const struct profile_memory *memory,
		       const struct profile_hotspot *hotspot)
{
	size_t first = location_first(memory, hotspot), shown = 0;
	struct text cell = {0};
	bool python;

	/* nothing but the allocator's own frames */
	if (first == hotspot->frames_count)
		location_hotspot(&cell, c->profile, memory, hotspot);
	else if (hotspot->stack_flags & PERFX_STACK_GUESSED)
		text_add(&cell, "~ ");
	python = first < hotspot->frames_count && location_is_own_python(hotspot->frames[first]);
	for (size_t i = first; i < hotspot->frames_count && shown < WHERE_FRAMES; i++) {
		if (python && !location_is_own_python(hotspot->frames[i]))
			continue;
		text_add(&cell, shown++ ? " ← " : "");
		add_frame(&cell, hotspot->frames[i], LOCATION_LINE, WHERE_COLUMNS);
	}
	document_cell(c->document, &cell);
}

static void cell_function(struct composer *c, const struct profile_process *p,
			  const struct profile_hotspot *hotspot)
{
	struct text cell = {0};

	if (profile_function(c->profile, hotspot->function))
		compose_function_name(c, p, hotspot->function, &cell);
	else
		text_add(&cell, "-");
	document_cell(c->document, &cell);
}

static void cell_leak(struct composer *c, const struct hotspot_trend *trend)
{
	if (trend->leak)
		document_cell_printf(c->document, "+%s/s",
				     as_bytes(u64_of(trend->slope_bytes_per_s)));
	else
		document_cell_printf(c->document, "%s", "");
}

static bool has_leaks(const struct places *s)
{
	for (size_t i = 0; i < s->rows_count; i++) {
		if (s->analysis->trends[s->rows[i]].leak)
			return true;
	}
	return false;
}

enum { HAS_LEAKS = 1 };

/* Live bytes, where frees are seen. */
static void compose_held(struct composer *c, const struct places *s)
{
	static const struct column columns[] = {
		{.title = "At peak", .right = true},
		{.title = "Live", .right = true},
		{.title = "Leak", .right = true, .where = HAS_LEAKS},
		{.title = "Blocks", .right = true, .rank = 5},
		{.title = "Oldest", .right = true, .rank = 3},
		{.title = "Allocated", .right = true, .rank = 1},
		{.title = "Allocs", .right = true, .rank = 2},
		{.title = "Temp.", .right = true, .rank = 6},
		{.title = "Where", .takes_rest = true, .cut_end = true},
		{.title = "Function", .rank = 4},
	};
	bool leaks = has_leaks(s);

	document_table_having(c->document, columns, leaks ? HAS_LEAKS : 0);
	for (size_t i = 0; i < s->rows_count; i++) {
		const struct profile_hotspot *h = &s->memory->hotspots[s->rows[i]];

		document_cell_bytes(c->document, h->live_at_peak_bytes);
		document_cell_bytes(c->document, h->live_bytes);
		if (leaks)
			cell_leak(c, &s->analysis->trends[s->rows[i]]);
		document_cell_count(c->document, h->live_count);
		document_cell_ns(c->document, h->live_count && s->process->to_ns > h->oldest_ns
						      ? s->process->to_ns - h->oldest_ns
						      : PROFILE_ABSENT);
		document_cell_bytes(c->document, h->allocated_bytes.value);
		document_cell_count(c->document, h->allocs.value);
		document_cell_share(c->document, h->temporary_count, h->allocs.value);
		cell_where(c, s->memory, h);
		cell_function(c, s->process, h);
	}
}

/* Allocations, where frees are not seen. */
static void compose_allocated(struct composer *c, const struct places *s)
{
	static const struct column columns[] = {
		{.title = "Allocated", .right = true},
		{.title = "Share", .right = true},
		{.title = "Allocs", .right = true},
		{.title = "Where", .takes_rest = true, .cut_end = true},
		{.title = "Function", .rank = 1},
	};

	document_table(c->document, columns);
	for (size_t i = 0; i < s->rows_count; i++) {
		const struct profile_hotspot *h = &s->memory->hotspots[s->rows[i]];

		document_cell_bytes(c->document, h->allocated_bytes.value);
		document_cell_share(c->document, h->allocated_bytes.value,
				    s->memory->allocated_bytes.value);
		document_cell_count(c->document, h->allocs.value);
		cell_where(c, s->memory, h);
		cell_function(c, s->process, h);
	}
}

/* Native frames between the innermost `kept` and the first Python frame, from *from on; 0: none. A
 * long stack is shown without them: the lines of the program are behind them. */
static size_t native_gap(const struct profile_hotspot *hotspot, size_t kept, size_t *from)
{
	*from = kept;
	for (size_t i = 0; i < hotspot->frames_count; i++)
		if (hotspot->frames[i]->language == PERFX_LANGUAGE_PYTHON)
			return i > kept + 1 ? i - kept : 0;
	return 0;
}

static void compose_stack(struct composer *c, const struct profile_hotspot *hotspot, size_t number)
{
	static const struct column columns[] = {
		{.title = "Frame, innermost first", .takes_rest = true},
	};
	size_t left = hotspot->frames_count, gap = 0, from = 0;
	struct text text = {0};

	text_printf(&text, "Row %zu, ", number);
	escape_name(&text, hotspot->allocator[0] ? hotspot->allocator : "?");
	if (hotspot->stack_flags & PERFX_STACK_GUESSED)
		text_add(&text, " (~ guessed in part)");
	document_add(c->document, BLOCK_CAPTION, &text);
	document_table(c->document, columns);
	if (left > c->limits->frames)
		gap = native_gap(hotspot, c->limits->frames / 2, &from);
	for (size_t i = 0, shown = 0; i < hotspot->frames_count && shown < c->limits->frames;
	     i++, shown++) {
		if (gap && i == from) {
			document_cell_printf(c->document, "… %zu native frames", gap);
			i += gap - 1;
			left -= gap;
			continue;
		}
		add_frame(&text, hotspot->frames[i], LOCATION_BRIEF, c->limits->name_columns);
		document_cell(c->document, &text);
		left--;
	}
	if (left)
		text_printf(&text, "%zu more in the JSON report.", left);
	else if (hotspot->stack_flags & PERFX_STACK_CUT)
		text_add(&text, "The stack is deeper than the recorded frames.");
	if (text.length)
		document_add(c->document, BLOCK_NOTE, &text);
}

/* Of suspects first: what to do about them is where they come from. */
static void compose_stacks(struct composer *c, const struct places *s)
{
	unsigned stacks = 0;

	for (int leaks = 1; leaks >= 0; leaks--) {
		for (size_t i = 0; i < s->rows_count && stacks < c->limits->stacks; i++) {
			const struct profile_hotspot *hotspot = &s->memory->hotspots[s->rows[i]];

			if (hotspot->frames_count < 2 ||
			    s->analysis->trends[s->rows[i]].leak != leaks)
				continue;
			if (stacks++ == 0)
				document_printf(c->document, BLOCK_FOLD, "Call stacks (%s)",
						domain_words(s->memory->domain));
			compose_stack(c, hotspot, i + 1);
		}
	}
	if (stacks)
		document_say(c->document, BLOCK_UNFOLD, "");
}

static void compose_rows(struct composer *c, const struct places *s)
{
	size_t left = s->memory->hotspots_count - s->rows_count;

	if (memory_sees_frees(s->memory))
		compose_held(c, s);
	else
		compose_allocated(c, s);
	if (left)
		document_printf(c->document, BLOCK_NOTE, "%zu more place%s in the JSON report.",
				left, left == 1 ? "" : "s");
	compose_stacks(c, s);
}

void compose_hotspots(struct composer *c, const struct profile_process *p,
		      const struct profile_memory *memory, const struct memory_analysis *analysis)
{
	struct places s = {.process = p, .memory = memory, .analysis = analysis};

	if (c->limits->charts && memory->hotspots_count)
		document_add_chart(c->document, (struct chart){.kind = CHART_PLACES,
							       .process = p,
							       .memory = memory});
	s.rows = calloc((size_t)c->limits->hotspots + LEAKS_BELOW, sizeof(*s.rows));
	if (!s.rows) {
		c->document->failed = true;
		return;
	}
	select_rows(&s, c->limits->hotspots);
	if (s.rows_count)
		compose_rows(c, &s);
	free(s.rows);
}

/* --- the worst of all domains ----------------------------------------------------------------- */

struct worst {
	const struct profile_memory *memory;
	const struct profile_hotspot *hotspot;
	const struct hotspot_trend *trend;
};

static uint64_t weight_of(const struct worst *worst)
{
	if (memory_sees_frees(worst->memory))
		return worst->hotspot->live_at_peak_bytes;
	return worst->hotspot->allocated_bytes.value;
}

/* Leaks first, the fastest of them; then what is live most. */
static int by_weight(const void *left, const void *right)
{
	const struct worst *a = left, *b = right;
	uint64_t a_bytes = weight_of(a), b_bytes = weight_of(b);

	if (a->trend->leak != b->trend->leak)
		return a->trend->leak ? -1 : 1;
	if (a->trend->leak && a->trend->slope_bytes_per_s != b->trend->slope_bytes_per_s)
		return a->trend->slope_bytes_per_s > b->trend->slope_bytes_per_s ? -1 : 1;
	return a_bytes < b_bytes ? 1 : a_bytes > b_bytes ? -1 : 0;
}

static struct worst *all_places(const struct profile_process *p,
				const struct process_analysis *analysis, size_t *count)
{
	struct worst *places;

	*count = 0;
	for (size_t i = 0; i < p->memory_count; i++)
		*count += p->memory[i].hotspots_count;
	places = malloc((*count + 1) * sizeof(*places));
	*count = 0;
	for (size_t i = 0; places && i < p->memory_count; i++)
		for (size_t j = 0; j < p->memory[i].hotspots_count; j++)
			places[(*count)++] =
				(struct worst){&p->memory[i], &p->memory[i].hotspots[j],
					       &analysis->memory[i].trends[j]};
	return places;
}

static void compose_worst(struct composer *c, const struct worst *places, size_t count)
{
	static const struct column columns[] = {
		{.title = "Leak", .right = true, .where = HAS_LEAKS},
		{.title = "At peak", .right = true},
		{.title = "Live", .right = true},
		{.title = "Allocated", .right = true},
		{.title = "Kind", .rank = 1},
		{.title = "Where", .takes_rest = true, .cut_end = true},
	};
	bool leaks = places[0].trend->leak;

	document_table_having(c->document, columns, leaks ? HAS_LEAKS : 0);
	for (size_t i = 0; i < count; i++) {
		const struct worst *worst = &places[i];
		bool held = memory_sees_frees(worst->memory);

		if (leaks)
			cell_leak(c, worst->trend);
		document_cell_bytes(c->document,
				    held ? worst->hotspot->live_at_peak_bytes : PROFILE_ABSENT);
		document_cell_bytes(c->document,
				    held ? worst->hotspot->live_bytes : PROFILE_ABSENT);
		document_cell_bytes(c->document, worst->hotspot->allocated_bytes.value);
		document_cell_printf(c->document, "%s", domain_words(worst->memory->domain));
		cell_where(c, worst->memory, worst->hotspot);
	}
}

#define WORST_SHOWN 5

void compose_worst_places(struct composer *c, const struct profile_process *p,
			  const struct process_analysis *analysis)
{
	size_t count, shown;
	struct worst *places = all_places(p, analysis, &count);

	if (!places) {
		c->document->failed = true;
		return;
	}
	qsort(places, count, sizeof(*places), by_weight);
	shown = count < WORST_SHOWN ? count : WORST_SHOWN;
	if (shown)
		compose_worst(c, places, shown);
	if (shown < count && c->limits->brief)
		document_printf(c->document, BLOCK_NOTE, "%zu more place%s in the full report.",
				count - shown, count - shown == 1 ? "" : "s");
	free(places);
}
