// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/compose.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "decode/names.h"

#include <assert.h>
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

void document_add_any(struct document *document, enum block_kind kind, struct text *text)
{
	if (text->length)
		document_add(document, kind, text);
	else
		text_finish(text, &document->failed);
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
	block->table = (struct table){.columns = shown, .headings_count = count};
	for (size_t i = 0; i < count; i++) {
		if (columns[i].where & ~has)
			continue;
		block->table.shown |= 1u << i;
		shown[block->table.columns_count++] = columns[i];
	}
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

void document_add_row(struct document *document, const char *const *cells, size_t count)
{
	const struct table *table =
		document->failed ? NULL : &document->blocks[document->blocks_count - 1].table;

	assert(!table || count == table->headings_count);
	for (size_t i = 0; table && i < count; i++)
		if (table->shown & 1u << i)
			document_cell_printf(document, "%s", cells[i]);
	pool_clear(&document->cells);
}

const char *format_known(char buffer[UNITS_MAX], uint64_t value,
			 const char *(*format)(char *buffer, uint64_t value))
{
	return value == PROFILE_ABSENT ? "-" : format(buffer, value);
}

const char *format_part(char buffer[UNITS_MAX], uint64_t part, uint64_t whole,
			const char *(*format)(char *buffer, double share))
{
	return part == PROFILE_ABSENT || !whole ? "-"
						: format(buffer, (double)part / (double)whole);
}

const char *format_flops(char buffer[UNITS_MAX], const struct profile_cost *cost)
{
	return cost->counted_count ? format_si(buffer, (double)cost->flops, "") : "-";
}

const char *format_gflops(char buffer[UNITS_MAX], double flops_per_s)
{
	double rate = flops_per_s / 1e9;

	if (!(rate >= 0))
		return "-";
	if (rate > 0 && rate < 0.005)
		return "<0.01";
	snprintf(buffer, UNITS_MAX, "%.*f", rate < 9.995 ? 2 : rate < 99.95, rate);
	return buffer;
}

const char *document_words(struct document *document, struct text *text)
{
	const char *kept = text->failed ? NULL : pool_add(&document->cells, text_peek(text));

	document->failed |= !kept;
	text_clear(text);
	return kept ?: "";
}

const char *document_format(struct document *document, const char *fmt, ...)
{
	struct text text = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(&text, fmt, ap);
	va_end(ap);
	return document_words(document, &text);
}

void add_marked(struct text *text, const char *before, const char *name, const char *after)
{
	if (!name || !*name)
		return;
	text_add(text, before);
	escape_name(text, name);
	text_add(text, after);
}

const char *document_name(struct document *document, const char *name, unsigned columns)
{
	struct text cell = {0}, shortened = {0};

	utf8_shorten(&shortened, name[0] ? name : "?", columns ? columns : UINT_MAX);
	escape_name(&cell, text_peek(&shortened));
	text_finish(&shortened, &cell.failed);
	return document_words(document, &cell);
}

const char *document_frame(struct document *document, const struct profile_frame *frame,
			   unsigned columns)
{
	struct text name = {0};
	const char *kept;

	if (frame)
		location_frame(&name, frame, LOCATION_BRIEF);
	kept = document_name(document, frame ? text_peek(&name) : "-", columns);
	text_finish(&name, &document->failed);
	return kept;
}

const char *document_module(struct document *document, const struct profile_function *function,
			    unsigned columns)
{
	if (function && (function->flags & PERFX_FUNCTION_RANGE))
		return document_format(document, "(%s range)", name_of_source(function->source));
	return document_name(document, function ? function->module_base : "?", columns);
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
	pool_clear(&document->cells);
	*document = (struct document){0};
}
