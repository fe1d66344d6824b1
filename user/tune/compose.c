// SPDX-License-Identifier: BSD-2-Clause
/*
 * The measured points, as a document:
 *
 *     Not distinguishable: workers=4 and workers=8. By the medians the fastest is
 *     workers=4: 12.3 steps/s (81.3 ms a step), 2.9 times workers=0 (4.21).
 *     The next, workers=8, is 3.2 % behind (95 % interval -1.1 % to +7.8 %): …
 *     workers=2 reaches 97 % of it: more gains little.
 *
 *     (the curve: figure.c)
 *
 *     Median  Lowest  Highest  Of best  Best is faster by  Runs  workers
 */
#include "base/escape.h"
#include "base/units.h"
#include "tune/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void add_name(struct text *into, const struct tune *tune, size_t number)
{
	struct text name = {0};

	tune_add_point(&name, tune, &tune->points[number]);
	escape_name(into, text_peek(&name));
	text_finish(&name, &into->failed);
}

/* "workers=4 is fastest: ", or the points that are not distinguishable from it. */
static void add_best(struct text *into, const struct tune *tune)
{
	size_t level = 0;

	for (size_t i = 0; i < tune->points_count; i++)
		level += i != tune->best && tune->points[i].behind.known && tune->points[i].level;
	if (!level) {
		add_name(into, tune, tune->best);
		text_add(into, " is fastest: ");
		return;
	}
	text_add(into, "Not distinguishable: ");
	add_name(into, tune, tune->best);
	text_add(into, " and ");
	if (level == 1 && tune->points[tune->next].level)
		add_name(into, tune, tune->next);
	else
		text_printf(into, "%zu more", level);
	text_add(into, ". By the medians the fastest is ");
	add_name(into, tune, tune->best);
	text_add(into, ": ");
}

void tune_add_verdict(struct text *into, const struct tune *tune)
{
	const struct tune_point *best;
	size_t worst;

	if (tune->best == TUNE_NONE) {
		text_add(into, tune->interrupted ? "Interrupted before anything was measured."
						 : "Nothing was measured: every run failed.");
		return;
	}
	best = &tune->points[tune->best];
	add_best(into, tune);
	tune_add_value(into, &tune->metric, best->runs.median);
	if (tune->metric.unit == TUNE_STEPS_PER_S) {
		text_add(into, " (");
		tune_add_step(into, best->runs.median);
		text_add(into, " a step)");
	}
	worst = tune->best;
	for (size_t i = 0; i < tune->points_count; i++)
		if (tune->points[i].share < tune->points[worst].share)
			worst = i;
	if (worst != tune->best) {
		text_printf(into, ", %.2f times ", 1 / tune->points[worst].share);
		add_name(into, tune, worst);
		text_add(into, " (");
		tune_add_number(into, &tune->metric, tune->points[worst].runs.median);
		text_add(into, ")");
	}
	text_add(into, ".");
}

/* How sure is it that the best is the best? */
static void compose_confidence(struct document *document, const struct tune *tune)
{
	const struct tune_point *next;
	struct text text = {0};

	if (tune->next == TUNE_NONE)
		return;
	next = &tune->points[tune->next];
	text_add(&text, "It is ");
	tune_add_faster(&text, next->behind.change);
	text_add(&text, " the next, ");
	add_name(&text, tune, tune->next);
	if (!next->behind.known)
		text_add(&text, "; how sure that is cannot be said of one round (--repeat).");
	else {
		text_add(&text, " (");
		tune_add_interval(&text, &next->behind);
		text_add(&text, next->level ? "): the runs do not distinguish the two."
					    : "): more than the runs' spread explains.");
	}
	document_add(document, BLOCK_PARAGRAPH, &text);
}

/* The point of diminishing returns. */
static void compose_enough(struct document *document, const struct tune *tune)
{
	struct text text = {0};

	if (tune->next == TUNE_NONE || !tune->best)
		return;
	if (tune->enough == tune->best) {
		text_printf(&text, "Nothing before it in the list comes within %.0f %% of it.",
			    100 * TUNE_NEAR);
	} else {
		add_name(&text, tune, tune->enough);
		text_printf(&text, " reaches %s of it: more gains little.",
			    as_percent(tune->points[tune->enough].share));
	}
	document_add(document, BLOCK_PARAGRAPH, &text);
}

static void cell_behind(struct document *document, const struct tune *tune, size_t number)
{
	const struct tune_change *behind = &tune->points[number].behind;
	struct text cell = {0};

	if (tune->best == TUNE_NONE || number == tune->best || !behind->pairs_count) {
		text_add(&cell, "-");
	} else {
		tune_add_change(&cell, behind->change);
		if (behind->known) {
			text_add(&cell, " (");
			tune_add_change(&cell, behind->low);
			text_add(&cell, " to ");
			tune_add_change(&cell, behind->high);
			text_add(&cell, ")");
		}
	}
	document_cell(document, &cell);
}

static void compose_row(struct document *document, const struct tune *tune, size_t number)
{
	const struct tune_point *point = &tune->points[number];
	bool steps = tune->metric.unit == TUNE_STEPS_PER_S;
	struct text step = {0}, name = {0};

	tune_cell_number(document, &tune->metric, point->runs.median);
	if (steps) {
		tune_add_step(&step, point->runs.median);
		document_cell(document, &step);
	}
	tune_cell_number(document, &tune->metric, point->runs.lowest);
	tune_cell_number(document, &tune->metric, point->runs.highest);
	document_cell_printf(
		document, "%s",
		isnan(point->share) || tune->best == TUNE_NONE ? "-" : as_percent(point->share));
	cell_behind(document, tune, number);
	document_cell_printf(document, "%zu of %zu", point->runs.measured_count,
			     tune->rounds_count);
	add_name(&name, tune, number);
	document_cell(document, &name);
}

