// SPDX-License-Identifier: BSD-2-Clause
/* What golden reports have no room for. */
#include "memory_scene.h"
#include "report/document/plot.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static char *report_of(const struct memory_scene *s, const char *format, unsigned width)
{
	struct report_options options = {.full = true, .width = width};
	struct analysis *analysis = analyze(&s->profile);
	char *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	cr_assert_eq(report_writer_named(format)->write(out, &s->profile, analysis, &options), 0);
	fclose(out);
	analysis__free(analysis);
	return report;
}

static void expect_says(const struct memory_scene *s, const char *words, bool wanted)
{
	char *report = report_of(s, "text", 1000);

	cr_expect_eq(strstr(report, words) != NULL, wanted, "%s: %s", words, report);
	free(report);
}

/* More places than JSON takes; a leak far below what a table shows. */
Test(report_memory, many_places)
{
	struct profile_hotspot *hotspots = calloc(1500, sizeof(*hotspots));
	struct memory_scene s;
	json_t *root, *memory;
	char *report;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4096);
	for (size_t i = 0; i < 1500; i++) {
		hotspots[i] = s.hotspots[i == 700 ? 0 : 1];
		hotspots[i].allocs.value = hotspots[i].allocated_bytes.value = 1500 - i;
	}
	s.memory.hotspots = hotspots;
	s.memory.hotspots_count = 1500;
	report = report_of(&s, "json", 0);
	root = json_loads(report, JSON_REJECT_DUPLICATES, NULL);
	memory = json_array_get(
		json_object_get(json_array_get(json_object_get(root, "processes"), 0), "memory"),
		0);
	cr_expect_eq(json_array_size(json_object_get(memory, "hotspots")), 1000);
	cr_expect_eq(json_integer_value(json_object_get(memory, "hotspots_left_out")), 500);
	cr_expect(json_is_true(
		json_object_get(json_array_get(json_object_get(memory, "hotspots"), 700), "leak")));
	json_decref(root);
	free(report);
	expect_says(&s, "+40.0 KiB/s", true);
	expect_says(&s, "1491 more places in the JSON report.", true);
	free(hotspots);
}

Test(report_memory, resident_memory_beside_the_traced)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	s.memory.current_bytes = 100 << 20;
	expect_says(&s,
		    "RSS anon 512 MiB = traced host heap 100 MiB + 412 MiB allocated before the "
		    "recording or untraced",
		    true);
	s.memory.bound = PROFILE_MEMORY_LOST_FREES;
	expect_says(&s, "traced host heap ≤ 100 MiB +", true);
	s.memory.bound = PROFILE_MEMORY_LOST_FREES | PROFILE_MEMORY_LOST_ALLOCS;
	expect_says(&s, "traced host heap ~ 100 MiB +", true);
	s.memory.bound = 0;
	s.memory.current_bytes = 612 << 20;
	expect_says(&s, "traced host heap 612 MiB: at least 100 MiB of it is not resident", true);
	s.memory.domain = PERFX_DOMAIN_TENSOR;
	expect_says(&s, "RSS anon 512 MiB, of which traced tensors up to 612 MiB;", true);
	/* nothing is known of what is live */
	s.memory.current_bytes = PROFILE_ABSENT;
	expect_says(&s, "of which traced", false);
	s.process.rss_anon_bytes = PROFILE_ABSENT;
	expect_says(&s, "RSS anon", false);
}

/* Absent is not measured: left out, and never 0. */
Test(report_memory, frees_that_are_not_seen)
{
	static const char *const live[] = {"frees",	    "unknown_frees", "temporary",
					   "current_bytes", "peak_bytes",    "peak_at_ns"};
	static const char *const of_hotspot[] = {"frees", "live_bytes", "live_at_peak_bytes",
						 "windows", "slope_bytes_per_s"};
	struct memory_scene s;
	json_t *root, *memory, *hotspot;
	char *report;

	scene_set(&s, 10 * S, 320 * MS);
	s.memory.level = PERFX_MEMORY_SAMPLED_IN;
	s.memory.sampled = true;
	s.memory.sample_bytes = 512 << 10;
	s.memory.current_bytes = s.memory.current_count = PROFILE_ABSENT;
	s.memory.peak_bytes = s.memory.peak_ns = PROFILE_ABSENT;
	s.hotspots[0].live_bytes = s.hotspots[0].live_count = PROFILE_ABSENT;
	s.hotspots[0].live_at_peak_bytes = s.hotspots[0].peak_bytes = PROFILE_ABSENT;
	expect_says(&s, "Frees were not recorded: live bytes are not known.", true);
	expect_says(&s, "At peak", false);
	report = report_of(&s, "json", 0);
	root = json_loads(report, JSON_REJECT_DUPLICATES, NULL);
	memory = json_array_get(
		json_object_get(json_array_get(json_object_get(root, "processes"), 0), "memory"),
		0);
	cr_expect(json_is_false(json_object_get(memory, "frees_seen")));
	cr_expect_str_eq(json_string_value(json_object_get(memory, "leaks_not_judged")),
			 "frees were not recorded");
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		cr_expect_null(json_object_get(memory, live[i]), "%s", live[i]);
	hotspot = json_array_get(json_object_get(memory, "hotspots"), 0);
	for (size_t i = 0; i < sizeof(of_hotspot) / sizeof(of_hotspot[0]); i++)
		cr_expect_null(json_object_get(hotspot, of_hotspot[i]), "%s", of_hotspot[i]);
	json_decref(root);
	free(report);
	s.memory.level = PERFX_MEMORY_EXACT;
	expect_says(&s, "Not all frees were recorded: live bytes are not known.", true);
}

Test(report_memory, sparks)
{
	static const uint64_t values[] = {0, 1, 12, 13, 50, 88, 99, 100}, none[2] = {0},
			      huge[] = {UINT64_MAX, UINT64_MAX / 2, 1};
	struct text text = {0};

	spark(&text, values, 8);
	cr_expect_str_eq(text_peek(&text), "·▁▁▂▄███", "%s", text_peek(&text));
	text_clear(&text);
	spark(&text, none, 2);
	cr_expect_str_eq(text_peek(&text), "··");
	text_clear(&text);
	spark(&text, huge, 3);
	cr_expect_str_eq(text_peek(&text), "█▄▁", "%s", text_peek(&text));
	text_clear(&text);
}
