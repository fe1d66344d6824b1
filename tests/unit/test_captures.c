// SPDX-License-Identifier: BSD-2-Clause
/*
 * Captures of earlier versions stay readable: files that the program of November 2026 recorded,
 * before record kinds had their present names, and the reports that it made of them. Only words of
 * these reports may change.
 *
 * All are of tests/workloads: trainer (steps, FLOPs, sampled memory), flight (the same, written by
 * a flight recorder: keyframe and time slice), memory (every allocation), fork and execs
 * (processes), values and blocks (of perfx.h, by the workload `told`).
 */
#include "golden_file.h"

#include "analyze/analyze.h"
#include "replay/pipeline.h"
#include "report/report.h"

#define FOLDER "tests/golden/captures/"
#define MS     1000000u

static void replay_capture(const char *name, struct aggregate *aggregate, struct time_slice *slice)
{
	struct pipeline pipeline = {.aggregate = aggregate, .time_slice = slice};
	struct capture_reader *reader;
	char path[128];

	snprintf(path, sizeof(path), FOLDER "%s.perfx", name);
	reader = capture_reader__open(path);
	cr_assert_not_null(reader, "%s", path);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0, "%s", path);
	cr_expect_eq(capture_reader__damage(reader)->places, 0, "%s", path);
	capture_reader__free(reader);
}

static void expect_report(const char *name, const char *expected, struct time_slice *slice)
{
	struct aggregate *aggregate = aggregate__new();
	const struct profile *profile;
	struct analysis *analysis;
	struct report_options options = {0};
	char path[128], *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	replay_capture(name, aggregate, slice);
	profile = aggregate__finish(aggregate);
	cr_assert_not_null(profile);
	analysis = analyze(profile);
	cr_assert_not_null(analysis);
	cr_assert_eq(report_writer_named("json")->write(out, profile, analysis, &options), 0);
	fclose(out);
	snprintf(path, sizeof(path), FOLDER "%s.json", expected);
	golden_expect(path, report, size);
	free(report);
	analysis__free(analysis);
	aggregate__free(aggregate);
}

Test(captures, of_earlier_versions)
{
	static const char *const names[] = {"trainer", "flight", "memory", "fork",
					    "execs",   "values", "blocks"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_report(names[i], names[i], NULL);
}

/* From 300 ms to 500 ms. */
Test(captures, a_time_slice_of_one)
{
	const struct time_slice_choice choice = {.since = {.given = true, .ns = 300 * MS},
						 .until = {.given = true, .ns = 500 * MS}};
	struct time_slice *slice = time_slice__new(&choice, 0);

	cr_assert_not_null(slice);
	expect_report("trainer", "trainer-slice", slice);
	time_slice__free(slice);
}
