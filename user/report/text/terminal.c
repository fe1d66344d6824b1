// SPDX-License-Identifier: BSD-2-Clause
/*
 * The terminal: as wide as it is, 80 columns at least of sense.
 *
 *     trainer (pid 4242) spent 62.0 % of 10.0 s in gemm (12,345 calls of 502 µs).
 *
 *     FINDINGS
 *     HIGH    SlowOperation  gemm
 *             self time 6.20 s, 62.0 % of the wall time, in 12,345 calls of 502 µs on average
 *             Start here: …
 *
 *     trainer (pid 4242)
 *     Self %     Self   Calls     Avg     p99  Function
 *     62.0 %   6.20 s  12,345  502 µs  611 µs  gemm
 */
#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"
#include "report/document/document.h"
#include "report/report.h"

#include <ctype.h>
#include <string.h>

#define WIDTH_MIN 40
#define GAP	  2 /* columns between a table's columns */
/* A table's last resort for its name column; how wide it becomes before other columns are shown. */
#define NAME_MIN  12
#define NAME_GOOD 32

struct layout {
	struct text out;
	bool color;
	unsigned width;
};

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_YELLOW, STYLE_CYAN };

static void style_on(struct layout *l, enum style style)
{
	static const char *const codes[] = {"",		  "\x1b[1m",	"\x1b[2m",
					    "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m"};

	if (l->color)
		text_add(&l->out, codes[style]);
}

static void style_off(struct layout *l, enum style style)
{
	if (l->color && style != STYLE_PLAIN)
		text_add(&l->out, "\x1b[0m");
}

static void add_spaces(struct layout *l, unsigned count)
{
	while (count--)
		text_add(&l->out, " ");
}

/* Adds words from the column `indent`, where the cursor is, and breaks lines there; what is longer
 * than a line is cut. */
static void add_words(struct layout *l, enum style style, unsigned indent, const char *sentence)
{
	unsigned room = l->width - indent, used = 0, width;
	struct text plain = {0}, word = {0};
	const char *p;

	escape_unmarked(&plain, sentence);
	style_on(l, style);
	for (p = text_peek(&plain); *p; p += *p == ' ') {
		size_t fits;

		text_add_bytes(&word, p, strcspn(p, " "));
		width = utf8_width(text_peek(&word));
		if (used && used + 1 + width > room) {
			text_add(&l->out, "\n");
			add_spaces(l, indent);
			used = 0;
		} else if (used) {
			text_add(&l->out, " ");
			used++;
		}
		fits = utf8_fit(text_peek(&word), room, &width);
		text_add_bytes(&l->out, p, fits);
		text_finish(&word, &l->out.failed);
		used += width;
		p += fits;
	}
	style_off(l, style);
	text_add(&l->out, "\n");
	text_finish(&plain, &l->out.failed);
}

static void add_line(struct layout *l, enum style style, unsigned indent, const char *lead,
		     const char *sentence)
{
	struct text text = {0};

	text_printf(&text, "%s%s", lead, sentence);
	add_spaces(l, indent);
	add_words(l, style, indent, text_peek(&text));
	text_finish(&text, &l->out.failed);
}

/* Wide enough for the longest severity. */
#define FINDING_INDENT 8

static void add_finding(struct layout *l, const struct block *block)
{
	static const enum style styles[] = {[FINDING_HIGH] = STYLE_RED,
					    [FINDING_MEDIUM] = STYLE_YELLOW,
					    [FINDING_LOW] = STYLE_CYAN};
	const struct finding *finding = block->finding.of;
	const char *severity = finding_severity_name(finding->severity);
	struct text head = {0};

	style_on(l, styles[finding->severity]);
	for (const char *p = severity; *p; p++)
		text_printf(&l->out, "%c", toupper((unsigned char)*p));
	style_off(l, styles[finding->severity]);
	add_spaces(l, FINDING_INDENT - (unsigned)strlen(severity));

	text_printf(&head, "%s%s: %s", finding->kind, finding->partial ? " (partial)" : "",
		    block->text);
	add_words(l, STYLE_BOLD, FINDING_INDENT, text_peek(&head));
	text_finish(&head, &l->out.failed);
	add_line(l, STYLE_PLAIN, FINDING_INDENT, "", block->finding.evidence);
	if (block->finding.gain[0])
		add_line(l, STYLE_PLAIN, FINDING_INDENT, "", block->finding.gain);
	if (block->finding.threshold)
		add_line(l, STYLE_DIM, FINDING_INDENT, "threshold: ", block->finding.threshold);
	add_line(l, STYLE_PLAIN, FINDING_INDENT, "advice: ", block->finding.suggestion);
	if (block->finding.look)
		add_line(l, STYLE_DIM, FINDING_INDENT, "look at: ", block->finding.look);
}

