// SPDX-License-Identifier: BSD-2-Clause
/* Measurements with answers worked out by hand. */
#include "tune/tune.h"

#include "base/text.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(double value, double expected)
{
	cr_expect(fabs(value - expected) <= 1e-7 * fmax(1, fabs(expected)), "%.10g, not %.10g",
		  value, expected);
}

Test(tune_statistics, median)
{
	near(tune_median((double[]){3, 1, 2}, 3), 2);
	near(tune_median((double[]){4, 1, 2, 3}, 4), 2.5);
	near(tune_median((double[]){NAN, 7, NAN, 9}, 4), 8);
	cr_expect(isnan(tune_median((double[]){NAN}, 1)));
	cr_expect(isnan(tune_median(NULL, 0)));
}

/* Tables of Student's distribution; closed forms for 1 and 2 degrees of freedom. */
Test(tune_statistics, quantile)
{
	near(student_quantile(0.5, 1), 1);
	near(student_quantile(0.05, 2), 4.30265273);
	near(student_quantile(0.05, 4), 2.77644511);
	near(student_quantile(0.01, 10), 3.16927267);
	near(student_quantile(1, 5), 0);
}

/* Logarithms of b/a are ln 2, ln 2, ln 8: mean 5/3 ln 2, standard error 2/3 ln 2. */
Test(tune_statistics, paired_by_hand)
{
	const double a[] = {1, 2, 1, NAN, 5}, b[] = {2, 4, 8, 3, NAN};
	struct tune_change change = tune_paired(a, b, 5, 1);
	double mean = 5 * M_LN2 / 3, error = 2 * M_LN2 / 3;

	cr_assert(change.known);
	cr_expect_eq(change.pairs_count, 3);
	near(change.change, exp(mean) - 1);
	near(change.low, exp(mean - 4.30265273 * error) - 1);
	near(change.high, exp(mean + 4.30265273 * error) - 1);
	/* t = 2.5, 2 degrees of freedom */
	near(change.p, 1 - 2.5 / sqrt(2 + 2.5 * 2.5));
}

/* The interval of one of five comparisons is that of 99 %, and agrees with the test. */
Test(tune_statistics, several_comparisons)
{
	const double a[] = {1, 2, 1}, b[] = {2, 4, 8};
	struct tune_change change = tune_paired(a, b, 3, 5);

	near(change.low, exp((5 - 2 * 9.92484320) * M_LN2 / 3) - 1);
	near(change.p, tune_paired(a, b, 3, 1).p);
	cr_expect_not(tune_is_significant(&change, 5));
	for (double more = 2; more < 64; more *= 1.1) {
		const double c[] = {1, 1.1, 1.2}, d[] = {more, more, more * 1.3};

		for (size_t count = 1; count < 20; count += 3) {
			change = tune_paired(c, d, 3, count);
			cr_expect_eq(tune_is_significant(&change, count), change.low > 0);
		}
	}
}

Test(tune_statistics, a_ratio_and_its_inverse)
{
	const double a[] = {1, 2, 3}, b[] = {1.5, 2.2, 4};
	struct tune_change to = tune_paired(a, b, 3, 1), back = tune_paired(b, a, 3, 1);

	near((1 + to.change) * (1 + back.change), 1);
	near((1 + to.low) * (1 + back.high), 1);
	near(to.p, back.p);
}

Test(tune_statistics, too_few_pairs)
{
	const double a[] = {1, NAN}, b[] = {2, 2};
	struct tune_change one = tune_paired(a, b, 2, 1), none = tune_paired(a + 1, b + 1, 1, 1);

	cr_expect_not(one.known);
	near(one.change, 1);
	cr_expect(isnan(one.p));
	cr_expect(isnan(none.change));
	cr_expect_eq(none.pairs_count, 0);
}

Test(tune_statistics, without_spread)
{
	const double a[] = {1, 2}, same[] = {1, 2}, more[] = {2, 4};

	near(tune_paired(a, same, 2, 1).p, 1);
	near(tune_paired(a, more, 2, 1).p, 0);
	near(tune_paired(a, more, 2, 1).low, 1);
}

static char *const command[] = {"train", "--workers", "{}", "--dir=out-{workers}", "{x}", NULL};

