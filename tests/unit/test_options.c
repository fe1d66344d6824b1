// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"
#include "cmd/options_table.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MAX 32

/* Parses "a|b|c", the program's name in front. The words live in `words`. */
static int parse(struct options *options, char *words, const char *line)
{
	static char *argv[ARGUMENTS_MAX + 1]; /* run's program stays in it */
	int argc = 1;

	memset(argv, 0, sizeof(argv));
	argv[0] = "perfx-trace";

	strcpy(words, line);
	for (char *rest = words, *word; (word = strsep(&rest, "|")) && argc < ARGUMENTS_MAX;)
		argv[argc++] = word;
	return options_parse(options, argc, argv);
}

Test(options, defaults_of_a_trace)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|42"), EXIT_OK);
	cr_assert_eq(options.verb, VERB_TRACE);
	cr_assert_eq(options.targets_count, 1);
	cr_assert_str_eq(options.targets[0], "42");
	cr_assert_eq(options.duration_ns, 0);
	cr_assert_eq(options.return_mode, RETURN_AUTO);
	cr_assert_not(options.site_entry_only || options.compensate || options.no_children);
	cr_assert_not(options.full);
	options_clear(&options);
}

/* 8 MiB together, however many there are. */
Test(options, ring_sizes)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|42|--rings|1"), EXIT_OK);
	cr_assert_eq(options.ring_bytes, 8u << 20);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|42|--rings|3"), EXIT_OK);
	cr_assert_eq(options.ring_bytes, 2u << 20);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|42|--rings|8"), EXIT_OK);
	cr_assert_eq(options.ring_bytes, 1u << 20);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|42|--rings|8|--ring-size|64K"), EXIT_OK);
	cr_assert_eq(options.ring_bytes, 64u << 10);
	options_clear(&options);
}

Test(options, everything_at_once)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words,
			   "record|-p|1,trainer|-p|7|-F|a:b*|-F|!c|-d|250ms|-o|x.perfx|--link|perf|"
			   "--return|exit|--ring-size|64K|--no-children|--full"),
		     EXIT_OK);
	cr_assert_eq(options.verb, VERB_RECORD);
	cr_assert_eq(options.targets_count, 3);
	cr_assert_str_eq(options.targets[1], "trainer");
	cr_assert_eq(options.patterns_count, 2);
	cr_assert(pattern__excludes(options.patterns[1]));
	cr_assert_eq(options.duration_ns, 250000000);
	cr_assert_str_eq(options.output, "x.perfx");
	cr_assert_eq(options.link, PERFX_LINK_PERF);
	cr_assert_eq(options.return_mode, RETURN_EXIT);
	cr_assert_eq(options.ring_bytes, 65536);
	cr_assert(options.no_children);
	cr_assert(options.full);
	options_clear(&options);
}

Test(options, ranges_and_steps)
{
	static const char *const bad[] = {
		"-p|1|--host-level|4",	  "-p|1|--usdt|throw", "-p|1|--usdt|:throw",
		"-p|1|--usdt|libstdcxx:", "-p|1|--steps|0",    "-p|1|--step-range|"};
	struct options options;
	char words[256];

	cr_assert_eq(
		parse(&options, words,
		      "-p|1|--host-level|1|--usdt|libstdcxx:throw|--usdt|python:gc*|--steps|20|"
		      "--step-range|train step"),
		EXIT_OK);
	cr_assert_eq(options.host_level, HOST_ANNOTATIONS);
	cr_assert_eq(options.usdt_count, 2);
	cr_assert_str_eq(options.usdt[1], "python:gc*");
	cr_assert_eq(options.steps_max, 20);
	cr_assert_str_eq(options.step_range, "train step");
	options_clear(&options);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(parse(&options, words, bad[i]), EXIT_USAGE, "%s", bad[i]);
		options_clear(&options);
	}
}

Test(options, what_tracing_may_cost)
{
	static const struct {
		const char *line;
		double max_percent;
		uint64_t observe_ns;
	} rows[] = {
		{"-p|1", 0, 1000000000},
		{"-p|1|--max-overhead|2%|--observe|500ms", 2, 500000000},
		{"-p|1|--max-overhead|0.5|--observe|off", 0.5, 0},
		{"-p|1|--max-overhead|off", HUGE_VAL, 1000000000},
	};

	static const char *const bad[] = {"-p|1|--max-overhead|0", "-p|1|--max-overhead|much",
					  "-p|1|--observe|0"};
	struct options options;
	char words[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(parse(&options, words, rows[i].line), EXIT_OK, "%s", rows[i].line);
		cr_expect(options.max_overhead_percent == rows[i].max_percent, "%s", rows[i].line);
		cr_expect_eq(options.observe_ns, rows[i].observe_ns, "%s", rows[i].line);
		options_clear(&options);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(parse(&options, words, bad[i]), EXIT_USAGE, "%s", bad[i]);
		options_clear(&options);
	}
}

