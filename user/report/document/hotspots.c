// SPDX-License-Identifier: BSD-2-Clause
/* Allocation sites: a row for each, then the call stacks of the first ones. */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "report/document/compose.h"

#include <limits.h>
#include <stdlib.h>

/* Frames in a table's cell, and columns of each. */
#define WHERE_FRAMES  3
#define WHERE_COLUMNS 60
/* Suspected leaks that are shown although the table is full. */
#define LEAKS_BELOW 5

static void add_frame(struct text *text, const struct profile_frame *frame,
		      enum location_style style, unsigned columns)
{
	struct text name = {0}, shortened = {0};

	location_frame(&name, frame, style);
	utf8_shorten(&shortened, text_peek(&name), columns ? columns : UINT_MAX);
	escape_name(text, text_peek(&shortened));
	text_finish(&name, &text->failed);
	text_finish(&shortened, &text->failed);
}

/* "append (train.c:12) ← train_step (train.c:80) ← …"; of a Python program its own lines. A stack
 * that is guessed in part has a ~. */
static void add_where(struct text *text, const struct profile *profile,
		      const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	size_t first = location_first(memory, hotspot), shown = 0;
	bool python;

	/* nothing but the allocator's own frames */
	if (first == hotspot->frames_count)
		location_hotspot(text, profile, memory, hotspot);
	else if (hotspot->stack_flags & PERFX_STACK_GUESSED)
		text_add(text, "~ ");
	python = first < hotspot->frames_count && location_is_own_python(hotspot->frames[first]);
	for (size_t i = first; i < hotspot->frames_count && shown < WHERE_FRAMES; i++) {
		if (python && !location_is_own_python(hotspot->frames[i]))
			continue;
		text_add(text, shown++ ? " ← " : "");
		add_frame(text, hotspot->frames[i], LOCATION_LINE, WHERE_COLUMNS);
	}
}

/* A row: all hotspots of a domain that the same words describe. A line of Python reaches the
 * allocator through many native stacks, which the JSON report tells apart. */
struct alloc_place {
	const struct profile_memory *memory;
	const struct profile_hotspot *largest; /* whose stack is shown */
	char *words;			       /* where, and the function if that is shown */
	struct hotspot_trend trend;
	/* sums; as in struct profile_hotspot */
	uint64_t live_at_peak_bytes, live_bytes, live_count;
	uint64_t allocated_bytes, allocs_count, temporary_count;
	uint64_t oldest_ns;
};

struct places {
	struct alloc_place *places;
	size_t count;
};

ORDER(by_words, struct alloc_place, strcmp(a->words, b->words), ASCENDING(a->largest, b->largest))

/* As a profile's hotspots. */
ORDER(by_bytes, struct alloc_place, DESCENDING(a->live_at_peak_bytes, b->live_at_peak_bytes),
      DESCENDING(a->allocated_bytes, b->allocated_bytes), ASCENDING(a->largest, b->largest))

/* PROFILE_ABSENT, the largest number, stays. */
static void add(uint64_t *sum, uint64_t more)
{
	*sum = more > PROFILE_ABSENT - *sum ? PROFILE_ABSENT : *sum + more;
}

static void merge_place(struct alloc_place *to, const struct alloc_place *from)
{
	add(&to->live_at_peak_bytes, from->live_at_peak_bytes);
	add(&to->live_bytes, from->live_bytes);
	add(&to->live_count, from->live_count);
	add(&to->allocated_bytes, from->allocated_bytes);
	add(&to->allocs_count, from->allocs_count);
	add(&to->temporary_count, from->temporary_count);
	if (from->oldest_ns < to->oldest_ns)
		to->oldest_ns = from->oldest_ns;
	if (from->trend.leak && to->trend.leak)
		to->trend.slope_bytes_per_s += from->trend.slope_bytes_per_s;
	else if (from->trend.leak)
		to->trend = from->trend;
}

static void places_clear(struct places *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->places[i].words);
	free(s->places);
	*s = (struct places){0};
}

