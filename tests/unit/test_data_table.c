// SPDX-License-Identifier: BSD-2-Clause
#include "report/table/table.h"

#include "base/file.h"
#include "golden_cases.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* A replayed case and what is judged of it. */
struct scene {
	struct stream stream;
	struct aggregate *aggregate;
	const struct profile *profile;
	struct analysis *analysis;
};

static void scene_build(struct scene *scene, void (*build)(struct stream *))
{
	*scene = (struct scene){.aggregate = aggregate__new()};
	build(&scene->stream);
	cr_assert_eq(stream_replay(&scene->stream, scene->aggregate), 0);
	scene->profile = aggregate__finish(scene->aggregate);
	scene->analysis = analyze(scene->profile, NULL);
	cr_assert_not_null(scene->analysis);
}

static void scene_clear(struct scene *scene)
{
	analysis__free(scene->analysis);
	aggregate__free(scene->aggregate);
	stream_clear(&scene->stream);
}

static char *report_of(const struct scene *scene, const char *format,
		       const struct report_options *options)
{
	char *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	cr_assert_eq(report_writer_named(format)->write(out, scene->profile, scene->analysis,
							options),
		     0);
	fclose(out);
	return report;
}

/* A name that would be a formula, or change the table, in a spreadsheet. */
static void named(struct stream *s, const char *name)
{
	stream_host(s);
	stream_process(s, 1, 42, "p", "p");
	stream_function(s, 1, name, "m", PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, 1, 1);
	stream_call(s, 1, 42, 0, 5, 5, 0);
	stream_end(s, 1 * S, 0);
}

Test(csv, fields)
{
	static const struct {
		const char *name, *csv, *tsv;
	} rows[] = {
		{"plain", "plain", "plain"},
		{"a,b", "\"a,b\"", "a,b"},
		{"say \"hi\"", "\"say \"\"hi\"\"\"", "\"say \"\"hi\"\"\""},
		{"=1+1", "'=1+1", "'=1+1"},
		{"+x", "'+x", "'+x"},
		{"-x", "'-x", "'-x"},
		{"@x", "'@x", "'@x"},
		{"  =x", "\"'  =x\"", "\"'  =x\""},
		{"=\"a\",b", "\"'=\"\"a\"\",b\"", "\"'=\"\"a\"\",b\""},
		{"\xef\xbc\x9dx", "'\xef\xbc\x9dx", "'\xef\xbc\x9dx"},
		{"\t=x", "\\x09=x", "\\x09=x"},
		{"a\r\nb", "a\\x0d\\x0ab", "a\\x0d\\x0ab"},
		{"operator-", "operator-", "operator-"},
		{" x ", "\" x \"", "\" x \""},
		{"", "?", "?"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int tabs = 0; tabs < 2; tabs++) {
			const struct report_options options = {.no_header = true};
			struct scene scene = {.aggregate = aggregate__new()};
			const char *want = tabs ? rows[i].tsv : rows[i].csv;
			char beginning[128], *report;

			named(&scene.stream, rows[i].name);
			cr_assert_eq(stream_replay(&scene.stream, scene.aggregate), 0);
			scene.profile = aggregate__finish(scene.aggregate);
			report = report_of(&scene, tabs ? "tsv" : "csv", &options);
			snprintf(beginning, sizeof(beginning),
				 tabs ? "42\tp\t%s\tm\t" : "42,p,%s,m,", want);
			cr_expect_eq(strncmp(report, beginning, strlen(beginning)), 0, "%s: %s",
				     beginning, report);
			free(report);
			scene_clear(&scene);
		}
	}
}

static size_t csv_columns_count(const struct data_table_kind *kind)
{
	const struct data_table_column *column = kind->columns;
	size_t count = 0;

	for (; (column = data_table_csv_column(kind, column)); column++)
		count++;
	return count;
}

