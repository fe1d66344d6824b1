// SPDX-License-Identifier: BSD-2-Clause
/*
 * One HTML file that needs nothing else, for a browser or an archive. Its security policy forbids
 * the network and every script but ours, which it names by its hash: a name of the traced program
 * that got through the escaping would still be inert.
 *
 * Without the script it is a plain report; with it tables sort and can be searched and the flame
 * graphs are drawn. Of long tables the rows beyond the first are in a <template>: the browser lays
 * out only those that are looked at. The JSON report is in it too.
 */
#include "report/writers.h"

#include "base/escape.h"
#include "decode/names.h"
#include "report/document.h"
#include "report/html.h"
#include "report_html.h"

#include <errno.h>
#include <stdlib.h>

#define ROWS_SHOWN 100

static void add_cell(struct text *text, const struct table *table, size_t column, const char *cell)
{
	const struct column *c = &table->columns[column];

	text_add(text, cell ? "<td" : "<th scope=col");
	text_add(text, c->right ? " class=n>" : c->takes_rest ? " class=name>" : ">");
	if (cell)
		escape_html_sentence(text, cell);
	else
		escape_html(text, c->title);
}

/* What the row is about comes first: it stays in sight when the figures are scrolled. */
static void add_row(struct text *text, const struct table *table, char *const *cells)
{
	text_add(text, "<tr>");
	for (int first = 1; first >= 0; first--) {
		for (size_t i = 0; i < table->columns_count; i++) {
			if (table->columns[i].takes_rest == first)
				add_cell(text, table, i, cells ? cells[i] : NULL);
		}
	}
	text_add(text, "\n");
}

static void add_table(struct text *text, const struct table *table)
{
	size_t rows = table->cells_count / table->columns_count;

	text_add(text, "<div class=table><table><thead>\n");
	add_row(text, table, NULL);
	text_add(text, "</thead><tbody>\n");
	for (size_t i = 0; i < rows; i++) {
		if (i == ROWS_SHOWN)
			text_add(text, "</tbody><template>\n");
		add_row(text, table, table->cells + i * table->columns_count);
	}
	text_add(text,
		 rows > ROWS_SHOWN ? "</template></table></div>\n" : "</tbody></table></div>\n");
	if (rows > ROWS_SHOWN)
		text_printf(text, "<p class=note data-more>The first %d of %zu.</p>\n", ROWS_SHOWN,
			    rows);
}

static void add_finding(struct text *text, const struct block *block)
{
	const struct finding *finding = block->finding;
	const char *severity = finding_severity_name(finding->severity);

	text_printf(text, "<article class=\"finding %s\"><h3><span class=severity>%s</span> %s: ",
		    severity, severity, finding->kind);
	escape_html_sentence(text, block->text);
	text_printf(text, "%s</h3><p>", finding->partial ? " (partial)" : "");
	escape_html_sentence(text, finding->evidence);
	text_add(text, " <span class=note>(threshold: ");
	escape_html_sentence(text, finding->threshold);
	text_add(text, ")</span></p><p>");
	escape_html_sentence(text, finding->suggestion);
	text_add(text, "</p></article>\n");
}

static void add_element(struct text *text, const char *open, const char *sentence,
			const char *close)
{
	text_add(text, open);
	escape_html_sentence(text, sentence);
	text_add(text, close);
}

static void add_block(struct text *text, const struct profile *profile, const struct block *block)
{
	switch (block->kind) {
	case BLOCK_VERDICT:
		add_element(text, "<h1>", block->text, "</h1>\n");
		break;
	case BLOCK_WARNING:
		add_element(text, "<p class=warning role=note>", block->text, "</p>\n");
		break;
	case BLOCK_HEADING:
		add_element(text, "<h2>", block->text, "</h2>\n");
		break;
	case BLOCK_PARAGRAPH:
		add_element(text, "<p>", block->text, "</p>\n");
		break;
	case BLOCK_CAPTION:
		add_element(text, "<h3>", block->text, "</h3>\n");
		break;
	case BLOCK_NOTE:
		add_element(text, "<p class=note>", block->text, "</p>\n");
		break;
	case BLOCK_FINDING:
		add_finding(text, block);
		break;
	case BLOCK_TABLE:
		add_table(text, &block->table);
		break;
	case BLOCK_PLOT:
		add_element(text, "<pre>", block->text, "</pre>\n");
		break;
	case BLOCK_FOLD:
		add_element(text, "<details><summary>", block->text, "</summary>\n");
		break;
	case BLOCK_UNFOLD:
		text_add(text, "</details>\n");
		break;
	case BLOCK_CHART:
		html_chart(text, profile, &block->chart);
		break;
	}
}

static void add_head(struct text *text, const struct analysis *analysis)
{
	struct text title = {0};

	escape_unmarked(&title, analysis->verdict);
	text_add(text, "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n"
		       "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
		       "style-src '" report_css_hash "'; script-src '" report_js_hash
		       "'; base-uri 'none'; form-action 'none'\">\n"
		       "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=color-scheme content=\"light dark\">\n"
		       "<meta name=generator content=perfx-trace>\n<title>");
	escape_html(text, text_peek(&title));
	text_add(text, "</title>\n<style>");
	text_add_bytes(text, (const char *)report_css, sizeof(report_css));
	text_add(text, "</style>\n<main>\n");
	text_clear(&title);
}

/* The JSON report, for programs that read this file. */
static int add_json(struct text *text, const struct profile *profile,
		    const struct analysis *analysis, const struct report_options *options)
{
	char *json = NULL;
	size_t size;
	FILE *out = open_memstream(&json, &size);
	int err = out ? report_write_json(out, profile, analysis, options) : -ENOMEM;

	if (out && fclose(out) && !err)
		err = -ENOMEM;
	if (!err) {
		text_add(text, "<script type=\"application/json\" id=report>\n");
		html_json(text, json);
		text_add(text, "</script>\n");
	}
	free(json);
	return err;
}

static int add_report(struct text *text, const struct profile *profile,
		      const struct analysis *analysis, const struct report_options *options,
		      const struct document *document)
{
	int err;

	add_head(text, analysis);
	for (size_t i = 0; i < document->blocks_count; i++)
		add_block(text, profile, &document->blocks[i]);
	text_add(text, "</main>\n");
	err = add_json(text, profile, analysis, options);
	text_add(text, "<script>");
	text_add_bytes(text, (const char *)report_js, sizeof(report_js));
	text_add(text, "</script>\n</html>\n");
	return err ? err : text->failed ? -ENOMEM : 0;
}

int report_write_html(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	const struct document_limits limits = {
		.findings = 50,
		.functions = options->top ? options->top : 20000,
		.callers = 20,
		.hotspots = options->top ? options->top : 500,
		.stacks = 20,
		.frames = 64,
		.threads = 500,
		.steps = PROFILE_STEPS_MAX,
		.processes = 20,
		.not_attached = 100,
		.charts = true,
	};
	struct document document = {0};
	struct text text = {0};
	int err;

	err = document_compose(&document, profile, analysis, options, &limits);
	if (!err)
		err = add_report(&text, profile, analysis, options, &document);
	if (!err && fwrite(text_peek(&text), 1, text.length, out) != text.length)
		err = errno ? -errno : -EIO;
	text_clear(&text);
	document_clear(&document);
	return err;
}