Test(options, samples)
{
	static const struct {
		const char *line;
		uint64_t hz;
	} rows[] = {{"-p|1", 99}, {"-p|1|--sample|off", 0}, {"run|--sample|1000|--|true", 1000}};
	struct options options;
	char words[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(parse(&options, words, rows[i].line), EXIT_OK, "%s", rows[i].line);
		cr_assert_eq(options.sample_hz, rows[i].hz, "%s", rows[i].line);
		options_clear(&options);
	}
}

Test(options, options_after_a_capture_file)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "report|run.perfx|-f|md|-o|x"), EXIT_OK);
	cr_assert_str_eq(options.capture, "run.perfx");
	cr_assert_str_eq(options.format, "md");
	cr_assert_str_eq(options.output, "x");
	options_clear(&options);
}

Test(options, two_captures)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "diff|-f|md|a|--fail-on|2.5%|b|-o|x"), EXIT_OK);
	cr_assert_eq(options.verb, VERB_DIFF);
	cr_assert_str_eq(options.capture, "a");
	cr_assert_str_eq(options.capture_after, "b");
	cr_assert_str_eq(options.format, "md");
	cr_assert_str_eq(options.output, "x");
	cr_assert_eq(options.fail_on, 0.025);
	options_clear(&options);
}

/* tune: what is none of its own options is a list. */
Test(options, lists_of_values)
{
	struct options options;
	char words[512];

	cr_assert_eq(parse(&options, words,
			   "tune|--workers|0,1,2|-d|3|--memory=a,b|--repeat|5|--env|N=1,2|--values|"
			   "steps=7,8|--|train|--workers|{}"),
		     EXIT_OK);
	cr_assert_eq(options.lists_count, 4);
	/* the lists that are options come first */
	cr_assert_str_eq(options.lists[0].name, "workers");
	cr_assert_str_eq(options.lists[0].values, "0,1,2");
	cr_assert_not(options.lists[0].environment);
	cr_assert_str_eq(options.lists[1].name, "memory");
	cr_assert_str_eq(options.lists[1].values, "a,b");
	cr_assert_str_eq(options.lists[2].name, "N");
	cr_assert(options.lists[2].environment);
	cr_assert_str_eq(options.lists[3].name, "steps");
	cr_assert_not(options.lists[3].environment);
	cr_assert_eq(options.duration_ns, 3000000000u);
	cr_assert_eq(options.repeat, 5);
	cr_assert_str_eq(options.command[0], "train");
	cr_assert_str_eq(options.command[2], "{}");
	cr_assert_null(options.command[3]);
	options_clear(&options);
}

/* The program's own options are the program's, with and without the dashes in front. */
Test(options, tune_without_dashes)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "tune|--n|1,2|train|--steps|{}"), EXIT_OK);
	cr_assert_eq(options.lists_count, 1);
	cr_assert_str_eq(options.command[0], "train");
	cr_assert_str_eq(options.command[1], "--steps");
	options_clear(&options);
}

Test(options, bad_lists)
{
	static const char *const bad[] = {"tune|--workers",
					  "tune|--workers|--|train",
					  "tune|--workers=|--|train",
					  "tune|--env|N|--|train",
					  "tune|--env|=1,2|--|train",
					  "tune|--n|1,2",
					  "tune|--n|1,2|--repeat|0|train",
					  "tune|--metric||train",
					  "run|--env|N=1,2|--|train"};
	struct options options;
	char words[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(parse(&options, words, bad[i]), EXIT_USAGE, "%s", bad[i]);
		options_clear(&options);
	}
}