/* Lists as "workers=0,1": a variable's in capitals. NULL: what is wrong is in `why`. */
static bool prepare(struct tune *tune, char *const *words, const char *const *lists,
		    char why[TUNE_WHY])
{
	static char copies[TUNE_LISTS_MAX + 2][64];
	int err = 0;

	*tune = (struct tune){.metric = {.unit = TUNE_STEPS_PER_S}, .command = words};
	for (size_t i = 0; lists[i] && !err; i++) {
		char *name = strcpy(copies[i], lists[i]), *values = strchr(name, '=');

		*values++ = '\0';
		err = tune_add_list(tune, name, values, *name < 'a', why);
	}
	return !err && !tune_prepare(tune, 3, why);
}

Test(tune_grid, placeholders)
{
	static const char *const lists[] = {"workers=0,1,2", "THREADS=4,8", NULL};
	struct tune tune;
	char why[TUNE_WHY], **words;

	cr_assert(prepare(&tune, command, lists, why), "%s", why);
	cr_assert_eq(tune.points_count, 6);
	words = tune_command(&tune, &tune.points[3]); /* 1, 8 */
	cr_expect_str_eq(words[0], "train");
	cr_expect_str_eq(words[2], "1");
	cr_expect_str_eq(words[3], "--dir=out-1");
	cr_expect_str_eq(words[4], "{x}");
	cr_expect_null(words[5]);
	tune_free_words(words);
	words = tune_environment(&tune, &tune.points[3]);
	cr_expect_str_eq(words[0], "THREADS=8");
	cr_expect_null(words[1]);
	tune_free_words(words);
	tune_clear(&tune);
}

/* A variable's name is one, too; {} stands for nothing where there is no other list. */
Test(tune_grid, a_variable_alone)
{
	static const char *const lists[] = {"N=1,2", NULL};
	static char *const words_of[] = {"a", "{}", "{N}", NULL};
	struct tune tune;
	char why[TUNE_WHY], **words;

	cr_assert(prepare(&tune, words_of, lists, why), "%s", why);
	words = tune_command(&tune, &tune.points[1]);
	cr_expect_str_eq(words[1], "{}");
	cr_expect_str_eq(words[2], "2");
	tune_free_words(words);
	tune_clear(&tune);
}