/* The places of a domain, the largest first. None, and the document has failed: memory is out. */
static struct places places_of(struct composer *c, const struct profile_memory *memory,
			       const struct memory_analysis *analysis, bool with_function)
{
	struct places s = {.places = calloc(memory->hotspots_count + 1, sizeof(*s.places))};
	bool failed = !s.places;
	size_t merged = 0;

	for (size_t i = 0; i < memory->hotspots_count && !failed; i++) {
		const struct profile_hotspot *h = &memory->hotspots[i];
		struct text words = {0};

		add_where(&words, c->profile, memory, h);
		if (with_function)
			text_printf(&words, "\n%u", h->function);
		s.places[s.count++] =
			(struct alloc_place){.memory = memory,
					     .largest = h,
					     .words = text_take(&words),
					     .trend = analysis->trends[i],
					     .live_at_peak_bytes = h->live_at_peak_bytes,
					     .live_bytes = h->live_bytes,
					     .live_count = h->live_count,
					     .allocated_bytes = h->allocated_bytes.value,
					     .allocs_count = h->allocs.value,
					     .temporary_count = h->temporary_count,
					     .oldest_ns = h->oldest_ns};
		failed = !s.places[i].words;
	}
	if (failed) {
		c->document->failed = true;
		places_clear(&s);
		return s;
	}
	/* one place of all with the same words */
	qsort(s.places, s.count, sizeof(*s.places), by_words);
	for (size_t i = 0; i < s.count; i++) {
		struct alloc_place *place = &s.places[i];

		if (merged && !strcmp(s.places[merged - 1].words, place->words)) {
			merge_place(&s.places[merged - 1], place);
			free(place->words);
		} else {
			s.places[merged++] = *place;
		}
	}
	s.count = merged;
	qsort(s.places, s.count, sizeof(*s.places), by_bytes);
	return s;
}

static const char *cell_where(struct composer *c, const struct alloc_place *place)
{
	struct text cell = {0};

	add_where(&cell, c->profile, place->memory, place->largest);
	return document_words(c->document, &cell);
}

static const char *cell_leak(struct composer *c, const struct hotspot_trend *trend)
{
	return trend->leak ? document_format(c->document, "+%s/s",
					     as_bytes(u64_of(trend->slope_bytes_per_s)))
			   : "";
}

enum { HAS_LEAKS = 1, HAS_HELD = 2, HAS_ALLOCATED = 4 };

/* Live bytes where frees are seen; otherwise allocations. */
static void compose_places(struct composer *c, const struct profile_process *p,
			   const struct alloc_place *places, size_t count)
{
	unsigned has = memory_sees_frees(places->memory) ? HAS_HELD : HAS_ALLOCATED;

	for (size_t i = 0; i < count && has & HAS_HELD; i++)
		has |= places[i].trend.leak ? HAS_LEAKS : 0;
	document_headings(c->document, has, NUMBERS("At peak", .where = HAS_HELD),
			  NUMBERS("Live", .where = HAS_HELD), NUMBERS("Leak", .where = HAS_LEAKS),
			  NUMBERS("Blocks", .rank = 5, .where = HAS_HELD),
			  NUMBERS("Oldest", .rank = 3, .where = HAS_HELD),
			  NUMBERS("Allocated", .rank = has & HAS_HELD ? 1 : 0),
			  NUMBERS("Share", .where = HAS_ALLOCATED),
			  NUMBERS("Allocs", .rank = has & HAS_HELD ? 2 : 0),
			  NUMBERS("Temp.", .rank = 6, .where = HAS_HELD),
			  REST("Where", .cut_end = true),
			  WORDS("Function", .rank = has & HAS_HELD ? 4 : 1));
	for (size_t i = 0; i < count; i++) {
		const struct alloc_place *row = &places[i];
		bool aged = row->live_count && p->to_ns > row->oldest_ns;

		document_row(c->document, cell_bytes(row->live_at_peak_bytes),
			     cell_bytes(row->live_bytes), cell_leak(c, &row->trend),
			     cell_count(row->live_count),
			     cell_ns(aged ? p->to_ns - row->oldest_ns : PROFILE_ABSENT),
			     cell_bytes(row->allocated_bytes),
			     cell_share(row->allocated_bytes, row->memory->allocated_bytes.value),
			     cell_count(row->allocs_count),
			     cell_share(row->temporary_count, row->allocs_count),
			     cell_where(c, row),
			     profile_function(c->profile, row->largest->function)
				     ? compose_function(c, p, row->largest->function)
				     : "-");
	}
}

