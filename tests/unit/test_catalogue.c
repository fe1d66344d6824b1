// SPDX-License-Identifier: BSD-2-Clause
/* The catalogue of findings: complete, and what the documentation says. */
#include "analyze/catalogue.h"
#include "analyze/rule_set.h"
#include "golden_file.h"
#include "report/explain.h"

#include <glob.h>
#include <regex.h>
#include <string.h>

static const struct thresholds *defaults = &rule_set_builtin.thresholds;

Test(catalogue, each_kind_is_complete_and_there_once)
{
	for (size_t i = 0; i < finding_kinds_count; i++) {
		const struct finding_kind *kind = &finding_kinds[i];

		cr_expect_eq(finding_kind_named(kind->kind), kind, "%s is there twice", kind->kind);
		cr_expect(kind->says && kind->judges && kind->remedy && kind->look, "%s",
			  kind->kind);
	}
	cr_expect_null(finding_kind_named("Nothing"));
}

Test(catalogue, each_threshold_is_of_a_kind)
{
	for (size_t i = 0; i < threshold_rows_count; i++) {
		const struct threshold_row *row = &threshold_rows[i];

		cr_expect(finding_kind_named(row->kind) || !strcmp(row->kind, "All"), "%s",
			  row->kind);
		cr_expect_eq(threshold_named(row->kind, row->name), row, "%s.%s is there twice",
			     row->kind, row->name);
		cr_expect_eq(threshold_value(defaults, row), row->value);
	}
}

/* The kinds that the sources name where they add a finding. */
static unsigned expect_kinds_of(const char *path)
{
	char *source = golden_read(path);
	regmatch_t match[2];
	unsigned count = 0;
	regex_t added;

	cr_assert_not_null(source, "%s", path);
	cr_assert_eq(regcomp(&added, "rules_ctx_add\\(ctx,[^\";]*\"([A-Za-z]+)\"", REG_EXTENDED),
		     0);
	for (char *at = source; !regexec(&added, at, 2, match, 0); at += match[0].rm_eo) {
		char name[64] = "";

		memcpy(name, at + match[1].rm_so, (size_t)(match[1].rm_eo - match[1].rm_so));
		cr_expect_not_null(finding_kind_named(name), "%s: %s is not in catalogue.c", path,
				   name);
		count++;
	}
	regfree(&added);
	free(source);
	return count;
}

Test(catalogue, each_kind_that_a_rule_adds_is_there)
{
	unsigned count = 0;
	glob_t files;

	cr_assert_eq(glob("user/analyze/*.c", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++)
		count += expect_kinds_of(files.gl_pathv[i]);
	globfree(&files);
	cr_expect_gt(count, 25);
}

Test(catalogue, of_which_the_documentation_is_made)
{
	struct text text = {0};

	explain_markdown(&text, defaults);
	golden_expect("docs/findings.md", text_peek(&text), text.length);
	text_clear(&text);
}

Test(catalogue, thresholds_as_a_file_sets_them)
{
	static const struct {
		const char *kind, *name, *text;
	} cases[] = {
		{"PythonBound", "medium", "PythonBound.medium = 25%"},
		{"PythonBound", "deviations", "PythonBound.deviations = 1.645"},
		{"TinyCalls", "time", "TinyCalls.time = 5us"},
		{"TinyCalls", "rate", "TinyCalls.rate = 10000/s"},
		{"MemoryLeak", "high", "MemoryLeak.high = 1G/h"},
		{"MemoryLeak", "recording", "MemoryLeak.recording = 2s"},
		{"PeakMemory", "bytes", "PeakMemory.bytes = 64M"},
		{"TensorChurn", "rate", "TensorChurn.rate = 512M/s"},
		{"PageableCopy", "rate", "PageableCopy.rate = 100000000/s"},
		{"All", "steps", "All.steps = 10"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text text = {0};

		threshold_add(&text, threshold_named(cases[i].kind, cases[i].name), defaults);
		cr_expect_str_eq(text_peek(&text), cases[i].text);
		text_clear(&text);
	}
}

Test(catalogue, an_explanation_fits_a_terminal)
{
	struct text text = {0};

	for (size_t i = 0; i < finding_kinds_count; i++)
		explain_kind(&text, &finding_kinds[i], defaults);
	explain_all(&text, defaults);
	cr_expect_not_null(strstr(text_peek(&text), "\n  PythonBound.medium = 25%  "));
	for (char *rest = text.data, *line; (line = strsep(&rest, "\n"));)
		cr_expect_leq(utf8_width(line), 80, "%s", line);
	text_clear(&text);
}
