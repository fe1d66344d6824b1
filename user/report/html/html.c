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
#include "base/escape.h"
#include "base/text.h"
#include "report/document/document.h"
#include "report/json/output.h"
#include "report/report.h"
#include "report_html.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 100

static const char argument_ends[] = {PROFILE_ARGUMENT_END, '\0'};

/* Longer words in a cell are broken, or cut in a wide table; the tooltip has all of them. */
#define WORDS_COLUMNS 12
/* A table of more columns needs all the room there is on 1,280 pixels. */
#define WIDE_COLUMNS 10

static void add_unmarked(struct text *text, const char *cell)
{
	struct text plain = {0};

	escape_unmarked(&plain, cell);
	escape_html(text, text_peek(&plain));
	text_finish(&plain, &text->failed);
}

static bool is_wide(const struct table *table)
{
	return table->columns_count > WIDE_COLUMNS;
}

static void add_tooltip(struct text *text, const char *cell)
{
	text_add(text, " title=\"");
	add_unmarked(text, cell);
	text_add(text, "\"");
}

static void add_cell(struct text *text, const struct table *table, size_t column,
		     char *const *cells)
{
	const struct column *c = &table->columns[column];
	const char *cell = cells ? cells[column] : NULL;

	if (c->hint && is_wide(table))
		return;
	text_add(text, cell ? "<td" : "<th scope=col");
	/* a wide table has no room for its hint column: the row's name has it as its tooltip */
	for (size_t i = 0; c->takes_rest && cell && is_wide(table) && i < table->columns_count; i++)
		if (table->columns[i].hint && strcmp(cells[i], "-") != 0)
			add_tooltip(text, cells[i]);
	if (c->right)
		text_add(text, " class=n");
	else if (c->takes_rest)
		text_add(text, " class=name");
	else if (cell) {
		struct text plain = {0};

		escape_unmarked(&plain, cell);
		if (utf8_width(text_peek(&plain)) > WORDS_COLUMNS) {
			text_add(text, " class=long");
			add_tooltip(text, cell);
		}
		text_finish(&plain, &text->failed);
	}
	text_add(text, ">");
	if (cell)
		escape_html_sentence(text, cell);
	else
		escape_html(text, c->title);
}

/* The name comes first: it stays visible when the numbers are scrolled. */
static void add_row(struct text *text, const struct table *table, char *const *cells)
{
	text_add(text, "<tr>");
	for (int first = 1; first >= 0; first--)
		for (size_t i = 0; i < table->columns_count; i++)
			if (table->columns[i].takes_rest == first)
				add_cell(text, table, i, cells);
	text_add(text, "\n");
}

static void add_table(struct text *text, const struct table *table)
{
	size_t cells = table->body_cells ? table->body_cells : table->cells_count;
	size_t rows = cells / table->columns_count;

	text_printf(text, "<div class=table><table%s><thead>\n",
		    is_wide(table) ? " class=wide" : "");
	add_row(text, table, NULL);
	text_add(text, "</thead><tbody>\n");
	for (size_t i = 0; i < rows; i++) {
		if (i == ROWS_SHOWN)
			text_add(text, "</tbody><template>\n");
		add_row(text, table, table->cells + i * table->columns_count);
	}
	text_add(text, rows > ROWS_SHOWN ? "</template>" : "</tbody>");
	if (table->body_cells) { /* rows that the script neither sorts nor counts */
		text_add(text, "<tfoot>\n");
		for (size_t i = cells; i < table->cells_count; i += table->columns_count)
			add_row(text, table, table->cells + i);
		text_add(text, "</tfoot>");
	}
	text_add(text, "</table></div>\n");
	if (rows > ROWS_SHOWN)
		text_printf(text, "<p class=note data-more>The first %d of %zu.</p>\n", ROWS_SHOWN,
			    rows);
}

