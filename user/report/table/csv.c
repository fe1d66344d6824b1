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

/* A spreadsheet would compute a text that begins so; the wide forms too, in some languages, and
 * behind spaces. */
static bool is_formula(const char *text)
{
	static const char *const wide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
					   "\xef\xbc\xa0", NULL};

	text += strspn(text, " ");
	if (*text && strchr("=+-@", *text))
		return true;
	return text_begins_with_one_of(text, wide);
}

/* Adds a field of text without control characters: the separator, quotes and what trimming would
 * change are quoted. */
void csv_add_field(struct text *line, const char *text, char separator)
{
	const char special[] = {separator, '"', '\0'};
	size_t length = strlen(text);
	bool formula = is_formula(text);
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

static int write_line(FILE *out, struct text *line, char separator)
{
	int err;

	text_add(line, separator == ',' ? "\r\n" : "\n");
	err = text_write(line, out);
	line->length = 0;
	return err;
}

static int write_header(FILE *out, const struct data_table_kind *kind, char separator,
			struct text *line)
{
	const struct data_table_column *column = kind->columns;

	for (; (column = data_table_csv_column(kind, column)); column++) {
		text_add_bytes(line, &separator, column > kind->columns);
		text_add(line, column->name);
	}
	return write_line(out, line, separator);
}

static int write_row(FILE *out, struct data_table *table, const struct data_table_row *row,
		     char separator, struct text *line)
{
	const struct data_table_column *column = table->kind->columns;

	for (; (column = data_table_csv_column(table->kind, column)); column++) {
		struct value value = data_table_value(table, row, column);

		text_add_bytes(line, &separator, column > table->kind->columns);
		add_value(line, &value, separator);
	}
	line->failed |= table->made.failed;
	return write_line(out, line, separator);
}

static int write_rows(FILE *out, struct data_table *table, const struct report_options *options,
		      char separator, struct text *line)
{
	size_t count = table->rows_count;
	int err = options->no_header ? 0 : write_header(out, table->kind, separator, line);

	if (options->top && options->top < count)
		count = options->top;
	for (size_t i = 0; i < count && !err; i++)
		err = write_row(out, table, &table->rows[i], separator, line);
	return err;
}

static int write_table(FILE *out, const struct profile *profile, const struct analysis *analysis,
		       const struct report_options *options, char separator)
{
	const struct data_table_kind *kind =
		data_table_kind_named(options->table ? options->table : "functions");
	const char *order = options->sort ? options->sort : kind ? kind->order : NULL;
	struct data_table table = {0};
	struct text line = {0};
	int err;

	if (!kind || (order && !data_table_column_named(kind, order)))
		return -EINVAL;
	err = data_table_fill(&table, kind, profile, analysis);
	if (!err && order)
		err = data_table_sort(&table, data_table_column_named(kind, order));
	if (!err)
		err = write_rows(out, &table, options, separator, &line);
	text_clear(&line);
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
