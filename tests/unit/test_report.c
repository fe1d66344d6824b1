// SPDX-License-Identifier: BSD-2-Clause
#include "golden_cases.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(report, writers_by_name_and_suffix)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{"r.txt", "text"}, {"r.text", "text"}, {"r.md", "md"},	 {"r.markdown", "md"},
		{"r.csv", "csv"},  {"r.html", "html"}, {"r.tsv", "tsv"}, {"a/b.c/r.json", "json"},
		{"r", NULL},	   {"r.", NULL},       {".md", NULL},	 {"a.md/r", NULL},
		{"r.m", NULL},	   {"r.jsonl", NULL},  {"", NULL},	 {"a/.json", NULL},
		{"r.md ", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct report_writer *writer = format_for_path(&report_formats, rows[i].path);

		if (!rows[i].name)
			cr_expect_null(writer, "%s", rows[i].path);
		else
			cr_expect(writer && !strcmp(writer->format.name, rows[i].name), "%s",
				  rows[i].path);
	}
	cr_expect_null(report_writer_named("xml"));
	cr_expect_null(report_writer_named(""));
}

/* A word of report_writer_names that names no writer would mislead. */
Test(report, names_are_complete)
{
	char names[64], *rest = names, *name;
	unsigned count = 0;

	snprintf(names, sizeof(names), "%s", format_names(&report_formats));
	while ((name = strsep(&rest, ","))) {
		cr_expect_not_null(report_writer_named(name + strspn(name, " ")), "%s", name);
		count++;
	}
	cr_expect_eq(count, 7);
}

static char *write_scene(void (*scene)(struct stream *), const char *format,
			 const struct report_options *options)
{
	struct aggregate *aggregate = aggregate__new();
	struct stream s = {0};
	const struct profile *profile;
	struct analysis *analysis;
	char *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	scene(&s);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	profile = aggregate__finish(aggregate);
	analysis = analyze(profile, NULL);
	cr_assert_eq(report_writer_named(format)->write(out, profile, analysis, options), 0);
	fclose(out);
	analysis__free(analysis);
	aggregate__free(aggregate);
	stream_clear(&s);
	return report;
}

static char *write_report(const char *format, const struct report_options *options)
{
	return write_scene(golden_ordinary, format, options);
}

Test(report, top_limits_the_rows)
{
	struct report_options options = {.full = true, .top = 1};
	char *text = write_report("text", &options), *md = write_report("md", &options);

	cr_expect_not_null(strstr(text, "2 more functions in the JSON report."));
	cr_expect_null(strstr(text, "nn::softmax<float>\nSelf %"));
	cr_expect_not_null(strstr(md, "2 more functions in the JSON report."));
	free(text);
	free(md);
}

/* Numbers hold together in Markdown; in text, whose lines are broken here, a space is a space. */
Test(report, numbers_and_units)
{
	struct report_options options = {0};
	char *text = write_report("text", &options), *md = write_report("md", &options);

	cr_expect_not_null(strstr(md, "| 5.80\u202fs | 5.80\u202fs | 90 |"));
	cr_expect_null(strstr(md, "5.80 s"));
	cr_expect_not_null(strstr(text, "5.80 s"));
	cr_expect_null(strstr(text, "\u202f"));
	free(text);
	free(md);
}

/* What it takes to be read at once. */
Test(report, short_by_default)
{
	struct report_options options = {0}, whole = {.full = true};
	char *text = write_report("text", &options), *full = write_report("text", &whole);
	char *findings = write_scene(golden_findings, "text", &options);
	char *full_findings = write_scene(golden_findings, "text", &whole);

	cr_expect_null(strstr(findings, "threshold: "));
	cr_expect_null(strstr(findings, "look at: "));
	cr_expect_null(strstr(text, "Callers"));
	cr_expect_null(strstr(text, "foreign_hits"));
	cr_expect_not_null(strstr(text, "No record was lost."));
	cr_expect_not_null(strstr(text, "3 functions are not attached: cblas_xerbla "
					"(no safe place for a probe)."));
	cr_expect_not_null(strstr(text, "--full"));
	cr_expect_not_null(strstr(full_findings, "threshold: "));
	cr_expect_not_null(strstr(full_findings, "look at: "));
	cr_expect_not_null(strstr(full, "Callers"));
	cr_expect_not_null(strstr(full, "foreign_hits"));
	free(findings);
	free(full_findings);
	free(text);
	free(full);
}

Test(report, color_is_the_callers_choice)
{
	struct report_options options = {.color = true};
	char *text = write_scene(golden_findings, "text", &options);

	cr_expect_not_null(strstr(text, "\x1b[1;31mHIGH\x1b[0m"));
	free(text);
	options.color = false;
	text = write_scene(golden_findings, "text", &options);
	cr_expect_null(strchr(text, '\x1b'));
	free(text);
}

/* A full disk. */
Test(report, errors_of_the_stream_are_returned)
{
	static const char *const formats[] = {"text", "md", "html", "json", "csv", "tsv", "line"};
	static const struct report_options options = {0};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct aggregate *aggregate = aggregate__new();
		const struct profile *profile = aggregate__finish(aggregate);
		struct analysis *analysis = analyze(profile, NULL);
		FILE *full = fopen("/dev/full", "we");

		setvbuf(full, NULL, _IONBF, 0);
		cr_expect_eq(
			report_writer_named(formats[i])->write(full, profile, analysis, &options),
			-ENOSPC, "%s", formats[i]);
		fclose(full);
		analysis__free(analysis);
		aggregate__free(aggregate);
	}
}