/* As many fields in every line of every table as the header has, whatever the names. */
Test(csv, rectangular)
{
	char names[128], *rest, *name;

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		struct scene scene;

		scene_build(&scene, golden_cases[i].build);
		snprintf(names, sizeof(names), "%s", data_table_kind_names());
		rest = names;
		while ((name = strsep(&rest, ","))) {
			struct report_options options = {.table = name + strspn(name, " ")};
			const struct data_table_kind *kind = data_table_kind_named(options.table);
			char *report, *lines, *line;
			size_t columns;

			cr_assert_not_null(kind, "%s", options.table);
			columns = csv_columns_count(kind);
			report = lines = report_of(&scene, "csv", &options);
			while ((line = strsep(&lines, "\r")) && strcmp(line, "\n")) {
				size_t fields = 1;
				bool quoted = false;

				for (const char *p = line; *p; p++) {
					quoted ^= *p == '"';
					fields += *p == ',' && !quoted;
				}
				cr_assert_eq(fields, columns, "%s of %s: %s", options.table,
					     golden_cases[i].name, line);
				cr_assert_not(quoted, "%s", line);
			}
			free(report);
		}
		scene_clear(&scene);
	}
}

static bool is_of_type(const struct value *value, enum column_type type)
{
	switch (value->kind) {
	case VALUE_ABSENT:
		return true;
	case VALUE_INTEGER:
	case VALUE_FLAG:
		return type == COLUMN_U64 || type == COLUMN_COUNT || type == COLUMN_U32 ||
		       type == COLUMN_TRUTH;
	case VALUE_REAL:
		return type == COLUMN_REAL;
	case VALUE_TEXT:
	case VALUE_RANK:
		return type == COLUMN_TEXT;
	case VALUE_SENTENCE:
		return type == COLUMN_SENTENCE;
	case VALUE_JSON:
		json_decref(value->json);
		return type == COLUMN_NESTED;
	}
	return false;
}

/* The columns of a database are declared by these types. */
Test(table, values_have_the_types_of_their_columns)
{
	const struct data_table_kind *kind;

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		struct scene scene;

		scene_build(&scene, golden_cases[i].build);
		for (size_t k = 0; (kind = data_table_kind_at(k)); k++) {
			struct data_table table;

			cr_assert_eq(data_table_fill(&table, kind, scene.profile, scene.analysis),
				     0);
			for (size_t j = 0; j < table.rows_count * kind->columns_count; j++) {
				const struct data_table_column *column =
					&kind->columns[j % kind->columns_count];
				struct value value = data_table_value(
					&table, &table.rows[j / kind->columns_count], column);

				cr_expect(is_of_type(&value, column->type), "%s.%s", kind->name,
					  column->name);
			}
			data_table_clear(&table);
		}
		scene_clear(&scene);
	}
}

/* Whatever is sorted by, nothing is lost and the order is right. */
Test(table, sorts_by_every_column)
{
	char names[128], *rest = names, *name;
	struct scene scene;

	scene_build(&scene, golden_ordinary);
	snprintf(names, sizeof(names), "%s", data_table_kind_names());
	while ((name = strsep(&rest, ","))) {
		const struct data_table_kind *kind =
			data_table_kind_named(name + strspn(name, " "));

		const struct data_table_column *column = kind->columns;

		for (; (column = data_table_csv_column(kind, column)); column++) {
			uint64_t before = UINT64_MAX;
			struct data_table table;
			size_t count;

			cr_assert_eq(data_table_fill(&table, kind, scene.profile, scene.analysis),
				     0);
			count = table.rows_count;
			cr_assert_eq(data_table_sort(&table, column), 0);
			cr_assert_eq(table.rows_count, count);
			for (size_t j = 0; j < count; j++) {
				struct value value =
					data_table_value(&table, &table.rows[j], column);

				if (value.kind != VALUE_INTEGER)
					continue;
				cr_expect_leq(value.integer, before, "%s %s", kind->name,
					      column->name);
				before = value.integer;
			}
			data_table_clear(&table);
		}
	}
	scene_clear(&scene);
}

