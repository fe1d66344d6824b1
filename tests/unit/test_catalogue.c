// SPDX-License-Identifier: BSD-2-Clause
/* The catalogue of findings: complete, and what the documentation says. */
#include "analyze/catalogue.h"
#include "analyze/rule_set.h"
#include "golden_file.h"
#include "report/report.h"

#include <glob.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
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
		cr_expect_not_null(finding_kind_named(name), "%s: %s is not in the catalogue", path,
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

/* Tests in tests/unit/test_FILE.c; mostly one has both. */
static const struct {
	const char *kind, *file, *fires, *misses;
} tests_of_kinds[] = {
	{"Died", "death", "a_status", "a_status"},
	{"LostChild", "death", "a_status", "a_status"},
	{"SlowOperation", "analyze", "slow_operation", "slow_operation"},
	{"TinyCalls", "analyze", "tiny_calls", "tiny_calls"},
	{"Unwound", "analyze", "unwound", "unwound"},
	{"PythonBound", "driver", "python_between_the_operators",
	 "python_that_is_none_of_the_interpreters"},
	{"GilWait", "driver", "waits_for_the_gil", "waits_for_the_gil"},
	{"LockWait", "driver", "waits_for_a_lock", "waits_for_something_else_than_a_lock"},
	{"InputWait", "rules_input", "waits_for_input", "waits_for_input"},
	{"OutputWait", "rules_input", "waits_for_a_disk_a_child_a_reader_and_the_clock",
	 "waits_for_a_disk_a_child_a_reader_and_the_clock"},
	{"DiskWait", "rules_input", "waits_for_a_disk_a_child_a_reader_and_the_clock",
	 "waits_for_a_disk_a_child_a_reader_and_the_clock"},
	{"SleepWait", "rules_input", "waits_for_a_disk_a_child_a_reader_and_the_clock",
	 "waits_for_a_disk_a_child_a_reader_and_the_clock"},
	{"ChildWait", "rules_input", "waits_for_a_disk_a_child_a_reader_and_the_clock",
	 "waits_for_a_disk_a_child_a_reader_and_the_clock"},
	{"DataBound", "analyze", "steps_that_wait_for_data", "steps_that_wait_for_data"},
	{"OptimizerBound", "analyze", "steps_of_an_optimizer", "steps_of_an_optimizer"},
	{"PeriodicStall", "rules_stalls", "checkpoint", "rare_checkpoint"},
	{"UnevenSteps", "analyze", "uneven_steps", "uneven_steps"},
	{"SlowStep", "rules_stalls", "a_captured_step", "a_captured_step"},
	{"GarbageCollection", "rules_stalls", "share_of_a_step", "a_little"},
	{"TinyOperators", "rules_operators", "tiny", "with_work_to_do_are_not_tiny"},
	{"Copies", "rules_operators", "copies", "copies_beside_work"},
	{"Float64", "rules_operators", "float64", "float64_by_design_or_seldom"},
	{"Recompilation", "rules_operators", "recompilation_by_xla",
	 "warming_up_is_no_recompilation"},
	{"LowUtilization", "roofline", "low_utilization", "low_utilization"},
	{"OverheadBound", "roofline", "overhead_and_memory_bound", "overhead_and_memory_bound"},
	{"MemoryBound", "roofline", "overhead_and_memory_bound", "overhead_and_memory_bound"},
	{"UnreadCompute", "roofline", "unread_compute", "unread_compute"},
	{"CpuContention", "analyze", "cpu_contention", "cpu_contention"},
	{"Oversubscribed", "rules_cpu", "more_threads_than_cpus", "as_many_threads_as_cpus"},
	{"LowParallelEfficiency", "rules_cpu", "threads_that_share_work_badly",
	 "threads_that_share_work_well"},
	{"Imbalance", "rules_cpu", "threads_that_wait_for_the_slowest",
	 "threads_that_wait_for_the_slowest"},
	{"CpuThrottled", "analyze", "throttled_and_disk", "throttled_and_disk"},
	{"BlockedThread", "analyze", "idle_and_blocked", "idle_and_blocked"},
	{"Stopped", "account", "a_stopped_process", "a_stopped_process"},
	{"IdleTarget", "analyze", "idle_and_blocked", "idle_and_blocked"},
	{"DiskBound", "analyze", "throttled_and_disk", "throttled_and_disk"},
	{"GpuStarved", "analyze_gpu", "starved", "starved"},
	{"LaunchBound", "analyze_gpu", "launch_bound", "launch_bound"},
	{"SyncWait", "analyze_gpu", "sync_wait", "sync_wait"},
	{"PageableCopy", "analyze_gpu", "pageable_copies", "pageable_copies"},
	{"ExposedCommunication", "analyze_gpu", "exposed_communication", "exposed_communication"},
	{"Straggler", "ranks", "a_straggler", "a_straggler"},
	{"LowOccupancy", "analyze_gpu", "low_occupancy", "low_occupancy"},
	{"ClocksThrottled", "analyze_gpu", "throttled_clocks", "throttled_clocks"},
	{"MemoryLeak", "analyze_memory", "a_leak", "a_leak"},
	{"MemoryGrowth", "analyze", "memory_growth", "memory_growth"},
	{"UntracedMemory", "analyze_memory", "growth_that_is_not_traced",
	 "growth_that_is_not_traced"},
	{"MemoryLimit", "rules_limits", "near_the_limit_of_a_cgroup", "near_the_limit_of_a_cgroup"},
	{"ResourceLimit", "rules_limits", "open_files_and_mappings", "open_files_and_mappings"},
	{"Fragmentation", "rules_limits", "a_heap_in_pieces", "a_heap_in_pieces"},
	{"CopyOnWrite", "rules_memory_sum", "copies_that_grow", "copies_that_grow"},
	{"HugePagePadding", "rules_memory_sum", "zeros_in_huge_pages", "zeros_in_huge_pages"},
	{"PeakMemory", "analyze_memory", "the_peak", "the_peak"},
	{"MemoryChurn", "analyze_memory", "churn", "churn"},
	{"TensorChurn", "analyze_memory", "tensors_that_come_and_go_as_pages",
	 "tensors_that_come_and_go_as_pages"},
	{"Overhead", "analyze", "overhead_and_losses", "overhead_and_losses"},
	{"Losses", "analyze", "overhead_and_losses", "overhead_and_losses"},
};

/* The code of a test, to be freed; NULL: there is none of that name. */
static char *body_of(const char *source, const char *test)
{
	char *code = NULL;

	for (const char *at = source; !code && (at = strstr(at, "\nTest(")); at++) {
		const char *name = strstr(at, ", ");
		const char *end = strstr(at, "\n}\n");

		if (name && end && !strncmp(name + 2, test, strlen(test)) &&
		    name[2 + strlen(test)] == ')')
			code = strndup(at, (size_t)(end - at));
	}
	return code;
}

/* No finding, or others than this one. */
static bool expects_none(const char *code, const char *kind)
{
	static const char *const ways[] = {"expect_none(", "expect_null(", "NULL)"};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strstr(code, ways[i]))
			return true;
	for (const char *at = code; (at = strstr(at, "expect_kinds(")); at++) {
		const char *named = strstr(at, kind), *end = strchr(at, ';');

		if (!named || named > end)
			return true;
	}
	return false;
}