static void add_finding(struct text *text, const struct block *block)
{
	const struct finding *finding = block->finding.of;
	const char *severity = finding_severity_name(finding->severity);

	text_printf(text, "<article class=\"finding %s\"><h3><span class=severity>%s</span> %s: ",
		    severity, severity, finding->kind);
	escape_html_sentence(text, block->text);
	text_printf(text, "%s</h3><p>", finding->partial ? " (partial)" : "");
	escape_html_sentence(text, block->finding.evidence);
	if (block->finding.gain[0]) {
		text_add(text, "; <b>");
		escape_html_sentence(text, block->finding.gain);
		text_add(text, "</b>");
	}
	text_add(text, " <span class=note>(threshold: ");
	escape_html_sentence(text, block->finding.threshold);
	text_add(text, ")</span></p><p>");
	escape_html_sentence(text, block->finding.suggestion);
	if (block->finding.look) {
		text_add(text, " <span class=note>(look at: ");
		escape_html_sentence(text, block->finding.look);
		text_add(text, ")</span>");
	}
	text_add(text, "</p></article>\n");
}

static void add_block(struct text *text, const struct profile *profile,
		      const struct document *document, size_t number)
{
	static const struct {
		const char *open, *close;
	} elements[] = {
		[BLOCK_VERDICT] = {"<h1>", "</h1>\n"},
		[BLOCK_WARNING] = {"<p class=warning role=note>", "</p>\n"},
		[BLOCK_HEADING] = {"<h2", "</h2>\n"}, /* the contents link to these IDs */
		[BLOCK_SECTION] = {"<h3", "</h3>\n"},
		[BLOCK_PARAGRAPH] = {"<p>", "</p>\n"},
		[BLOCK_CAPTION] = {"<h3>", "</h3>\n"},
		[BLOCK_NOTE] = {"<p class=note>", "</p>\n"},
		[BLOCK_FOLD] = {"<details><summary>", "</summary>\n"},
		[BLOCK_PLOT] = {"<pre>", "</pre>\n"},
	};
	const struct block *block = &document->blocks[number];

	if (block->kind == BLOCK_FINDING) {
		add_finding(text, block);
	} else if (block->kind == BLOCK_TABLE) {
		add_table(text, &block->table);
	} else if (block->kind == BLOCK_UNFOLD) {
		text_add(text, "</details>\n");
	} else if (block->kind == BLOCK_CHART) {
		html_chart(text, profile, &block->chart);
	} else if (block->figure) {
		text_add(text, block->figure);
	} else {
		bool linked = block->kind == BLOCK_HEADING || block->kind == BLOCK_SECTION;

		text_add(text, elements[block->kind].open);
		if (linked)
			text_printf(text, " id=s%zu>", number);
		escape_html_sentence(text, block->text);
		text_add(text, elements[block->kind].close);
	}
}

/* A page of fewer headings needs no contents. */
#define CONTENTS_MIN 4

/* Headings, each with its sections beside it, without folded ones. */
static size_t add_entries(struct text *text, const struct document *document)
{
	size_t depth = 0, count = 0;
	bool open = false;

	for (size_t i = 0; i < document->blocks_count; i++) {
		const struct block *block = &document->blocks[i];

		depth += block->kind == BLOCK_FOLD;
		depth -= block->kind == BLOCK_UNFOLD;
		if (depth || (block->kind != BLOCK_HEADING && block->kind != BLOCK_SECTION))
			continue;
		if (block->kind == BLOCK_HEADING || !open)
			text_add(text, "<li>");
		text_printf(text, "<a href=#s%zu>", i);
		escape_html_sentence(text, block->text);
		text_add(text, "</a>\n");
		open = true;
		count++;
	}
	return count;
}

#define TITLE_WORD_COLUMNS 24

/* A word of a command line, without its folder. */
static void add_title_word(struct text *title, const char *word, size_t length)
{
	struct text whole = {0};

	text_add_bytes(&whole, word, length);
	utf8_shorten(title, base_name(text_peek(&whole)), TITLE_WORD_COLUMNS);
	text_finish(&whole, &title->failed);
}