#define WITH_STEPS 1

static void compose_note(struct document *document, const struct tune *tune)
{
	struct text text = {0};

	text_printf(&text,
		    "Each run's value is %s; the median is over the runs. Rounds of one run of "
		    "each value, every second one backward. \"Best is faster by\" is the mean over "
		    "the rounds, with its %.0f %% interval by the paired t-test on the logarithms",
		    tune_less_is_better(&tune->metric)
			    ? "the time from its first instruction to its exit"
			    : "its rate after the warm-up",
		    100 * TUNE_CONFIDENCE);
	if (tune->compared_count > 1)
		text_printf(&text, ", widened for %zu comparisons with the best",
			    tune->compared_count);
	text_add(&text, ".");
	document_add(document, BLOCK_NOTE, &text);
}

static int compose(struct document *document, const struct tune *tune)
{
	struct text verdict = {0}, caption = {0}, lines = {0}, figure = {0};

	tune_add_verdict(&verdict, tune);
	document_add(document, BLOCK_VERDICT, &verdict);
	if (tune->best != TUNE_NONE) {
		size_t failed = 0;

		for (size_t i = 0; i < tune->points_count; i++)
			failed += tune->points[i].runs.failed_count;
		if (tune->interrupted)
			document_say(document, BLOCK_WARNING,
				     "Interrupted: some runs were not made.");
		if (failed)
			document_printf(document, BLOCK_WARNING,
					"%zu run%s failed: the reasons are below.", failed,
					failed == 1 ? "" : "s");
		compose_confidence(document, tune);
		compose_enough(document, tune);
		text_add(&caption, "The curve, ");
		tune_add_unit(&caption, &tune->metric);
		document_add(document, BLOCK_CAPTION, &caption);
		tune_plot(&lines, tune);
		tune_figure(&figure, tune);
		document_add_plot(document, &lines, &figure);
		document_say(document, BLOCK_CAPTION, "Runs");
		document_headings(document, tune->metric.unit == TUNE_STEPS_PER_S ? WITH_STEPS : 0,
				  NUMBERS("Median"),
				  NUMBERS("Step", .where = WITH_STEPS, .rank = 3),
				  NUMBERS("Lowest", .rank = 2), NUMBERS("Highest", .rank = 2),
				  NUMBERS("Of best", .rank = 1), NUMBERS("Best is faster by"),
				  NUMBERS("Runs", .rank = 4), REST("Values"));
		for (size_t i = 0; i < tune->points_count; i++)
			compose_row(document, tune, i);
	}
	for (size_t i = 0; i < tune->points_count; i++) {
		const struct tune_runs *runs = &tune->points[i].runs;
		struct text text = {0};

		if (!runs->failed_count)
			continue;
		add_name(&text, tune, i);
		text_printf(&text, ": %zu of %zu runs failed: ", runs->failed_count,
			    runs->failed_count + runs->measured_count);
		escape_name(&text, runs->why ? runs->why : "out of memory");
		document_add(document, BLOCK_PARAGRAPH, &text);
	}
	if (tune->best != TUNE_NONE)
		compose_note(document, tune);
	return document->failed ? -ENOMEM : 0;
}

static int write_text(FILE *out, const struct tune *tune, const struct tune_layout *layout)
{
	struct document document = {0};
	int err = compose(&document, tune);

	if (!err)
		err = document_write_text(out, &document, layout->color,
					  layout->width ? layout->width : 80);
	document_clear(&document);
	return err;
}

static int write_md(FILE *out, const struct tune *tune, const struct tune_layout *layout)
{
	struct document document = {0};
	int err = compose(&document, tune);

	(void)layout;
	if (!err)
		err = document_write_md(out, &document);
	document_clear(&document);
	return err;
}

static int write_html(FILE *out, const struct tune *tune, const struct tune_layout *layout)
{
	struct document document = {0};
	char *json = NULL;
	size_t size;
	FILE *memory = open_memstream(&json, &size);
	int err = memory ? tune_write_json(memory, tune) : -ENOMEM;

	(void)layout;
	if (memory && fclose(memory) && !err)
		err = -ENOMEM;
	if (!err)
		err = compose(&document, tune);
	if (!err)
		err = document_write_html(out, &document, "perfx-trace tune", json);
	free(json);
	document_clear(&document);
	return err;
}

static int write_json(FILE *out, const struct tune *tune, const struct tune_layout *layout)
{
	(void)layout;
	return tune_write_json(out, tune);
}

static int write_csv(FILE *out, const struct tune *tune, const struct tune_layout *layout)
{
	(void)layout;
	return tune_write_csv(out, tune);
}

static const struct tune_writer writers[] = {
	{{"text", " .txt .text "}, write_text}, {{"md", " .md .markdown "}, write_md},
	{{"html", " .html .htm "}, write_html}, {{"json", " .json "}, write_json},
	{{"csv", " .csv "}, write_csv},
};

struct format_table tune_formats = FORMAT_TABLE(writers);
