// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two commands, as a document:
 *
 *     B is faster: +12.4 % (95 % interval +10.8 % to +14.1 %): 12.3 → 13.8 steps/s.
 *
 *     Median  Lowest  Highest  Runs  Command
 *       12.3    12.1     12.4   6/6  A: python3 train.py
 *
 *     What changed inside
 *     (diff/compose.c)
 */
#include "base/escape.h"
#include "base/units.h"
#include "report/json/output.h"
#include "tune/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void add_verdict(struct text *into, const struct comparison *c)
{
	if (!c->change.pairs_count) {
		text_printf(into, "A and B cannot be compared: %s",
			    c->interrupted ? "interrupted before both were measured."
					   : "no round measured both.");
		return;
	}
	text_add(into, !c->significant ? "A and B are not distinguishable: "
		       : c->worse      ? "B is slower: "
				       : "B is faster: ");
	tune_add_change(into, c->change.change);
	if (c->change.known) {
		text_add(into, " (");
		tune_add_interval(into, &c->change);
		text_add(into, ")");
	}
	text_add(into, ": ");
	tune_add_number(into, &c->metric, c->a.median);
	text_add(into, " → ");
	tune_add_value(into, &c->metric, c->b.median);
	if (c->metric.unit == TUNE_STEPS_PER_S) {
		text_add(into, " (a step ");
		tune_add_step(into, c->a.median);
		text_add(into, " → ");
		tune_add_step(into, c->b.median);
		text_add(into, ")");
	}
	text_add(into, ".");
}

static void compose_side(struct document *document, const struct comparison *c, const char *side,
			 const struct tune_runs *runs, const char *command)
{
	struct text name = {0};

	tune_cell_number(document, &c->metric, runs->median);
	tune_cell_number(document, &c->metric, runs->lowest);
	tune_cell_number(document, &c->metric, runs->highest);
	document_cell_printf(document, "%zu of %zu", runs->measured_count, c->rounds_count);
	text_printf(&name, "%s: ", side);
	escape_name(&name, command);
	document_cell(document, &name);
}

static void compose_failure(struct document *document, const char *side,
			    const struct tune_runs *runs)
{
	struct text text = {0};

	if (!runs->failed_count)
		return;
	text_printf(&text, "%s: %zu of %zu runs failed: ", side, runs->failed_count,
		    runs->failed_count + runs->measured_count);
	escape_name(&text, runs->why ? runs->why : "out of memory");
	document_add(document, BLOCK_WARNING, &text);
}

static int compose(struct document *document, const struct comparison *c, const struct diff *diff,
		   const struct diff_options *options, unsigned name_columns)
{
	struct text verdict = {0};
	int err = 0;
	struct text caption;

	add_verdict(&verdict, c);
	document_add(document, BLOCK_VERDICT, &verdict);
	if (c->interrupted)
		document_say(document, BLOCK_WARNING, "Interrupted: some runs were not made.");
	compose_failure(document, "A", &c->a);
	compose_failure(document, "B", &c->b);
	caption = (struct text){0};
	tune_add_unit(&caption, &c->metric);
	document_add(document, BLOCK_CAPTION, &caption);
	document_headings(document, 0, NUMBERS("Median"), NUMBERS("Lowest"), NUMBERS("Highest"),
			  NUMBERS("Runs"), REST("Command"));
	compose_side(document, c, "A", &c->a, c->command_a);
	compose_side(document, c, "B", &c->b, c->command_b);
	document_printf(document, BLOCK_NOTE,
			"Each run's value is %s. Rounds of one run of A and one of B, every second "
			"one B first; the change is the mean over the rounds, with its %.0f %% "
			"interval by the paired t-test on the logarithms. Significant: p < %.2g.",
			tune_less_is_better(&c->metric)
				? "the time from its first instruction to its exit"
				: "its rate after the warm-up",
			100 * TUNE_CONFIDENCE, 1 - TUNE_CONFIDENCE);
	if (diff) {
		document_say(document, BLOCK_HEADING, "What changed inside: a traced run of each");
		document_say(document, BLOCK_NOTE,
			     "One run, its start included, of the process that makes most steps. "
			     "It shows where the time went; by how much B differs is what was "
			     "measured above.");
		err = diff_compose_inside(document, diff, options, name_columns);
	}
	return document->failed ? -ENOMEM : err;
}

static int write_text(FILE *out, const struct comparison *comparison, const struct diff *diff,
		      const struct diff_options *options)
{
	struct document document = {0};
	int err = compose(&document, comparison, diff, options, 0);

	if (!err)
		err = document_write_text(out, &document, options->color,
					  options->width ? options->width : 80);
	document_clear(&document);
	return err;
}

static int write_md(FILE *out, const struct comparison *comparison, const struct diff *diff,
		    const struct diff_options *options)
{
	struct document document = {0};
	int err = compose(&document, comparison, diff, options, 80);

	if (!err)
		err = document_write_md(out, &document);
	document_clear(&document);
	return err;
}

static void put_side(struct json_output *o, const char *key, const char *command,
		     const struct tune_runs *runs)
{
	json_t *object = json_object();

	json_set_string(object, "command", command);
	tune_json_runs(object, runs);
	json_put(o, key, object);
}

/* As `diff -f json` writes it. */
static json_t *diff_object(const struct diff *diff, const struct diff_options *options)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int err = out ? diff_write_json(out, diff, options) : -ENOMEM;
	json_t *object = NULL;

	if (out && !fclose(out) && !err)
		object = json_loads(text, 0, NULL);
	free(text);
	return object;
}

static int write_json(FILE *out, const struct comparison *comparison, const struct diff *diff,
		      const struct diff_options *options)
{
	struct json_output o = {.file = out};
	struct text verdict = {0};
	json_t *change = tune_json_change(&comparison->change);

	json_object_set_new(change, "significant", json_boolean(comparison->significant));
	json_object_set_new(change, "worse", json_boolean(comparison->worse));
	add_verdict(&verdict, comparison);
	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.compare/1"));
	json_put(&o, "verdict", json_of_sentence(text_peek(&verdict)));
	json_put(&o, "metric", tune_json_metric(&comparison->metric));
	json_put_integer(&o, "rounds", comparison->rounds_count);
	json_put(&o, "interrupted", json_boolean(comparison->interrupted));
	put_side(&o, "a", comparison->command_a, &comparison->a);
	put_side(&o, "b", comparison->command_b, &comparison->b);
	json_put(&o, "change", change);
	if (diff)
		json_put(&o, "diff", diff_object(diff, options));
	text_clear(&verdict);
	return json_end(&o);
}

static int write_html(FILE *out, const struct comparison *comparison, const struct diff *diff,
		      const struct diff_options *options)
{
	struct document document = {0};
	char *json = NULL;
	size_t size;
	FILE *memory = open_memstream(&json, &size);
	int err = memory ? write_json(memory, comparison, diff, options) : -ENOMEM;

	if (memory && fclose(memory) && !err)
		err = -ENOMEM;
	if (!err)
		err = compose(&document, comparison, diff, options, 0);
	if (!err)
		err = document_write_html(out, &document, "perfx-trace compare", json);
	free(json);
	document_clear(&document);
	return err;
}

static const struct comparison_writer writers[] = {
	{{"text", " .txt .text "}, write_text},
	{{"md", " .md .markdown "}, write_md},
	{{"html", " .html .htm "}, write_html},
	{{"json", " .json "}, write_json},
};

struct format_table comparison_formats = FORMAT_TABLE(writers);
