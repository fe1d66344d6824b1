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

/* The thresholds of a kind, or "All"; their meanings are in one column. */
static void add_thresholds(struct text *into, const struct thresholds *thresholds, const char *kind)
{
	size_t widest = 0, start;

	for (size_t i = 0; i < threshold_rows_count; i++) {
		struct text setting = {0};

		if (strcmp(threshold_rows[i].kind, kind) != 0)
			continue;
		threshold_add(&setting, &threshold_rows[i], thresholds);
		widest = setting.length > widest ? setting.length : widest;
		text_clear(&setting);
	}
	for (size_t i = 0; i < threshold_rows_count; i++) {
		if (strcmp(threshold_rows[i].kind, kind) != 0)
			continue;
		start = into->length;
		text_printf(into, "%*s", INDENT, "");
		threshold_add(into, &threshold_rows[i], thresholds);
		add_paragraph(into, into->length - start, INDENT + widest + 2,
			      threshold_rows[i].meaning);
	}
}

void explain_kind(struct text *into, const struct finding_kind *kind,
		  const struct thresholds *thresholds)
{
	struct text title = {0};
	bool has_thresholds = false;

	for (size_t i = 0; i < threshold_rows_count; i++)
		has_thresholds |= !strcmp(threshold_rows[i].kind, kind->kind);
	text_printf(&title, "%s: %s", kind->kind, kind->says);
	add_paragraph(into, 0, 0, text_peek(&title));
	text_clear(&title);
	text_add(into, "\nJudges\n");
	add_paragraph(into, 0, INDENT, kind->judges);
	if (has_thresholds)
		text_add(into, "\nThresholds (a file for --rules can change them)\n");
	add_thresholds(into, thresholds, kind->kind);
	text_add(into, "\nTry\n");
	add_paragraph(into, 0, INDENT, kind->remedy);
	for (const char *line = kind->example; line && *line;) {
		int length = (int)strcspn(line, "\n");

		text_printf(into, "%*s%.*s\n", CODE_INDENT, "", length, line);
		line += length + (line[length] == '\n');
	}
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