Test(options, metrics)
{
	static const struct {
		const char *line;
		enum tune_unit metric;
		size_t patterns_count;
	} rows[] = {{"compare|a|b", TUNE_STEPS_PER_S, 0},
		    {"compare|--metric|steps|a|b|--fail-on|5%", TUNE_STEPS_PER_S, 0},
		    {"compare|a|--metric|exit-time|b", TUNE_SECONDS, 0},
		    {"compare|a|b|--metric|tokens", TUNE_COUNTER_PER_S, 0},
		    {"compare|a|b|--metric|libx.so:f*", TUNE_CALLS_PER_S, 1}};
	struct options options;
	char words[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(parse(&options, words, rows[i].line), EXIT_OK, "%s", rows[i].line);
		cr_assert_eq(options.metric, rows[i].metric, "%s", rows[i].line);
		cr_assert_eq(options.patterns_count, rows[i].patterns_count);
		cr_assert_str_eq(options.commands[0], "a");
		cr_assert_str_eq(options.commands[1], "b");
		options_clear(&options);
	}
}

Test(options, where_the_capture_goes)
{
	static const struct {
		const char *line, *capture;
	} cases[] = {
		{"-p|1", NULL},
		{"-p|1|-o|x.json", NULL},
		{"-p|1|-o|x.perfx", "x.perfx"},
		{"-p|1|-o|x.perfx|-f|json", NULL}, /* a report with a strange name */
		{"-p|1|-o|x.json|--capture|y.perfx", "y.perfx"},
		{"-p|1|--capture|y", "y"},
		{"record|-p|1|-o|x.json", "x.json"},
		{"run|-o|x.perfx|--|true", "x.perfx"},
		{"run|--capture|y|--|true", "y"},
		{"report|x.perfx|-o|y.perfx", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options options;
		char words[256];
		const char *capture;

		cr_assert_eq(parse(&options, words, cases[i].line), EXIT_OK);
		capture = options_capture(&options);
		if (cases[i].capture)
			cr_expect_str_eq(capture, cases[i].capture);
		else
			cr_expect_null(capture, "%s", cases[i].line);
		options_clear(&options);
	}
}

Test(options, the_size_of_a_capture)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "record|-p|1|-o|x.perfx|--max-size|1.5G"), EXIT_OK);
	cr_expect_eq(options.capture_max, 3ull << 29);
	options_clear(&options);
}

Test(options, the_program_of_run_keeps_its_options)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "run|-d|1|--user|--|python3|-d|train.py|--as-root"),
		     EXIT_OK);
	cr_assert_eq(options.duration_ns, 1000000000);
	cr_assert_str_eq(options.command[0], "python3");
	cr_assert_str_eq(options.command[3], "--as-root");
	cr_assert_null(options.command[4]);
	cr_assert_not(options.as_root);
	options_clear(&options);
}

Test(options, wrong_ones, .init = cr_redirect_stderr)
{
	static const char *const lines[] = {
		"-p",
		"-p|1,,2",
		"-p|1|-d|0",
		"-p|1|-d|1y",
		"-p|1|--sample|0",
		"-p|1|--sample|1001",
		"-p|1|--sample|on",
		"-p|1|--ring-size|1",
		"-p|1|--ring-size|2G",
		"-p|1|--link|x",
		"-p|1|--top|0",
		"-p|1|--top|-1",
		"-p|1|--max-functions|9999999999",
		"-p|1|-F|",
		"-p|1|--cmdline|some",
		"-p|1|--as-root",
		"-p|1|--python-level|1",
		"run|--python-level|2|--|true",
		"-p|1|-o|",
		"-p|1|-a",
		"-a|operand",
		"record|-p|1",
		"report",
		"report|a|b",
		"diff",
		"diff|a",
		"diff|a|b|c",
		"diff|a|b|--fail-on|x",
		"diff|a|b|--fail-on|0",
		"report|a|--fail-on|5%",
		"run",
		"run|-a|--|true",
		"trace",
		"help|nothing",
		"-p|1|--since|5s",
		"export|a|--as-root",
		"-p|1|--all=yes",
		"-p|1|-x",
		"--no-such-option",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct options options;
		char words[256];

		cr_expect_eq(parse(&options, words, lines[i]), EXIT_USAGE, "%s", lines[i]);
		options_clear(&options);
	}
}

