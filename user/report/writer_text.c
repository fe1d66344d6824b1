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
#include "report/writers.h"

#include "base/escape.h"
#include "base/utf8.h"
#include "report/document.h"
#include "report/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
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

/* Words into lines; what is longer than a line is cut into several. */
static void add_wrapped(struct layout *l, enum style style, unsigned indent, const char *sentence)
{
	struct text plain = {0};
	unsigned room = l->width - indent, used = 0, width;
	const char *word;

	escape_unmarked(&plain, sentence);
	word = text_peek(&plain);
	add_spaces(l, indent);
	style_on(l, style);
	while (*word) {
		size_t bytes = strcspn(word, " "), fits;
		struct text piece = {0};

		text_add_bytes(&piece, word, bytes);
		width = utf8_width(text_peek(&piece));
		if (used && used + 1 + width > room) {
			text_add(&l->out, "\n");
			add_spaces(l, indent);
			used = 0;
		} else if (used) {
			text_add(&l->out, " ");
			used++;
		}
		fits = utf8_fit(text_peek(&piece), room, &width);
		text_add_bytes(&l->out, word, fits);
		text_clear(&piece);
		used += width;
		word += fits;
		if (*word == ' ')
			word++;
	}
	style_off(l, style);
	text_add(&l->out, "\n");
	l->out.failed |= plain.failed;
	text_clear(&plain);
}

static enum style style_of(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_HIGH:
		return STYLE_RED;
	case FINDING_MEDIUM:
		return STYLE_YELLOW;
	case FINDING_LOW:
		return STYLE_CYAN;
	}
	return STYLE_PLAIN;
}

static void add_finding(struct layout *l, const struct finding *finding)
{
	const char *severity = name_of_severity(finding->severity);
	struct text head = {0};
	unsigned indent;

	style_on(l, style_of(finding->severity));
	for (const char *p = severity; *p; p++)
		text_printf(&l->out, "%c", toupper((unsigned char)*p));
	style_off(l, style_of(finding->severity));
	add_spaces(l, 8 - (unsigned)strlen(severity));

	text_printf(&head, "%s%s: %s", finding->kind, finding->partial ? " (partial)" : "",
		    finding->subject);
	indent = 8;
	/* the severity is there already: the first line goes on behind it */
	{
		struct layout rest = {.color = l->color, .width = l->width};

		add_wrapped(&rest, STYLE_BOLD, indent, text_peek(&head));
		if (rest.out.length > indent)
			text_add(&l->out, rest.out.data + indent);
		l->out.failed |= rest.out.failed || head.failed;
		text_clear(&rest.out);
	}
	text_clear(&head);
	add_wrapped(l, STYLE_PLAIN, indent, finding->evidence);
	add_wrapped(l, STYLE_DIM, indent, finding->threshold);
	add_wrapped(l, STYLE_PLAIN, indent, finding->suggestion);
}

/* --- tables --------------------------------------------------------------------------------- */

#define COLUMNS_MAX 16

struct widths {
	unsigned natural[COLUMNS_MAX];
	unsigned shown[COLUMNS_MAX]; /* 0: left out */
};

static unsigned cell_width(const char *cell)
{
	struct text plain = {0};
	unsigned width;

	escape_unmarked(&plain, cell);
	width = utf8_width(text_peek(&plain));
	text_clear(&plain);
	return width;
}

static void measure(const struct table *table, struct widths *w)
{
	for (size_t i = 0; i < table->columns_count; i++)
		w->natural[i] = utf8_width(table->columns[i].title);
	for (size_t i = 0; i < table->cells_count; i++) {
		unsigned width = cell_width(table->cells[i]);
		unsigned *natural = &w->natural[i % table->columns_count];

		if (width > *natural)
			*natural = width;
	}
}

static unsigned total_width(const struct table *table, const struct widths *w)
{
	unsigned total = 0;

	for (size_t i = 0; i < table->columns_count; i++)
		total += w->shown[i] ? w->shown[i] + GAP : 0;
	return total ? total - GAP : 0;
}

static size_t rest_column(const struct table *table)
{
	size_t i = 0;

	while (i + 1 < table->columns_count && !table->columns[i].takes_rest)
		i++;
	return i;
}

/* Adds columns by rank as long as the names keep a good width, then gives them what is left. */
static void choose_widths(const struct table *table, unsigned room, struct widths *w)
{
	size_t rest = rest_column(table);
	unsigned good = w->natural[rest] < NAME_GOOD ? w->natural[rest] : NAME_GOOD, total;

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
	utf8_shorten(&fitted, text_peek(&plain), width);
	pad = width - utf8_width(text_peek(&fitted));
	if (column->right)
		add_spaces(l, pad);
	text_add(&l->out, text_peek(&fitted));
	if (!column->right && !last)
		add_spaces(l, pad);
	l->out.failed |= plain.failed || fitted.failed;
	text_clear(&plain);
	text_clear(&fitted);
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

	measure(table, &w);
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
	switch (block->kind) {
	case BLOCK_VERDICT:
		add_wrapped(l, STYLE_BOLD, 0, block->text);
		break;
	case BLOCK_WARNING:
		add_wrapped(l, STYLE_YELLOW, 0, block->text);
		break;
	case BLOCK_HEADING:
		text_add(&l->out, "\n");
		add_wrapped(l, STYLE_CYAN, 0, block->text);
		break;
	case BLOCK_PARAGRAPH:
		add_wrapped(l, STYLE_PLAIN, 0, block->text);
		break;
	case BLOCK_NOTE:
		add_wrapped(l, STYLE_DIM, 0, block->text);
		break;
	case BLOCK_FINDING:
		add_finding(l, block->finding);
		break;
	case BLOCK_TABLE:
		add_table(l, &block->table);
		break;
	case BLOCK_FOLD:
		text_add(&l->out, "\n");
		add_wrapped(l, STYLE_BOLD, 0, block->text);
		break;
	case BLOCK_UNFOLD:
		break;
	}
}

int report_write_text(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	const struct document_limits limits = {
		.findings = 6,
		.functions = options->top ? options->top : 15,
		.callers = 3,
		.threads = 8,
		.processes = 6,
		.not_attached = 10,
	};
	struct layout l = {.color = options->color, .width = options->width ? options->width : 80};
	struct document document = {0};
	int err;

	if (l.width < WIDTH_MIN)
		l.width = WIDTH_MIN;
	err = document_compose(&document, profile, analysis, options, &limits);
	for (size_t i = 0; i < document.blocks_count && !err; i++)
		add_block(&l, &document.blocks[i]);
	if (!err && l.out.failed)
		err = -ENOMEM;
	if (!err && fwrite(text_peek(&l.out), 1, l.out.length, out) != l.out.length)
		err = errno ? -errno : -EIO;
	text_clear(&l.out);
	document_clear(&document);
	return err;
}
