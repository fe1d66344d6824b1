// SPDX-License-Identifier: BSD-2-Clause
/*
 * Captures → whole reports, compared with the files in tests/golden. `make golden-update` writes
 * them anew; read the difference before committing it.
 */
#include "golden_cases.h"
#include "golden_file.h"

#include "analyze/analyze.h"
#include "base/text.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>

struct view {
	const char *format, *suffix;
	struct report_options options;
	const char *cases; /* " name name "; NULL: all */
};

/* Each section and column is in one file at least: a case has its full report once, either narrow
 * or wide with colors, and a table where it has rows. */
static const struct view views[] = {
	{"text", "80.txt", {.width = 80}, NULL},
	{"text", "100.color.txt", {.width = 100, .color = true}, " ordinary "},
	{"text",
	 "full.80.txt",
	 {.full = true, .width = 80},
	 " silent overflow unwound killed truncated findings ranges-blind compute-blind "
	 "memory-sampled memory-lost energy gpu "},
	{"text",
	 "full.140.color.txt",
	 {.full = true, .width = 140, .color = true},
	 " ordinary workers ranges compute memory hostile code gpu-calls energy-ranks "
	 "annotations "},
	{"md",
	 "md",
	 {0},
	 " ordinary ranges compute memory hostile code gpu energy-ranks annotations "},
	{"json", "json", {0}, NULL},
	{"csv", "csv", {0}, " ordinary unwound hostile "},
	{"tsv", "tsv", {.no_header = true, .sort = "name"}, " ordinary hostile "},
	{"csv", "callers.csv", {.table = "callers"}, " ordinary "},
	{"csv", "threads.csv", {.table = "threads"}, " ordinary "},
	{"csv", "steps.csv", {.table = "steps"}, " ranges "},
	{"csv", "memory.csv", {.table = "memory"}, " memory memory-sampled "},
	{"csv", "hotspots.csv", {.table = "hotspots"}, " memory memory-sampled "},
	{"csv", "lines.csv", {.table = "lines"}, " code "},
	{"csv", "blocked.csv", {.table = "blocked"}, " code "},
	{"csv", "findings.csv", {.table = "findings"}, " findings "},
	{"csv", "processes.csv", {.table = "processes"}, " ordinary energy "},
	{"html", "html", {0}, " ordinary memory compute hostile ranges workers code "},
	{"line", "line", {0}, " ordinary silent truncated hostile "},
};

static char *report_of(const struct golden_case *golden, const struct view *view, size_t *size)
{
	struct aggregate *aggregate = aggregate__new();
	const struct profile *profile;
	struct stream stream = {0};
	struct analysis *analysis;
	char *report = NULL;
	FILE *out = open_memstream(&report, size);

	golden->build(&stream);
	cr_assert_eq(stream_replay(&stream, aggregate), 0);
	profile = aggregate__finish(aggregate);
	cr_assert_not_null(profile);
	analysis = analyze(profile, NULL);
	cr_assert_not_null(analysis);
	cr_assert_eq(
		report_writer_named(view->format)->write(out, profile, analysis, &view->options),
		0);
	fclose(out);
	analysis__free(analysis);
	aggregate__free(aggregate);
	stream_clear(&stream);
	return report;
}

/* Takes out what lies between two strings, all the way through. */
static void cut_out(char *text, const char *from, const char *to)
{
	for (char *at = text; (at = strstr(at, from));) {
		char *end;

		at += strlen(from);
		end = strstr(at, to);
		cr_assert_not_null(end, "%s without %s", from, to);
		memmove(at, end, strlen(end) + 1);
	}
}

/* Style and script are files of their own; here they, and their hashes, would only be noise. */
static void cut_assets(char *html)
{
	cut_out(html, "'sha256-", "'");
	cut_out(html, "<style>", "</style>");
	cut_out(html, "<script>", "</script>");
}

static bool is_shown(const struct view *view, const struct golden_case *golden)
{
	char word[64];

	snprintf(word, sizeof(word), " %s ", golden->name);
	return !view->cases || strstr(view->cases, word);
}