static void compose_stack(struct composer *c, const struct profile_hotspot *hotspot, size_t number)
{
	size_t left = hotspot->frames_count, gap = 0, kept = c->limits->frames / 2, python = 0;
	struct text text = {0};

	text_printf(&text, "Row %zu, ", number);
	escape_name(&text, hotspot->allocator[0] ? hotspot->allocator : "?");
	if (hotspot->stack_flags & PERFX_STACK_GUESSED)
		text_add(&text, " (~ guessed in part)");
	document_add(c->document, BLOCK_CAPTION, &text);
	document_headings(c->document, 0, REST("Frame, innermost first"));
	/* A long stack is shown without the native frames between the innermost ones and the first
	 * Python frame, so that the lines of the program are in it. */
	while (python < left && hotspot->frames[python]->language != PERFX_LANGUAGE_PYTHON)
		python++;
	if (left > c->limits->frames && python < left && python > kept + 1)
		gap = python - kept;
	for (size_t i = 0, shown = 0; i < hotspot->frames_count && shown < c->limits->frames;
	     i++, shown++) {
		if (gap && i == kept) {
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
	document_add_any(c->document, BLOCK_NOTE, &text);
}

/* Suspected leaks first: their stacks show the code to fix. */
static void compose_stacks(struct composer *c, const struct alloc_place *places, size_t count)
{
	unsigned stacks = 0;

	for (int leaks = 1; leaks >= 0; leaks--) {
		for (size_t i = 0; i < count && stacks < c->limits->stacks; i++) {
			if (places[i].largest->frames_count < 2 || places[i].trend.leak != leaks)
				continue;
			if (stacks++ == 0)
				document_printf(c->document, BLOCK_FOLD, "Call stacks (%s)",
						memory_words(places->memory));
			compose_stack(c, places[i].largest, i + 1);
		}
	}
	if (stacks)
		document_say(c->document, BLOCK_UNFOLD, "");
}

void compose_hotspots(struct composer *c, const struct profile_process *p, size_t domain)
{
	const struct profile_memory *memory = &p->memory[domain];
	struct places s = places_of(c, memory, &compose_analysis(c, p)->memory[domain], true);
	size_t limit = c->limits->hotspots, shown = s.count < limit ? s.count : limit;

	if (c->limits->charts && memory->hotspots_count)
		document_add_chart(c->document, (struct chart){.kind = CHART_PLACES,
							       .process = p,
							       .memory = memory});
	for (size_t i = shown; i < s.count && shown < limit + LEAKS_BELOW; i++) {
		struct alloc_place place = s.places[i];

		if (!place.trend.leak)
			continue;
		s.places[i] = s.places[shown];
		s.places[shown++] = place;
	}
	if (shown) {
		compose_places(c, p, s.places, shown);
		compose_left_out(c, s.count - shown, " place", "JSON");
		compose_stacks(c, s.places, shown);
	}
	places_clear(&s);
}

static uint64_t weight_of(const struct alloc_place *place)
{
	return memory_sees_frees(place->memory) ? place->live_at_peak_bytes
						: place->allocated_bytes;
}

static double leak_of(const struct alloc_place *place)
{
	return place->trend.leak ? place->trend.slope_bytes_per_s : 0;
}

/* Leaks first, the fastest first; then by size. */
ORDER(by_weight, struct alloc_place, DESCENDING(a->trend.leak, b->trend.leak),
      DESCENDING(leak_of(a), leak_of(b)), DESCENDING(weight_of(a), weight_of(b)))

static void compose_worst(struct composer *c, const struct profile_process *p,
			  const struct alloc_place *places, size_t count)
{
	unsigned has = places[0].trend.leak ? HAS_LEAKS : 0;

	for (size_t i = 0; i < count; i++)
		has |= memory_sees_frees(places[i].memory) ? HAS_HELD : 0;
	document_headings(c->document, has, NUMBERS("Leak", .where = HAS_LEAKS),
			  NUMBERS("At peak", .where = HAS_HELD), NUMBERS("Live", .where = HAS_HELD),
			  NUMBERS("Allocated"), WORDS("Kind", .rank = 1),
			  REST("Where", .cut_end = true));
	for (size_t i = 0; i < count; i++) {
		const struct alloc_place *place = &places[i];
		bool held = memory_sees_frees(place->memory);
		/* bytes that cannot all have been in memory */
		bool reserved =
			bytes_are_reserved(p, place->memory->domain, place->live_at_peak_bytes);

		document_row(c->document, cell_leak(c, &place->trend),
			     cell_bytes(held ? place->live_at_peak_bytes : PROFILE_ABSENT),
			     cell_bytes(held ? place->live_bytes : PROFILE_ABSENT),
			     cell_bytes(place->allocated_bytes),
			     reserved ? "reserved, not resident" : memory_words(place->memory),
			     cell_where(c, place));
	}
}

#define WORST_SHOWN 5

void compose_worst_places(struct composer *c, const struct profile_process *p)
{
	const struct process_analysis *analysis = compose_analysis(c, p);
	struct places all = {0};
	size_t room = 0, shown;

	for (size_t i = 0; i < p->memory_count; i++) {
		/* functions are not shown */
		struct places s = places_of(c, &p->memory[i], &analysis->memory[i], false);

		if (grow_array(&all.places, &room, all.count + s.count, sizeof(*all.places))) {
			c->document->failed = true;
			places_clear(&s);
			break;
		}
		for (size_t j = 0; j < s.count; j++)
			all.places[all.count++] = s.places[j];
		free(s.places);
	}
	shown = all.count < WORST_SHOWN ? all.count : WORST_SHOWN;
	if (shown) {
		qsort(all.places, all.count, sizeof(*all.places), by_weight);
		compose_worst(c, p, all.places, shown);
	}
	if (c->limits->brief)
		compose_left_out(c, all.count - shown, " place", "full");
	places_clear(&all);
}