/* Is a column of that name in CSV, or in JSON? pid and comm before the row are the process's. */
static bool has(const struct data_table_kind *kind, const char *name, enum column_place place)
{
	bool of_process = !strcmp(kind->name, "processes");

	for (size_t i = 0; i < kind->columns_count; i++) {
		const struct data_table_column *column = &kind->columns[i];

		if (!strcmp(column->name, name) &&
		    (column->only == COLUMN_BOTH || column->only == place) &&
		    (of_process || place == COLUMN_JSON || i > 2))
			return true;
	}
	return false;
}

/* ", `calls`, `total_ns`" of those that are in both, or in one only, each once */
static void add_names(struct text *into, const struct data_table_kind *kind,
		      enum column_place place, const char *title)
{
	struct text names = {0}, quoted = {0};

	for (size_t i = 0; i < kind->columns_count; i++) {
		const char *name = kind->columns[i].name;
		bool csv = has(kind, name, COLUMN_CSV), json = has(kind, name, COLUMN_JSON);

		text_clear(&quoted);
		text_printf(&quoted, "`%s`", name);
		if (csv != (place != COLUMN_JSON) || json != (place != COLUMN_CSV) ||
		    strstr(text_peek(&names), text_peek(&quoted)))
			continue;
		text_printf(&names, "%s%s", names.length ? ", " : title, text_peek(&quoted));
	}
	if (names.length)
		text_printf(into, " %s.", text_peek(&names));
	text_clear(&names);
	text_clear(&quoted);
}

/* The file with lines joined, for they are wrapped anywhere. */
static char *joined_lines(const char *path)
{
	char *text = file_read_text(path), *to = text;

	cr_assert_not_null(text, "%s", path);
	for (const char *from = text; *from; from++) {
		if (*from == ' ' && (to == text || to[-1] == ' '))
			continue;
		*to++ = *from == '\n' ? ' ' : *from;
	}
	*to = '\0';
	return text;
}

/* docs/formats.md names each column of each table, and where it is. */
Test(table, documented)
{
	char *docs = joined_lines("docs/formats.md"), names[128], *rest = names, *name;

	snprintf(names, sizeof(names), "%s", data_table_kind_names());
	while ((name = strsep(&rest, ","))) {
		const struct data_table_kind *kind =
			data_table_kind_named(name + strspn(name, " "));
		struct text line = {0};

		text_printf(&line, "- `%s`:", kind->name);
		add_names(&line, kind, COLUMN_BOTH, "");
		add_names(&line, kind, COLUMN_JSON, "JSON only: ");
		add_names(&line, kind, COLUMN_CSV, "CSV only: ");
		cr_expect_not_null(strstr(docs, text_peek(&line)), "docs/formats.md should say\n%s",
				   text_peek(&line));
		text_clear(&line);
	}
	free(docs);
}

static const char *first_name(const struct profile *profile, size_t process)
{
	return profile_function(profile, profile->processes[process].rows[0].function)->name;
}

Test(selection, by_process_and_order)
{
	struct selection selection = {0};
	struct scene scene;

	scene_build(&scene, golden_ordinary);
	cr_assert_eq(scene.profile->processes_count, 2);
	cr_assert_eq(selection_make(&selection, scene.profile, "4300"), 0);
	cr_assert_eq(selection.profile.processes_count, 1);
	cr_expect_eq(selection.profile.processes[0].pid, 4300);
	selection_clear(&selection);

	cr_assert_eq(selection_make(&selection, scene.profile, "trainer"), 0);
	cr_assert_geq(selection.profile.processes_count, 1);
	cr_expect_str_eq(first_name(&selection.profile, 0), "cblas_sgemm");
	cr_assert_eq(selection_sort(&selection, "total_ns"), 0);
	cr_expect_str_eq(first_name(&selection.profile, 0), "train_step");
	cr_expect_str_eq(first_name(scene.profile, 0), "cblas_sgemm", "the profile is as it was");
	cr_expect_eq(selection_sort(&selection, "nothing"), -EINVAL);
	selection_clear(&selection);

	cr_expect_eq(selection_make(&selection, scene.profile, "nobody"), -ENOENT);
	selection_clear(&selection);
	cr_expect_eq(selection_make(&selection, scene.profile, "430"), -ENOENT);
	selection_clear(&selection);
	scene_clear(&scene);
}