Test(options, help_and_version_need_nothing_else)
{
	struct options options;
	char words[64];

	cr_expect_eq(parse(&options, words, "--help"), EXIT_OK);
	cr_expect_eq(options.verb, VERB_HELP);
	cr_expect_eq(parse(&options, words, "report|--help"), EXIT_OK);
	cr_expect_eq(options.help_of, VERB_REPORT);
	cr_expect_eq(parse(&options, words, "help|diff"), EXIT_OK);
	cr_expect_eq(options.help_of, VERB_DIFF);
	cr_expect_eq(parse(&options, words, "-V"), EXIT_OK);
	cr_expect_eq(options.verb, VERB_VERSION);
	cr_expect_eq(options_parse(&options, 1, (char *[]){"perfx-trace", NULL}), EXIT_OK);
	cr_expect_eq(options.verb, VERB_HELP);
}

Test(options, peaks)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|42"), EXIT_OK);
	cr_assert_not(options.peaks.measure_nothing || peaks_given_any(&options.peaks));
	options_clear(&options);
	cr_assert_eq(parse(&options, words,
			   "-p|42|--peak-flops|f32:1.2T,f64:600G|--peak-bandwidth|25G|--no-peaks"),
		     EXIT_OK);
	cr_assert_eq(options.peaks.flops[PERFX_DTYPE_F32], 1200000000000);
	cr_assert_eq(options.peaks.flops[PERFX_DTYPE_F64], 600000000000);
	cr_assert_eq(options.peaks.flops[PERFX_DTYPE_BF16], 0);
	cr_assert_eq(options.peaks.bytes, 25000000000);
	cr_assert(options.peaks.measure_nothing);
	options_clear(&options);
}

Test(options, peaks_that_are_none, .init = cr_redirect_stderr)
{
	static const char *const lines[] = {"-p|42|--peak-flops|fast", "-p|42|--peak-flops|1.2",
					    "-p|42|--peak-flops|",
					    "-p|42|--peak-bandwidth|f32:25G"};
	struct options options;
	char words[256];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cr_expect_eq(parse(&options, words, lines[i]), EXIT_USAGE, "%s", lines[i]);
		options_clear(&options);
	}
}

Test(options, flops)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|42"), EXIT_OK);
	cr_expect_eq(options.flops, FLOPS_DEFAULT);
	cr_expect_not_null(options.cost_model);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|42|--flops|on"), EXIT_OK);
	cr_expect_eq(options.flops, FLOPS_ON);
	cr_expect_not_null(options.cost_model);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|42|--flops|off"), EXIT_OK);
	cr_expect_null(options.cost_model);
	options_clear(&options);
}

/* A mistake in the rules is reported before anything is touched. */
Test(options, flops_mistakes, .init = cr_redirect_stderr)
{
	static const char *const lines[] = {
		"-p|42|--flops|maybe",
		"-p|42|--flops-rules|/nonexistent/rules",
		"-p|42|--flops|off|--flops-rules|/dev/null",
		"-p|42|--flops-rules|/dev/null",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct options options;
		char words[256];

		cr_expect_eq(parse(&options, words, lines[i]), EXIT_USAGE, "%s", lines[i]);
		options_clear(&options);
	}
}

Test(options, counters)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|1"), EXIT_OK);
	cr_expect_eq(options.counters, COUNTERS_DEFAULT);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|1|--counters|off"), EXIT_OK);
	cr_expect_eq(options.counters, COUNTERS_OFF);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|1|--counters|flops,page-faults"), EXIT_OK);
	cr_expect_eq(options.counters, COUNTERS_LISTED);
	cr_expect_str_eq(options.counters_names, "flops,page-faults");
	options_clear(&options);
	cr_expect_eq(parse(&options, words, "-p|1|--counters|joules"), EXIT_USAGE);
	options_clear(&options);
}

Test(options, python_functions_of_what_is_run)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "run|--python-level|1|--|python3|train.py"), EXIT_OK);
	cr_assert(options.python_functions);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "-p|1|--python-level|0"), EXIT_OK);
	cr_assert_not(options.python_functions);
	options_clear(&options);
}

Test(options, waiting, .init = cr_redirect_stderr)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "-p|1"), EXIT_OK);
	cr_expect_not(options.wait);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "record|-p|1|--wait|-o|x.perfx"), EXIT_OK);
	cr_expect(options.wait);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "run|--wait|--|true"), EXIT_OK);
	cr_expect(options.wait);
	options_clear(&options);
	cr_expect_eq(parse(&options, words, "report|a|--wait"), EXIT_USAGE);
	options_clear(&options);
}