static void expect_tests(size_t at)
{
	const char *kind = tests_of_kinds[at].kind;
	char path[128], quoted[64], graded[64];
	char *source, *fires, *misses;

	snprintf(path, sizeof(path), "tests/unit/test_%s.c", tests_of_kinds[at].file);
	snprintf(quoted, sizeof(quoted), "\"%s\"", kind);
	snprintf(graded, sizeof(graded), "%s/", kind);
	source = golden_read(path);
	cr_assert_not_null(source, "%s", path);
	fires = body_of(source, tests_of_kinds[at].fires);
	misses = body_of(source, tests_of_kinds[at].misses);
	cr_expect(strstr(source, quoted) || strstr(source, graded), "%s: not in %s", kind, path);
	cr_expect_not_null(fires, "%s: no test %s in %s", kind, tests_of_kinds[at].fires, path);
	cr_expect(misses && expects_none(misses, kind), "%s: no near miss in %s, %s", kind, path,
		  tests_of_kinds[at].misses);
	free(fires);
	free(misses);
	free(source);
}

Test(catalogue, each_rule_has_a_case_and_a_near_miss)
{
	for (size_t i = 0; i < finding_kinds_count; i++) {
		size_t rows = 0;

		for (size_t j = 0; j < sizeof(tests_of_kinds) / sizeof(tests_of_kinds[0]); j++) {
			if (strcmp(tests_of_kinds[j].kind, finding_kinds[i].kind) != 0)
				continue;
			expect_tests(j);
			rows++;
		}
		cr_expect_eq(rows, 1, "%s has no tests", finding_kinds[i].kind);
	}
}