Test(tune_grid, what_is_wrong)
{
	static const struct {
		const char *lists[TUNE_LISTS_MAX + 2];
		const char *say;
	} cases[] = {
		{{NULL}, "no values to try"},
		{{"workers=1"}, "neither an option of tune nor a list"},
		{{"workers=1,2,1"}, "a value is there twice"},
		{{"workers=1,2", "workers=3,4"}, "two lists of values"},
		{{"workers=1,2", "batch=3,4"}, "no {batch} to put"},
		{{"batches=1,2", "sizes=3,4"}, "no {batches} to put"},
		{{"workers=1,2,3,4,5,6,7,8,9", "N=1,2,3,4,5,6,7,8"}, "72 combinations: 64 at most"},
		{{"A=1,2", "B=1,2", "C=1,2", "D=1,2", "E=1,2", "F=1,2", "G=1,2"}, "more than 6"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tune tune;
		char why[TUNE_WHY] = "";

		cr_expect_not(prepare(&tune, command, cases[i].lists, why), "case %zu", i);
		cr_expect(strstr(why, cases[i].say), "case %zu: %s", i, why);
		tune_clear(&tune);
	}
}

Test(tune_grid, every_second_round_goes_backward)
{
	static const char *const lists[] = {"workers=0,1,2", NULL};
	static const size_t order[] = {0, 1, 2, 2, 1, 0, 0, 1, 2};
	struct tune tune;
	char why[TUNE_WHY];

	cr_assert(prepare(&tune, command, lists, why));
	for (size_t run = 0; run < 9; run++)
		cr_expect_eq(tune_order(&tune, run), order[run]);
	tune_clear(&tune);
}

/* Three rounds of five values: the third is within 5 % of the fourth, and level with it. */
static const double measured[][3] = {
	{50, 49, 51}, {98, 99, 97}, {118, 124, 119}, {124, 121, 123}, {80, 82, 81}};

static void measure(struct tune *tune)
{
	static const char *const lists[] = {"workers=0,1,2,4,8,16", NULL};
	char why[TUNE_WHY];

	cr_assert(prepare(tune, command, lists, why));
	for (size_t i = 0; i < 5; i++)
		for (size_t round = 0; round < 3; round++)
			tune_runs_add(&tune->points[i].runs, round, measured[i][round]);
	tune_runs_fail(&tune->points[5].runs, strdup("exit status 3: no, \"memory\""));
	tune_runs_fail(&tune->points[5].runs, strdup("another"));
	tune_judge(tune);
}

Test(tune_judge, optimum_and_diminishing_returns)
{
	struct tune tune;

	measure(&tune);
	cr_expect_eq(tune.best, 3);
	cr_expect_eq(tune.next, 2);
	cr_expect_eq(tune.enough, 2);
	cr_expect_eq(tune.compared_count, 4);
	near(tune.points[0].share, 50.0 / 123);
	near(tune.points[3].share, 1);
	cr_expect_not(tune.points[0].level);
	cr_expect(tune.points[2].level);
	cr_expect_not(tune.points[4].level);
	cr_expect_eq(tune.points[5].runs.failed_count, 2);
	cr_expect_str_eq(tune.points[5].runs.why, "exit status 3: no, \"memory\"");
	cr_expect(isnan(tune.points[5].share));
	tune_clear(&tune);
}

/* Where seconds are measured, the fewest are the optimum. */
Test(tune_judge, less_is_better)
{
	static const char *const lists[] = {"workers=0,1,2", NULL};
	struct tune tune;
	char why[TUNE_WHY];

	cr_assert(prepare(&tune, command, lists, why));
	tune.metric.unit = TUNE_SECONDS;
	for (size_t round = 0; round < 3; round++) {
		tune_runs_add(&tune.points[0].runs, round, 4 + 0.01 * (double)round);
		tune_runs_add(&tune.points[1].runs, round, 2.05 - 0.01 * (double)round);
		tune_runs_add(&tune.points[2].runs, round, 2 + 0.01 * (double)round);
	}
	tune_judge(&tune);
	cr_expect_eq(tune.best, 2);
	cr_expect_eq(tune.enough, 1);
	near(tune.points[0].share, 2.01 / 4.01);
	near(1 + tune.points[0].behind.change, cbrt(4.0 / 2 * (4.01 / 2.01) * (4.02 / 2.02)));
	tune_clear(&tune);
}

Test(tune_judge, nothing_was_measured)
{
	static const char *const lists[] = {"workers=0,1", NULL};
	struct tune tune;
	char why[TUNE_WHY];

	cr_assert(prepare(&tune, command, lists, why));
	tune_judge(&tune);
	cr_expect_eq(tune.best, TUNE_NONE);
	cr_expect_eq(tune.enough, TUNE_NONE);
	tune_clear(&tune);
}

static char *written(const struct tune *tune, const char *format)
{
	const struct tune_writer *writer = format_named(&tune_formats, format);
	struct tune_layout layout = {.width = 80};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_eq(writer->write(out, tune, &layout), 0);
	fclose(out);
	return text;
}

Test(tune_formats, text)
{
	struct tune tune;
	char *text;

	measure(&tune);
	text = written(&tune, "text");
	cr_expect(strstr(text, "Not distinguishable: workers=4 and workers=2. By the medians the"),
		  "%s", text);
	cr_expect(strstr(text, "2.46 times workers=0"), "%s", text);
	cr_expect(strstr(text, "the runs do not distinguish the two"), "%s", text);
	cr_expect(strstr(text, "2 runs failed"), "%s", text);
	cr_expect(strstr(text, "████████████████████████████████  123   best\n"), "%s", text);
	cr_expect(strstr(text, "  119   within 5 % of the best\n"), "%s", text);
	free(text);
	tune_clear(&tune);
}

Test(tune_formats, json)
{
	struct tune tune;
	json_t *json;
	char *text;

	measure(&tune);
	text = written(&tune, "json");
	json = json_loads(text, 0, NULL);
	cr_assert(json, "%s", text);
	cr_expect_str_eq(json_string_value(json_object_get(json, "schema")), "perfx.tune/1");
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(json, "best"), "workers")), "4");
	cr_expect_eq(json_array_size(json_object_get(json, "points")), 6);
	json_decref(json);
	free(text);
	tune_clear(&tune);
}

