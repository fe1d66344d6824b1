// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/document.h"

#include "base/escape.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

static struct block *block_new(struct document *document, enum block_kind kind)
{
	struct block *block;

	if (GROW_BY_ONE(document->blocks)) {
		document->failed = true;
		return NULL;
	}
	block = &document->blocks[document->blocks_count++];
	*block = (struct block){.kind = kind};
	return block;
}

/* Numbers stay with their units, in all text formats. */
static char *join_lines(struct text *text)
{
	struct text joined = {.failed = text->failed};

	add_joined(&joined, text_peek(text));
	text_clear(text);
	return text_take(&joined);
}

void document_add(struct document *document, enum block_kind kind, struct text *text)
{
	struct block *block = block_new(document, kind);
	char *taken = join_lines(text);

	if (!block || !taken) {
		document->failed = true;
		free(taken);
		return;
	}
	block->text = taken;
}

void document_say(struct document *document, enum block_kind kind, const char *sentence)
{
	struct text text = {0};

	text_add(&text, sentence);
	document_add(document, kind, &text);
}

void document_printf(struct document *document, enum block_kind kind, const char *fmt, ...)
{
	struct text text = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(&text, fmt, ap);
	va_end(ap);
	document_add(document, kind, &text);
}

static char *copy_of(struct document *document, const char *sentence)
{
	struct text text = {0};
	char *copy;

	text_add(&text, sentence);
	copy = join_lines(&text);
	document->failed |= !copy;
	return copy;
}

void document_add_finding(struct document *document, const struct finding *finding,
			  struct text *subject, struct text *gain, bool with_details)
{
	struct block *block;

	document_add(document, BLOCK_FINDING, subject);
	if (document->failed) {
		text_clear(gain);
		return;
	}
	block = &document->blocks[document->blocks_count - 1];
	block->finding.of = finding;
	block->finding.evidence = copy_of(document, finding->evidence);
	block->finding.gain = join_lines(gain);
	document->failed |= !block->finding.gain;
	if (with_details) {
		block->finding.threshold = copy_of(document, finding->threshold);
		block->finding.look = finding->look[0] ? copy_of(document, finding->look) : NULL;
	}
	block->finding.suggestion = copy_of(document, finding->suggestion);
}

void document_add_chart(struct document *document, struct chart chart)
{
	struct block *block = block_new(document, BLOCK_CHART);

	if (block)
		block->chart = chart;
}

void document_add_plot(struct document *document, struct text *lines, struct text *figure)
{
	struct block *block = block_new(document, BLOCK_PLOT);
	char *text = text_take(lines), *element = text_take(figure);

	if (!block || !text || !element) {
		document->failed = true;
		free(text);
		free(element);
		return;
	}
	block->text = text;
	block->figure = element;
}

void document_add_table(struct document *document, const struct column *columns, size_t count,
			unsigned has)
{
	struct block *block = block_new(document, BLOCK_TABLE);
	struct column *shown = calloc(count, sizeof(*shown));

	if (!block || !shown) {
		document->failed = true;
		free(shown);
		return;
	}
	block->table.columns = shown;
	for (size_t i = 0; i < count; i++)
		if (!(columns[i].where & ~has))
			shown[block->table.columns_count++] = columns[i];
}

void document_cell(struct document *document, struct text *cell)
{
	struct table *table;
	char *taken = join_lines(cell);

	if (!taken || document->failed || !document->blocks_count)
		goto fail;
	table = &document->blocks[document->blocks_count - 1].table;
	if (GROW_BY_ONE(table->cells))
		goto fail;
	table->cells[table->cells_count++] = taken;
	return;
fail:
	document->failed = true;
	free(taken);
}

void document_foot(struct document *document)
{
	struct table *table;

	if (document->failed)
		return;
	table = &document->blocks[document->blocks_count - 1].table;
	table->body_cells = table->cells_count;
}

void document_cell_printf(struct document *document, const char *fmt, ...)
{
	struct text cell = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(&cell, fmt, ap);
	va_end(ap);
	document_cell(document, &cell);
}

void document_cell_ns(struct document *document, uint64_t ns)
{
	document_cell_printf(document, "%s", ns == PROFILE_ABSENT ? "-" : as_ns(ns));
}

void document_cell_count(struct document *document, uint64_t count)
{
	document_cell_printf(document, "%s", count == PROFILE_ABSENT ? "-" : as_count(count));
}

void document_cell_bytes(struct document *document, uint64_t bytes)
{
	document_cell_printf(document, "%s", bytes == PROFILE_ABSENT ? "-" : as_bytes(bytes));
}

void document_cell_share(struct document *document, uint64_t part, uint64_t whole)
{
	bool known = part != PROFILE_ABSENT && whole;

	document_cell_printf(document, "%s",
			     known ? as_percent((double)part / (double)whole) : "-");
}

void document_cell_threads_share(struct document *document, uint64_t ns, uint64_t wall_ns)
{
	bool known = ns != PROFILE_ABSENT && wall_ns;

	document_cell_printf(document, "%s", known ? as_share((double)ns / (double)wall_ns) : "-");
}

void document_cell_name(struct document *document, const char *name, unsigned columns)
{
	struct text cell = {0}, shortened = {0};

	utf8_shorten(&shortened, name[0] ? name : "?", columns ? columns : UINT_MAX);
	escape_name(&cell, text_peek(&shortened));
	text_finish(&shortened, &cell.failed);
	document_cell(document, &cell);
}

void document_clear(struct document *document)
{
	for (size_t i = 0; i < document->blocks_count; i++) {
		struct block *block = &document->blocks[i];

		for (size_t j = 0; j < block->table.cells_count; j++)
			free(block->table.cells[j]);
		free(block->table.cells);
		free(block->table.columns);
		free(block->finding.evidence);
		free(block->finding.gain);
		free(block->finding.look);
		free(block->finding.threshold);
		free(block->finding.suggestion);
		free(block->text);
		free(block->figure);
	}
	free(document->blocks);
	*document = (struct document){0};
}
