// SPDX-License-Identifier: BSD-2-Clause
/* A JSON report read back: compared with another it gives what the captures themselves give. */

#include "fixture.h"
#include "golden_cases.h"

#include "diff/diff.h"
#include "report/report.h"

static char *difference(const struct profile *a, const struct profile *b, const char *format)
{
	static const struct diff_options options = {
		.name_a = "a", .name_b = "b", .width = 160, .top = 1000};
	struct diff *diff = diff__new(a, b, 0.05);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(diff);
	cr_assert_eq(diff_writer_named(format)->write(out, diff, &options), 0);
	fclose(out);
	diff__free(diff);
	return text;
}

static const struct profile *replayed(const struct golden_case *golden, struct aggregate *into)
{
	struct stream stream = {0};
	const struct profile *profile;

	golden->build(&stream);
	cr_assert_eq(stream_replay(&stream, into), 0);
	stream_clear(&stream);
	profile = aggregate__finish(into);
	cr_assert_not_null(profile);
	return profile;
}

static struct json_report *written_and_read(const struct profile *profile, const char *name)
{
	static const struct report_options options;
	struct analysis *analysis = analyze(profile, NULL);
	FILE *out = fopen(fixture_path(name), "we");
	char why[JSON_REPORT_WHY] = "";
	struct json_report *report;

	cr_assert_not_null(out);
	cr_assert_eq(report_writer_named("json")->write(out, profile, analysis, &options), 0);
	cr_assert_eq(fclose(out), 0);
	analysis__free(analysis);
	cr_assert(json_report_is(fixture_path(name)));
	report = json_report__read(fixture_path(name), why);
	cr_assert_not_null(report, "%s: %s", name, why);
	return report;
}

/* In JSON bytes that are no UTF-8 are not what they were. */
static bool is_text(const struct golden_case *golden)
{
	return strcmp(golden->name, "hostile") != 0;
}

/* Numbers of type real are written with nine digits, standard deviations as whole nanoseconds: so
 * not JSON, which shows more. */
Test(json_report, differences, .init = fixture_set_up, .fini = fixture_tear_down)
{
	static const char *const formats[] = {"text", "md"};

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		const struct golden_case *cases[] = {&golden_cases[i],
						     &golden_cases[(i + 1) % GOLDEN_CASES]};
		struct aggregate *aggregates[2];
		struct json_report *reports[2];
		const struct profile *profiles[2];

		if (!is_text(cases[0]) || !is_text(cases[1]))
			continue;
		for (int side = 0; side < 2; side++) {
			aggregates[side] = aggregate__new();
			profiles[side] = replayed(cases[side], aggregates[side]);
			reports[side] = written_and_read(profiles[side], cases[side]->name);
		}
		for (size_t j = 0; j < 4; j++) {
			const char *format = formats[j / 2];
			bool self = j % 2;
			char *expected = difference(profiles[0], profiles[!self], format);
			char *got = difference(json_report__profile(reports[0]),
					       json_report__profile(reports[!self]), format);

			cr_expect_str_eq(got, expected, "%s and %s in %s:\n%s\n---\n%s",
					 cases[0]->name, cases[!self]->name, format, got, expected);
			free(got);
			free(expected);
		}
		for (int side = 0; side < 2; side++) {
			json_report__free(reports[side]);
			aggregate__free(aggregates[side]);
		}
	}
}

Test(json_report, what_is_none, .init = fixture_set_up, .fini = fixture_tear_down)
{
	static const char *const texts[] = {
		"", "{", "[]", "{}", "{\"schema\": 1}", "{\"schema\": \"perfx.report/2\"}"};
	char why[JSON_REPORT_WHY];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		why[0] = '\0';
		fixture_text("x", texts[i]);
		cr_expect_eq(json_report_is(fixture_path("x")), texts[i][0] == '{');
		cr_expect_null(json_report__read(fixture_path("x"), why), "%s", texts[i]);
		cr_expect(why[0] && !strchr(why, '\n'), "%s", texts[i]);
	}
	cr_expect(!json_report_is(fixture_path("missing")));
	cr_expect_null(json_report__read(fixture_path("missing"), why));
}

/* Members of the wrong type, and bytes that are turned over. */
static void damage(const char *name)
{
	struct aggregate *aggregate = aggregate__new();
	size_t size = 0;
	char *text;

	srand(8);
	for (size_t i = 0; i < GOLDEN_CASES; i++)
		if (!strcmp(golden_cases[i].name, name))
			json_report__free(
				written_and_read(replayed(&golden_cases[i], aggregate), "m"));
	for (int round = 0; round < 500; round++) {
		static const char with[] = "0\"[]{}:,-9e. a(x+";
		FILE *in = fopen(fixture_path("m"), "re");
		char why[JSON_REPORT_WHY];
		struct json_report *report;

		size = 0;
		text = malloc(1 << 20);
		size = fread(text, 1, 1 << 20, in);
		fclose(in);
		for (int hits = 1 + rand() % 3; hits; hits--)
			text[(size_t)rand() % size] = with[(size_t)rand() % (sizeof(with) - 1)];
		fixture_write("d", text, size);
		free(text);
		report = json_report__read(fixture_path("d"), why);
		if (report)
			free(difference(json_report__profile(report), json_report__profile(report),
					"json"));
		json_report__free(report);
	}
	aggregate__free(aggregate);
}

Test(json_report, damaged_memory, .init = fixture_set_up, .fini = fixture_tear_down)
{
	damage("memory");
}

Test(json_report, damaged_gpus, .init = fixture_set_up, .fini = fixture_tear_down)
{
	damage("gpu");
}