Test(tune_formats, csv)
{
	struct tune tune;
	char *text;

	measure(&tune);
	text = written(&tune, "csv");
	cr_expect(strstr(text, "workers,metric,measured,failed,median,"), "%s", text);
	cr_expect(strstr(text, "\r\n4,steps/s,3,0,123,121,124,1,0,0,0,1,true,false,\r\n"), "%s",
		  text);
	cr_expect(strstr(text, "\r\n16,steps/s,0,2,,,,,,,,,false,false,\"exit status 3: no, "
			       "\"\"memory\"\"\""),
		  "%s", text);
	free(text);
	tune_clear(&tune);
}

/* Of a grid each combination of the other lists is a line. */
Test(tune_formats, html)
{
	static const char *const lists[] = {"workers=0,1,2", "THREADS=4,<8", NULL};
	struct tune tune;
	char why[TUNE_WHY], *text;
	size_t lines = 0;

	cr_assert(prepare(&tune, command, lists, why));
	for (size_t i = 0; i < 5; i++)
		tune_runs_add(&tune.points[i].runs, 0, 10 + (double)i);
	tune_judge(&tune);
	text = written(&tune, "html");
	for (const char *at = text; (at = strstr(at, "<path class=line")); at++)
		lines++;
	cr_expect_eq(lines, 2);
	cr_expect(strstr(text, "THREADS=&#60;8</text>"));
	cr_expect_not(strstr(text, "THREADS=<8"));
	free(text);
	tune_clear(&tune);
}

static struct comparison compared(enum tune_unit unit, const double *a, const double *b)
{
	struct comparison c = {.metric = {.unit = unit},
			       .command_a = "a.sh",
			       .command_b = "b.sh",
			       .rounds_count = 4};

	cr_assert_eq(tune_runs_init(&c.a, 4), 0);
	cr_assert_eq(tune_runs_init(&c.b, 4), 0);
	for (size_t i = 0; i < 4; i++) {
		tune_runs_add(&c.a, i, a[i]);
		tune_runs_add(&c.b, i, b[i]);
	}
	comparison_judge(&c);
	return c;
}

static void comparison_clear(struct comparison *c)
{
	tune_runs_clear(&c->a);
	tune_runs_clear(&c->b);
}

/* Twice the rate is half the time; a drift that both have is none of the difference. */
Test(comparison, faster_and_slower)
{
	static const double drifting[] = {10, 12, 14, 17}, doubled[] = {20.1, 23.9, 28.1, 33.8};
	struct comparison c = compared(TUNE_STEPS_PER_S, drifting, doubled);

	cr_expect(c.significant && !c.worse);
	cr_expect_float_eq(c.change.change, 1, 0.01);
	cr_expect_not(comparison_regressed(&c, 0.05));
	comparison_clear(&c);
	c = compared(TUNE_STEPS_PER_S, doubled, drifting);
	cr_expect(c.significant && c.worse);
	cr_expect(comparison_regressed(&c, 0.95));
	cr_expect_not(comparison_regressed(&c, 1.05));
	comparison_clear(&c);
	c = compared(TUNE_SECONDS, drifting, doubled);
	cr_expect(c.significant && c.worse);
	cr_expect(comparison_regressed(&c, 0.95));
	comparison_clear(&c);
}

Test(comparison, noise)
{
	static const double a[] = {10, 12, 9, 11}, b[] = {11, 10, 11, 10};
	struct comparison c = compared(TUNE_STEPS_PER_S, a, b);

	cr_expect_not(c.significant);
	cr_expect_not(comparison_regressed(&c, 0.0001));
	comparison_clear(&c);
}

Test(comparison, formats)
{
	static const double a[] = {10, 12, 14, 17}, b[] = {20.1, 23.9, NAN, 33.8};
	static const char *const formats[] = {"text", "md", "html", "json"};
	struct comparison c = compared(TUNE_STEPS_PER_S, a, b);
	struct diff_options options = {.width = 80};

	for (size_t i = 0; i < 4; i++) {
		const struct comparison_writer *writer =
			format_named(&comparison_formats, formats[i]);
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		cr_assert_eq(writer->write(out, &c, NULL, &options), 0);
		fclose(out);
		cr_expect(strstr(text, "B is faster: +"), "%s", text);
		cr_expect(strstr(text, "a.sh") && strstr(text, "b.sh"), "%s", text);
		free(text);
	}
	comparison_clear(&c);
}