Test(options, each_row_is_complete)
{
	for (size_t i = 0; i < option_rows_count; i++) {
		const struct option_row *row = &option_rows[i];

		cr_expect_eq(option_row_named(row->name), row, "%s is there twice", row->name);
		cr_expect(row->parse && row->verbs, "%s", row->name);
		cr_expect(row->help || !strcmp(row->name, "user"), "%s", row->name);
		for (size_t k = 0; k < i; k++)
			cr_expect(!row->letter || option_rows[k].letter != row->letter, "%s",
				  row->name);
	}
	for (size_t i = 0; i < verb_rows_count; i++)
		cr_expect(verb_rows[i].help && verb_rows[i].man && verb_rows[i].synopsis);
}

/* Without an end; frames are top's alone. */
Test(options, live_verbs)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "top|-p|1|-n|3|--flight|2m|--max-size|64M"), EXIT_OK);
	cr_expect_eq(options.verb, VERB_TOP);
	cr_expect_eq(options.frames_max, 3);
	cr_expect_eq(options.flight_ns, 120000000000u);
	cr_expect_eq(options.duration_ns, 0);
	options_clear(&options);
	cr_expect_eq(parse(&options, words, "top|-n|3"), EXIT_USAGE, "no process");
	options_clear(&options);
	cr_expect_eq(parse(&options, words, "serve|-p|1|-n|3"), EXIT_USAGE);
	options_clear(&options);
}

Test(options, fail_on_severities_of_a_report)
{
	static const char *const bad[] = {"report|a|--fail-on|grave", "report|a|--fail-on|PERCENT",
					  "export|a|-f|chrome|--fail-on|high",
					  "-p|1|-o|a.perfx|--fail-on|high",
					  "diff|a|b|--fail-on|high"};
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "report|a|--fail-on|medium"), EXIT_OK);
	cr_expect_eq(options.fail_on_severity, FINDING_MEDIUM);
	options_clear(&options);
	cr_assert_eq(parse(&options, words, "run|--fail-on|high|true"), EXIT_OK);
	cr_expect_eq(options.fail_on_severity, FINDING_HIGH);
	options_clear(&options);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(parse(&options, words, bad[i]), EXIT_USAGE, "%s", bad[i]);
		options_clear(&options);
	}
}

Test(options, former_names_until_the_release_that_drops_them)
{
	struct options options;
	char words[256];

	cr_assert_eq(parse(&options, words, "record|-p|1|--ring|30s|-o|x.perfx"), EXIT_OK);
	cr_expect_eq(options.flight_ns, 30000000000);
	options_clear(&options);
	for (size_t i = 0; i < option_aliases_count; i++) {
		cr_expect_str_neq(option_aliases[i].until, PERFX_VERSION);
		cr_expect_not_null(option_row_named(option_aliases[i].now));
	}
}

/* What was written to stdout until now. */
static char *written(char *text, size_t size)
{
	fflush(stdout);
	text[fread(text, 1, size - 1, cr_get_redirected_stdout())] = '\0';
	return text;
}

Test(options, help_fits_a_terminal, .init = cr_redirect_stdout)
{
	static char text[1 << 17];
	bool wide = false;

	for (size_t i = 0; i < verb_rows_count; i++)
		options_help(verb_rows[i].verb);
	written(text, sizeof(text));
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
		wide = wide || strlen(line) > 80;
	cr_expect_not(wide);
}

Test(options, completion, .init = cr_redirect_stdout)
{
	static char text[1 << 15];
	static char *const lines[][5] = {
		{"re"},
		{"--mem"},
		{"--memory", ""},
		{"export", "-f", "p"},
		{"report", "a"},
		{"export", "a", "--fail"},
		{"run", "--", "true"},
		{"-p", "1,"},
		{"diff", "-o", ""},
		{"--duration", ""},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		int count = 0;

		while (count < 5 && lines[i][count])
			count++;
		puts("");
		options_complete(count, lines[i]);
	}
	written(text, sizeof(text));
	cr_expect(strstr(text, "\nrecord\t") && strstr(text, "\n--memory\tallocations\n"));
	cr_expect_not_null(strstr(text, "\n\noff\ntensor\nall\nsampled\n\nperfetto\n"));
	cr_expect_not_null(strstr(text, "\nopenmetrics\notlp\nsqlite\n\n:file\n\n--output\t"));
	cr_expect_not_null(strstr(text, "\n\n:program 2\n\n:process\n\n:file\n\n"));
	cr_expect_null(strstr(text, "--as-root"));
	cr_expect_null(strstr(text, "--ring\t"));
}