#define COLUMNS_MAX 32 /* bits of struct table.shown */

struct widths {
	unsigned natural[COLUMNS_MAX];
	unsigned shown[COLUMNS_MAX]; /* 0: left out */
};

static unsigned total_width(const struct table *table, const struct widths *w)
{
	unsigned total = 0;

	for (size_t i = 0; i < table->columns_count; i++)
		total += w->shown[i] ? w->shown[i] + GAP : 0;
	return total ? total - GAP : 0;
}

/* Adds columns by rank as long as the names keep a good width, then gives them what is left. */
static void choose_widths(const struct table *table, unsigned room, struct widths *w)
{
	size_t rest = 0;
	unsigned good, total;

	while (rest + 1 < table->columns_count && !table->columns[rest].takes_rest)
		rest++;
	good = w->natural[rest] < NAME_GOOD ? w->natural[rest] : NAME_GOOD;
	w->shown[rest] = good;
	for (unsigned rank = 0; rank <= COLUMNS_MAX; rank++) {
		for (size_t i = 0; i < table->columns_count; i++) {
			if (i == rest || table->columns[i].rank != rank)
				continue;
			w->shown[i] = w->natural[i];
			if (rank && total_width(table, w) > room)
				w->shown[i] = 0;
		}
	}
	total = total_width(table, w);
	if (total < room)
		w->shown[rest] += room - total;
	else if (total - room + NAME_MIN <= w->shown[rest])
		w->shown[rest] -= total - room;
	else if (w->shown[rest] > NAME_MIN)
		w->shown[rest] = NAME_MIN;
	if (w->shown[rest] > w->natural[rest])
		w->shown[rest] = w->natural[rest];
}

static void add_cell(struct layout *l, const struct column *column, const char *cell,
		     unsigned width, bool last)
{
	struct text plain = {0}, fitted = {0};
	unsigned pad;

	escape_unmarked(&plain, cell);
	if (column->cut_end)
		utf8_cut(&fitted, text_peek(&plain), width);
	else
		utf8_shorten(&fitted, text_peek(&plain), width);
	pad = width - utf8_width(text_peek(&fitted));
	if (column->right)
		add_spaces(l, pad);
	text_add(&l->out, text_peek(&fitted));
	if (!column->right && !last)
		add_spaces(l, pad);
	text_finish(&plain, &l->out.failed);
	text_finish(&fitted, &l->out.failed);
}

static void add_row(struct layout *l, const struct table *table, const struct widths *w,
		    char *const *cells)
{
	size_t last = table->columns_count - 1;
	bool first = true;

	while (last && !w->shown[last])
		last--;
	for (size_t i = 0; i <= last; i++) {
		if (!w->shown[i])
			continue;
		if (!first)
			add_spaces(l, GAP);
		first = false;
		add_cell(l, &table->columns[i], cells ? cells[i] : table->columns[i].title,
			 w->shown[i], i == last);
	}
}

static void add_table(struct layout *l, const struct table *table)
{
	struct widths w = {0};

	for (size_t i = 0; i < table->columns_count; i++)
		w.natural[i] = utf8_width(table->columns[i].title);
	for (size_t i = 0; i < table->cells_count; i++) {
		unsigned *natural = &w.natural[i % table->columns_count], width;
		struct text plain = {0};

		escape_unmarked(&plain, table->cells[i]);
		width = utf8_width(text_peek(&plain));
		*natural = width > *natural ? width : *natural;
		text_finish(&plain, &l->out.failed);
	}
	choose_widths(table, l->width, &w);
	style_on(l, STYLE_DIM);
	add_row(l, table, &w, NULL);
	style_off(l, STYLE_DIM);
	text_add(&l->out, "\n");
	for (size_t i = 0; i + table->columns_count <= table->cells_count;
	     i += table->columns_count) {
		add_row(l, table, &w, table->cells + i);
		text_add(&l->out, "\n");
	}
}

