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

Test(report, carbon_intensity_adds_grams_to_energy)
{
	struct report_options options = {.width = 80, .carbon_intensity = 480};
	char *text = write_scene(golden_energy, "text", &options),
	     *json = write_scene(golden_energy, "json", &options);

	cr_expect_not_null(strstr(text, "250 J per step \u00b7 0.33 g CO2"), "%s", text);
	cr_expect_not_null(strstr(text, "0.54 g\nCO2 at 480 g/kWh"), "%s", text);
	cr_expect_not_null(strstr(json, "\"carbon_g\": 0.5364"));
	free(text);
	free(json);
}

/* Two fibres of a thread: each call lasts as long as the thread, the other one included. */
static void fibres(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 70, 0, 0);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("fibre", "server", ""),
		   .function = 1, .source = PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 3; i++)
		stream_call(s, 1, 70, 0, 1000 * MS, 1000 * MS, 0);
	stream_usage(s, 1, 0, 0, 0, 1);
	stream_usage(s, 1, 1000 * MS, 1000 * MS, 0, 1);
}

Test(report, calls_that_take_turns_on_a_thread_have_no_self_time)
{
	struct report_options options = {0};
	char *md = write_scene(fibres, "md", &options);

	cr_expect_not_null(strstr(md, "| - | - | 3.00\u202fs |"), "%s", md);
	cr_expect_null(strstr(md, "300\u202f%"));
	cr_expect_null(strstr(md, "(untraced)"));
	free(md);
}

static void reduced(struct stream *s)
{
	golden_ordinary(s);
	stream_plain(s, PERFX_KIND_REDUCED, struct perfx_reduced, .time_ns = 8000 * MS,
		     .function = 1, .to = PERFX_REDUCED_COUNTED);
	stream_plain(s, PERFX_KIND_REDUCED, struct perfx_reduced, .time_ns = 9000 * MS,
		     .function = 2, .to = PERFX_REDUCED_REMOVED);
}

/* Times of a part of the recording are no share of all of it. */
Test(report, what_the_budget_stopped_measuring_is_a_least)
{
	struct report_options options = {0};
	char *md = write_scene(reduced, "md", &options);

	cr_expect_not_null(strstr(md, "| ≥58.0\u202f% | ≥5.80\u202fs | ≥5.80\u202fs | ≥90 | 64.5"));
	cr_expect_not_null(strstr(md, "| ≥13.5\u202f% | ≥1.35\u202fs | ≥8.50\u202fs | 90 | 94.5"));
	cr_expect_not_null(strstr(md, "| 13.5\u202f% | 1.35\u202fs | 1.35\u202fs | 90 | 15.0"));
	cr_expect_not_null(strstr(md, "≥: the overhead budget stopped timing these"));
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

/* PyTorch 1.13: the backward passes alone tell steps apart. */
static void nameless_steps(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 42, "python3", "python3\x1ftrain.py");
	stream_function(s, 1, "torch::autograd::Engine::execute", "/lib/libtorch_cpu.so",
			PERFX_SOURCE_TORCH);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS(PERFX_NAMELESS_RANGE, "", ""), .function = 2,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 0, 2, 1);
	for (uint64_t i = 0; i < 20; i++) {
		stream_call(s, 2, 42, i * 100 * MS, 20 * MS, 20 * MS, 0);
		stream_call(s, 1, 42, i * 100 * MS + 50 * MS, 40 * MS, 40 * MS, 0);
	}
	stream_end(s, 2 * S, 0);
}

Test(report, steps_say_why_they_have_no_forward_phase)
{
	struct report_options options = {0};
	const char *says = "There is no forward phase, for no range of an optimizer was seen "
			   "(PyTorch before 2.0 gives them no names): ";
	char *md = write_scene(nameless_steps, "md", &options);
	char *named = write_scene(golden_ranges, "md", &options);

	cr_expect_not_null(strstr(md, says), "%s", md);
	cr_expect_not_null(strstr(md, "| backward | "));
	cr_expect_null(strstr(md, "| forward | "), "a phase without time is left out");
	cr_expect_null(strstr(md, "| data | "));
	cr_expect_null(strstr(named, "no forward phase"));
	free(md);
	free(named);
}

static void allocate(struct stream *s, const char *allocator)
{
	static const struct stream_place place = {1, 42, 0, 0, 1, PERFX_DOMAIN_TENSOR};

	stream_host(s);
	stream_process(s, 1, 42, "python3", "python3\x1ftrain.py");
	stream_allocator(s, 1, PERFX_DOMAIN_TENSOR, allocator, "/lib/a.so");
	stream_allocation(s, &place, 1 * MS, 0x1000, 4096, 0);
	stream_end(s, 1 * S, 0);
}

/* 8 GiB of address space, of which 150 MiB are ever touched. */
static void reservation(struct stream *s)
{
	static const struct stream_place place = {1, 42, 0, 0, 1, PERFX_DOMAIN_HOST};

	stream_host(s);
	stream_process(s, 1, 42, "reserve", "reserve");
	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "mmap", "");
	stream_usage(s, 1, 0, 0, 0, 1 << 20);
	stream_allocation(s, &place, 1 * MS, 0x1000, 8ULL << 30, 0);
	stream_usage(s, 1, 1 * S, 1 * MS, 0, 150 << 20);
	stream_end(s, 1 * S, 0);
}

Test(report, reserved_address_space_is_called_so)
{
	struct report_options options = {.width = 120};
	char *text = write_scene(reservation, "text", &options);

	cr_expect_not_null(strstr(text, "partly reserved only: no more than 150 MiB was resident"),
			   "%s", text);
	cr_expect_not_null(strstr(text, "8.00 GiB  reserved, not resident"), "%s", text);
	cr_expect_null(strstr(text, "8.00 GiB  host heap"));
	free(text);

	text = write_scene(reservation, "json", &options);
	/* (8 << 30) - (150 << 20) */
	cr_expect_not_null(strstr(text, "\"peak_reserved_bytes\": 8432648192"), "%s", text);
	free(text);
}

static void arrays(struct stream *s)
{
	allocate(s, "numpy");
}

static void tensors(struct stream *s)
{
	allocate(s, "torch");
}

Test(report, memory_of_numpy_alone_is_of_arrays)
{
	struct report_options options = {.full = true};
	char *of_numpy = write_scene(arrays, "text", &options);
	char *of_torch = write_scene(tensors, "text", &options);

	cr_expect_not_null(strstr(of_numpy, "of array memory in"), "%s", of_numpy);
	cr_expect_not_null(strstr(of_numpy, "Arrays (numpy)"), "%s", of_numpy);
	cr_expect_null(strstr(of_numpy, "ensor"), "%s", of_numpy);
	cr_expect_not_null(strstr(of_torch, "of tensor memory in"));
	cr_expect_not_null(strstr(of_torch, "Tensors (torch)"));
	free(of_numpy);
	free(of_torch);
}

Test(report, json_lists_the_probes_that_were_hit)
{
	struct report_options options = {0}, whole = {.full = true};
	char *brief = write_scene(golden_silent, "json", &options);
	char *full = write_scene(golden_silent, "json", &whole);

	cr_expect_not_null(strstr(brief, "\"probes_left_out\": 1"));
	cr_expect_null(strstr(brief, "\"site\": \"push\""));
	cr_expect_not_null(strstr(full, "\"probes_left_out\": 0"));
	cr_expect_not_null(strstr(full, "\"site\": \"push\""));
	free(brief);
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