/*
 * docs/findings.md, with the defaults as thresholds.
 */

#define PAGE_WIDTH 120

static const char *const introduction[] = {
	"# Findings",
	"The kinds of findings of a [report](reading-a-report.md#findings): how each is judged, "
	"and "
	"what to try. `perfx-trace explain KIND` shows the same, with the thresholds in effect. "
	"This "
	"page is made of `user/analyze/findings/` and `user/analyze/thresholds.def`; a unit test "
	"compares it with them.",
	"A threshold is written as a file for `--rules` sets it. `low`, `medium` and `high` are "
	"the "
	"values from which a finding has that severity.",
};

static void add_prose(struct text *into, const char *mark, const char *sentences)
{
	struct text marked = {0};

	text_printf(&marked, "%s%s", mark, sentences);
	text_add_wrapped(into, 0, 0, PAGE_WIDTH, text_peek(&marked));
	text_clear(&marked);
}

static void add_threshold_table(struct text *into, const char *kind)
{
	bool begun = false;

	for (size_t i = 0; i < threshold_rows_count; i++) {
		if (strcmp(threshold_rows[i].kind, kind) != 0)
			continue;
		text_add(into, begun ? "" : "\n| threshold | is |\n|---|---|\n");
		begun = true;
		text_add(into, "| `");
		threshold_add(into, &threshold_rows[i], defaults);
		text_printf(into, "` | %s |\n", threshold_rows[i].meaning);
	}
}

static void add_section(struct text *into, const struct finding_kind *kind)
{
	text_printf(into, "\n## %s\n\n", kind->kind);
	add_prose(into, "", kind->judges);
	add_threshold_table(into, kind->kind);
	text_add(into, "\n");
	add_prose(into, "**Try:** ", kind->remedy);
	text_add(into, kind->example ? "\n" : "");
	for (const char *line = kind->example; line && *line; line += *line == '\n') {
		int length = (int)strcspn(line, "\n");

		text_printf(into, "    %.*s\n", length, line);
		line += length;
	}
	text_add(into, "\n");
	add_prose(into, "**Then look at:** ", kind->look);
}

Test(catalogue, of_which_the_documentation_is_made)
{
	struct text text = {0};

	for (size_t i = 0; i < sizeof(introduction) / sizeof(introduction[0]); i++) {
		add_prose(&text, "", introduction[i]);
		text_add(&text, "\n");
	}
	text_add(&text, "| kind | says |\n|---|---|\n");
	for (size_t i = 0; i < finding_kinds_count; i++)
		text_printf(&text, "| `%s` | %s |\n", finding_kinds[i].kind, finding_kinds[i].says);
	text_add(&text, "\n## Thresholds of several kinds\n");
	add_threshold_table(&text, "All");
	for (size_t i = 0; i < finding_kinds_count; i++)
		add_section(&text, &finding_kinds[i]);
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

/* {NAME} of another kind would end the program. */
Test(catalogue, each_sentence_names_thresholds_of_its_kind)
{
	unsigned count = 0;

	for (size_t i = 0; i < finding_kinds_count; i++) {
		const struct finding_kind *kind = &finding_kinds[i];
		struct text text = {0};

		if (!kind->threshold)
			continue;
		threshold_add_sentence(&text, kind->threshold, kind->kind, defaults);
		cr_expect_null(strchr(text_peek(&text), '{'), "%s", kind->kind);
		text_clear(&text);
		count++;
	}
	cr_expect_gt(count, 25);
}

Test(catalogue, a_sentence_shows_thresholds_in_their_units)
{
	struct text text = {0};

	threshold_add_sentence(&text, "{time}, {rate}/s", "TinyCalls", defaults);
	threshold_add_sentence(&text, "; {high}, {rss}", "MemoryLeak", defaults);
	cr_expect_str_eq(text_peek(&text), "5 µs, 10000/s; 1 GiB, 25 %");
	text_clear(&text);
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