static void add_block(struct layout *l, const struct block *block)
{
	static const enum style styles[] = {
		[BLOCK_VERDICT] = STYLE_BOLD,	 [BLOCK_WARNING] = STYLE_YELLOW,
		[BLOCK_HEADING] = STYLE_CYAN,	 [BLOCK_FOLD] = STYLE_BOLD,
		[BLOCK_PARAGRAPH] = STYLE_PLAIN, [BLOCK_CAPTION] = STYLE_PLAIN,
		[BLOCK_SECTION] = STYLE_BOLD,	 [BLOCK_NOTE] = STYLE_DIM,
	};

	if (block->kind == BLOCK_FINDING) {
		add_finding(l, block);
	} else if (block->kind == BLOCK_TABLE) {
		add_table(l, &block->table);
	} else if (block->kind == BLOCK_PLOT) {
		text_add(&l->out, block->text);
	} else if (block->kind != BLOCK_UNFOLD && block->kind != BLOCK_CHART) {
		if (block->kind == BLOCK_HEADING || block->kind == BLOCK_FOLD)
			text_add(&l->out, "\n");
		add_line(l, styles[block->kind], 0, "", block->text);
	}
}

/* A table and its caption stand apart from what is before, unless that is a title. */
static bool stands_apart(enum block_kind before, enum block_kind block)
{
	if (block != BLOCK_TABLE && block != BLOCK_CAPTION && block != BLOCK_SECTION)
		return before == BLOCK_TABLE && block == BLOCK_PARAGRAPH;
	return before != BLOCK_FOLD && before != BLOCK_CAPTION && before != BLOCK_SECTION;
}

/* Lines are broken: from here on a space is a space, also for grep, and where there is no UTF-8. */
static void widen_spaces(struct text *text)
{
	char *to = text->data, *from = text->data, *found;
	size_t size = strlen(NARROW_SPACE);

	while (from && (found = strstr(from, NARROW_SPACE))) {
		memmove(to, from, (size_t)(found - from));
		to += found - from;
		*to++ = ' ';
		from = found + size;
	}
	if (from) {
		memmove(to, from, strlen(from) + 1);
		text->length = (size_t)(to - text->data) + strlen(to);
	}
}

int document_write_text(FILE *out, const struct document *document, bool color, unsigned width)
{
	struct layout l = {.color = color, .width = width < WIDTH_MIN ? WIDTH_MIN : width};
	int err;

	for (size_t i = 0; i < document->blocks_count; i++) {
		if (i && stands_apart(document->blocks[i - 1].kind, document->blocks[i].kind))
			text_add(&l.out, "\n");
		add_block(&l, &document->blocks[i]);
	}
	widen_spaces(&l.out);
	err = text_write(&l.out, out);
	text_clear(&l.out);
	return err;
}

int report_write_text(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	const struct document_limits full = {
		.findings = 6,
		.functions = options->top ? options->top : 15,
		.callers = 3,
		.hotspots = options->top ? options->top : 8,
		.stacks = 3,
		.frames = 8,
		.lines = 10,
		.waits = 15,
		.threads = 8,
		.processes = 6,
		.not_attached = 10,
	};
	const struct document_limits brief = {
		.brief = true,
		.groups = true,
		.findings = 3,
		.functions = options->top ? options->top : 10,
		.lines = 10,
		.waits = 5,
		.processes = 3,
	};
	struct document_limits limits = options->full ? full : brief;
	unsigned width = options->width ? options->width : 80;
	struct document document = {0};
	int err;

	limits.plot_columns = width < WIDTH_MIN ? WIDTH_MIN : width;
	err = document_compose(&document, profile, analysis, options, &limits);
	if (!err)
		err = document_write_text(out, &document, options->color, width);
	document_clear(&document);
	return err;
}
