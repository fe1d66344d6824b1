// SPDX-License-Identifier: BSD-2-Clause
/*
 *     DataBound: steps wait for the next batch.
 *
 *     Judges
 *       The time of the steps in the DataLoader's next batch. …
 *     Thresholds
 *       DataBound.medium = 10%   time that waits for the next batch, of the step time
 *     Try
 *       Prepare batches in more processes and further ahead …
 *           DataLoader(data, num_workers=4)
 *     Then look at
 *       Steps: the phase data; the workers' sections.
 */
#include "report/report.h"

#include <string.h>

#define WIDTH	    80
#define INDENT	    2
#define CODE_INDENT 4
#define KIND_COLUMN 24

/* "a = 1;\nb" as lines, each behind so many spaces. */
static void add_code(struct text *into, const char *lines, int indent)
{
	while (lines && *lines) {
		int length = (int)strcspn(lines, "\n");

		text_printf(into, "%*s%.*s\n", indent, "", length, lines);
		lines += length + (lines[length] == '\n');
	}
}

static const struct threshold_row *next_of(const char *kind, const struct threshold_row *row)
{
	for (row = row ? row + 1 : threshold_rows; row < threshold_rows + threshold_rows_count;
	     row++)
		if (!strcmp(row->kind, kind))
			return row;
	return NULL;
}

/* Without the backticks around code. */
static void add_paragraph(struct text *into, size_t column, size_t left, const char *sentences)
{
	struct text plain = {0};

	for (const char *c = sentences; *c; c++)
		if (*c != '`')
			text_add_bytes(&plain, c, 1);
	text_add_wrapped(into, column, left, WIDTH, text_peek(&plain));
	text_clear(&plain);
}

static size_t width_of(const struct threshold_row *row, const struct thresholds *thresholds)
{
	struct text setting = {0};
	size_t width;

	threshold_add(&setting, row, thresholds);
	width = setting.length;
	text_clear(&setting);
	return width;
}

/* What they mean is in one column. */
static void add_thresholds(struct text *into, const struct thresholds *thresholds, const char *kind)
{
	const struct threshold_row *row = NULL;
	size_t widest = 0, start;

	while ((row = next_of(kind, row)))
		if (width_of(row, thresholds) > widest)
			widest = width_of(row, thresholds);
	while ((row = next_of(kind, row))) {
		start = into->length;
		text_printf(into, "%*s", INDENT, "");
		threshold_add(into, row, thresholds);
		add_paragraph(into, into->length - start, INDENT + widest + 2, row->meaning);
	}
}

void explain_kind(struct text *into, const struct finding_kind *kind,
		  const struct thresholds *thresholds)
{
	struct text title = {0};

	text_printf(&title, "%s: %s", kind->kind, kind->says);
	add_paragraph(into, 0, 0, text_peek(&title));
	text_clear(&title);
	text_add(into, "\nJudges\n");
	add_paragraph(into, 0, INDENT, kind->judges);
	if (next_of(kind->kind, NULL))
		text_add(into, "\nThresholds (a file for --rules can change them)\n");
	add_thresholds(into, thresholds, kind->kind);
	text_add(into, "\nTry\n");
	add_paragraph(into, 0, INDENT, kind->remedy);
	add_code(into, kind->example, CODE_INDENT);
	text_add(into, "\nThen look at\n");
	add_paragraph(into, 0, INDENT, kind->look);
}

void explain_all(struct text *into, const struct thresholds *thresholds)
{
	for (size_t i = 0; i < finding_kinds_count; i++) {
		text_add(into, finding_kinds[i].kind);
		add_paragraph(into, strlen(finding_kinds[i].kind), KIND_COLUMN,
			      finding_kinds[i].says);
	}
	text_add(into, "\nThresholds of several kinds\n");
	add_thresholds(into, thresholds, "All");
	text_add(into, "\nperfx-trace explain KIND: how it is judged, and what to try\n");
}