static void check_golden(const struct golden_case *golden, const struct view *view)
{
	char path[256], *report;
	size_t size;

	report = report_of(golden, view, &size);
	cr_assert_eq(strlen(report), size, "a NUL in %s.%s", golden->name, view->suffix);
	if (!strcmp(view->format, "html")) {
		cut_assets(report);
		size = strlen(report);
	}
	snprintf(path, sizeof(path), "tests/golden/%s.%s", golden->name, view->suffix);
	golden_expect(path, report, size);
	free(report);
}

Test(golden, whole_reports)
{
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		for (size_t j = 0; j < sizeof(views) / sizeof(views[0]); j++) {
			if (is_shown(&views[j], &golden_cases[i]))
				check_golden(&golden_cases[i], &views[j]);
		}
	}
}

/* What holds for every report on a terminal, whatever the names: no control character, and no line
 * beyond the width. */
Test(golden, text_is_tame)
{
	static const unsigned widths[] = {40, 60, 80, 100, 140, 250};

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		for (size_t j = 0; j < 2 * sizeof(widths) / sizeof(widths[0]); j++) {
			struct view view = {
				"text", "", {.full = j % 2, .width = widths[j / 2]}, NULL};
			char *report, *line, *rest;
			size_t size;

			report = rest = report_of(&golden_cases[i], &view, &size);
			for (const char *p = report; *p; p++)
				cr_assert(*p == '\n' || (unsigned char)*p >= 0x20, "%s: \\x%02x",
					  golden_cases[i].name, (unsigned char)*p);
			while ((line = strsep(&rest, "\n")) && widths[j / 2] >= 60)
				cr_assert_leq(utf8_width(line), widths[j / 2], "%s at %u: %s",
					      golden_cases[i].name, widths[j / 2], line);
			free(report);
		}
	}
}

/* Whatever the names: each row of a table has as many fields as its header, and no control
 * character. */
static void check_csv(const char *csv, const char *what)
{
	size_t fields = 0, header_fields = 0;
	bool quoted = false;

	for (const char *p = csv; *p; p++) {
		quoted ^= *p == '"';
		fields += *p == ',' && !quoted;
		cr_assert(*p == '\n' || (*p == '\r' && p[1] == '\n') || (unsigned char)*p >= 0x20,
			  "%s: \\x%02x", what, *p);
		if (*p != '\n' || quoted)
			continue;
		header_fields = header_fields ?: fields;
		cr_assert_eq(fields, header_fields, "%s: %zu commas", what, fields);
		fields = 0;
	}
	cr_assert(!quoted && header_fields, "%s", what);
}

Test(golden, csv_is_tame)
{
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		for (size_t j = 0; j < sizeof(views) / sizeof(views[0]); j++) {
			char what[64], *table;
			size_t size;

			if (strcmp(views[j].format, "csv") != 0)
				continue;
			snprintf(what, sizeof(what), "%s.%s", golden_cases[i].name,
				 views[j].suffix);
			table = report_of(&golden_cases[i], &views[j], &size);
			check_csv(table, what);
			free(table);
		}
	}
}

/* The contract's rules that a golden file alone does not state. */
Test(golden, json_is_json)
{
	static const struct view view = {"json", "json", {0}, NULL};

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		json_t *root, *process;
		json_error_t error;
		char *report;
		size_t size, at;

		report = report_of(&golden_cases[i], &view, &size);
		root = json_loads(report, JSON_REJECT_DUPLICATES, &error);
		cr_assert_not_null(root, "%s: %s at %d", golden_cases[i].name, error.text,
				   error.line);
		cr_assert(json_is_array(json_object_get(root, "not_attached")));
		json_array_foreach(json_object_get(root, "processes"), at, process)
		{
			cr_assert(json_is_array(json_object_get(process, "functions")));
			cr_assert(json_is_array(json_object_get(process, "findings")));
			cr_assert(json_is_integer(json_object_get(process, "wall_ns")));
		}
		json_decref(root);
		free(report);
	}
}
