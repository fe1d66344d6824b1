// SPDX-License-Identifier: BSD-2-Clause
/*
 * CSV (RFC 4180) and TSV: one table a file, for spreadsheets and pandas. What was not measured is
 * empty. Lines end in CR LF in CSV, as the RFC has it, and in LF in TSV, which is for pipes.
 *
 *     pid,comm,name,module,…
 *     4242,trainer,"std::map<int, int>::at",trainer,…
 */
#include "base/escape.h"
#include "base/text.h"
#include "report/report.h"
#include "report/table/table.h"

#include <errno.h>
#include <string.h>

/* Adds a field of text without control characters: the separator, quotes and what trimming would
 * change are quoted. */
void csv_add_field(struct text *line, const char *text, char separator)
{
	/* a spreadsheet would compute a text that begins so; the wide forms too, in some
	 * languages, and behind spaces */
	static const char *const formulas[] = {
		"=", "+", "-", "@", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0",
		NULL};
	const char special[] = {separator, '"', '\0'};
	size_t length = strlen(text);
	bool formula = text_begins_with_one_of(text + strspn(text, " "), formulas);
	bool quoted =
		strpbrk(text, special) || text[0] == ' ' || (length && text[length - 1] == ' ');

	text_printf(line, "%s%s", quoted ? "\"" : "", formula ? "'" : "");
	for (const char *p = text; *p; p++)
		text_add_bytes(line, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
	text_add(line, quoted ? "\"" : "");
}

static void add_value(struct text *line, const struct value *value, char separator)
{
	struct text plain = {0};

	switch (value->kind) {
	case VALUE_ABSENT:
	case VALUE_JSON:
		return;
	case VALUE_INTEGER:
		text_printf(line, "%llu", (unsigned long long)value->integer);
		return;
	case VALUE_REAL:
		text_printf(line, "%.9g", value->real);
		return;
	case VALUE_FLAG:
		text_add(line, value->integer ? "true" : "false");
		return;
	case VALUE_RANK:
		text_add(line, value->text);
		return;
	case VALUE_TEXT: /* an empty field would be "not measured" */
		escape_display(&plain, value->text[0] ? value->text : "?");
		break;
	case VALUE_SENTENCE:
		escape_unmarked(&plain, value->text);
		break;
	}
	csv_add_field(line, text_peek(&plain), separator);
	text_finish(&plain, &line->failed);
}

/* A row, or the columns' names: NULL. */
static int write_line(FILE *out, struct data_table *table, const struct data_table_row *row,
		      char separator)
{
	const struct data_table_column *first =
		data_table_csv_column(table->kind, table->kind->columns);
	const struct data_table_column *column = first;
	struct text line = {0};
	int err;

	for (; (column = data_table_csv_column(table->kind, column)); column++) {
		text_add_bytes(&line, &separator, column > first);
		if (row) {
			struct value value = data_table_value(table, row, column);

			add_value(&line, &value, separator);
		} else {
			text_add(&line, column->name);
		}
	}
	text_add(&line, separator == ',' ? "\r\n" : "\n");
	line.failed |= table->made.failed;
	err = text_write(&line, out);
	text_clear(&line);
	return err;
}

static int write_table(FILE *out, const struct profile *profile, const struct analysis *analysis,
		       const struct report_options *options, char separator)
{
	const struct data_table_kind *kind =
		data_table_kind_named(options->table ? options->table : "functions");
	const char *order = options->sort ? options->sort : kind ? kind->order : NULL;
	struct data_table table = {0};
	int err;

	if (!kind || (order && !data_table_column_named(kind, order)))
		return -EINVAL;
	err = data_table_fill(&table, kind, profile, analysis);
	if (!err && order)
		err = data_table_sort(&table, data_table_column_named(kind, order));
	if (!err && !options->no_header)
		err = write_line(out, &table, NULL, separator);
	for (size_t i = 0; i < table.rows_count && (!options->top || i < options->top) && !err; i++)
		err = write_line(out, &table, &table.rows[i], separator);
	data_table_clear(&table);
	return err;
}

int report_write_csv(FILE *out, const struct profile *profile, const struct analysis *analysis,
		     const struct report_options *options)
{
	return write_table(out, profile, analysis, options, ',');
}

int report_write_tsv(FILE *out, const struct profile *profile, const struct analysis *analysis,
		     const struct report_options *options)
{
	return write_table(out, profile, analysis, options, '\t');
}