/* "python3 train.py 4711 · perfx-trace": the program, the first argument that is no option */
static void add_title(struct text *title, const struct profile *profile)
{
	const struct profile_process *p;
	const char *argument;
	size_t length;

	if (!profile->processes_count) {
		text_add(title, "perfx-trace");
		return;
	}
	p = profile->processes; /* the one with most traced time */
	for (size_t i = 1; i < profile->processes_count; i++)
		if (profile->processes[i].self_ns > p->self_ns)
			p = &profile->processes[i];
	length = strcspn(p->cmdline, argument_ends);
	argument = p->cmdline + length;
	if (length)
		add_title_word(title, p->cmdline, length);
	else
		add_title_word(title, p->comm, strlen(p->comm));
	argument += *argument != '\0';
	length = strcspn(argument, argument_ends);
	if (length && *argument != '-') {
		text_add(title, " ");
		add_title_word(title, argument, length);
	}
	text_printf(title, " %u", p->pid);
	if (profile->processes_count > 1)
		text_printf(title, " and %zu more", profile->processes_count - 1);
	text_add(title, " · perfx-trace");
}

/* profile: NULL where no block is a chart. */
static void add_page(struct text *text, const char *title, const struct profile *profile,
		     const struct document *document, const char *json)
{
	struct text shown = {0};

	escape_display(&shown, title);
	text_add(text, "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n"
		       "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
		       "style-src '" report_css_hash "'; script-src '" report_js_hash
		       "'; base-uri 'none'; form-action 'none'\">\n"
		       "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=color-scheme content=\"light dark\">\n"
		       "<meta name=generator content=perfx-trace>\n<title>");
	escape_html(text, text_peek(&shown));
	text_add(text, "</title>\n<style>");
	text_add_bytes(text, (const char *)report_css, sizeof(report_css));
	text_add(text, "</style>\n<main>\n");
	text_finish(&shown, &text->failed);
	for (size_t i = 0; i < document->blocks_count; i++) {
		add_block(text, profile, document, i);
		if (document->blocks[i].kind == BLOCK_VERDICT) {
			struct text entries = {0};

			if (add_entries(&entries, document) >= CONTENTS_MIN)
				text_printf(text,
					    "<nav class=contents "
					    "aria-label=Contents><ul>\n%s</ul></nav>\n",
					    text_peek(&entries));
			text_finish(&entries, &text->failed);
		}
	}
	text_add(text, "</main>\n<script type=\"application/json\" id=report>\n");
	html_json(text, json);
	text_add(text, "</script>\n<script>");
	text_add_bytes(text, (const char *)report_js, sizeof(report_js));
	text_add(text, "</script>\n</html>\n");
}

int document_write_html(FILE *out, const struct document *document, const char *title,
			const char *json)
{
	struct text page = {0};
	int err;

	add_page(&page, title, NULL, document, json);
	err = text_write(&page, out);
	text_clear(&page);
	return err;
}

int report_write_html(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	const struct document_limits limits = {
		.groups = true,
		.findings = 50,
		.functions = options->top ? options->top : 20000,
		.callers = 20,
		.hotspots = options->top ? options->top : 500,
		.stacks = 20,
		.frames = 64,
		.lines = 5000,
		.sources = true,
		.waits = 500,
		.threads = 500,
		.steps = PROFILE_STEPS_MAX,
		.processes = 20,
		.not_attached = 100,
		.charts = true,
	};
	struct text page = {0}, title = {0};
	struct document document = {0};
	char *json = NULL;
	size_t size;
	int err = document_compose(&document, profile, analysis, options, &limits);

	if (!err)
		err = report_json_text(&json, &size, profile, analysis, options);
	if (!err) {
		add_title(&title, profile);
		add_page(&page, text_peek(&title), profile, &document, json);
		page.failed |= title.failed;
		err = text_write(&page, out);
	}
	text_clear(&page);
	text_clear(&title);
	free(json);
	document_clear(&document);
	return err;
}
