// SPDX-License-Identifier: BSD-2-Clause
/* What golden reports have no room for: memory, the drawing of the roofline, identical workers. */
#include "base/text.h"
#include "memory_scene.h"
#include "report/document/compose.h"
#include "report/document/plot.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *written(const struct memory_scene *s, const char *format,
		     struct report_options options)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	char *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	cr_assert_eq(report_writer_named(format)->write(out, &s->profile, analysis, &options), 0);
	fclose(out);
	analysis__free(analysis);
	return report;
}

static char *report_of(const struct memory_scene *s, const char *format, unsigned width)
{
	return written(s, format, (struct report_options){.full = true, .width = width});
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
	static struct profile_frame frames[1500];
	static const struct profile_frame *stacks[1500];
	struct memory_scene s;
	json_t *root, *memory;
	char *report;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4096);
	for (size_t i = 0; i < 1500; i++) {
		hotspots[i] = s.hotspots[i == 700 ? 0 : 1];
		frames[i] = s.frames[1];
		frames[i].line = (uint32_t)i + 1;
		stacks[i] = &frames[i];
		hotspots[i].frames = &stacks[i];
		hotspots[i].frames_count = 1;
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

/* How often the words are in the report. */
static size_t times_in(const char *report, const char *words)
{
	size_t count = 0;

	for (const char *at = strstr(report, words); at; at = strstr(at + 1, words))
		count++;
	return count;
}

static void expect_times(const struct memory_scene *s, const char *format, const char *words,
			 size_t expected)
{
	char *report = report_of(s, format, 1000);

	cr_expect_eq(times_in(report, words), expected, "%s: %s", words, report);
	free(report);
}

/* A line of Python allocates in two native ways, another line in one. The tables have a row for
 * each line, JSON one for each way. */
static void scene_python(struct memory_scene *s, struct profile_frame lines[2],
			 const struct profile_frame *stacks[3][2],
			 struct profile_hotspot hotspots[3])
{
	static const uint64_t peaks[] = {3000, 2500, 2000};

	scene_set(s, 10 * S, 320 * MS);
	for (uint32_t i = 0; i < 2; i++)
		lines[i] = (struct profile_frame){.function = "forward",
						  .module = "",
						  .module_base = "",
						  .file = "/src/net.py",
						  .line = 10 + i,
						  .language = PERFX_LANGUAGE_PYTHON};
	for (size_t i = 0; i < 3; i++) {
		stacks[i][0] = &s->frames[i];
		stacks[i][1] = &lines[i == 1];
		hotspots[i] = (struct profile_hotspot){.frames = stacks[i],
						       .frames_count = 2,
						       .allocator = "libc",
						       .live_count = i + 1,
						       .live_bytes = 100 * i,
						       .live_at_peak_bytes = peaks[i],
						       .oldest_ns = SCENE_START + (3 - i) * S,
						       .lifetime_ns = PROFILE_ABSENT};
		scene_add(&hotspots[i].allocs, 10 + i);
		scene_add(&hotspots[i].allocated_bytes, 5000);
		scene_add(&s->memory.allocs, 10 + i);
		scene_add(&s->memory.allocated_bytes, 5000);
	}
	s->memory.hotspots = hotspots;
	s->memory.hotspots_count = 3;
	s->memory.peak_bytes = 7500;
	s->memory.peak_ns = SCENE_START + S;
}

Test(report_memory, places_that_look_alike)
{
	static const char first[] =
		"| 4.88\u202fKiB | 200\u202fB | 4 | 9.00\u202fs | 9.77\u202fKiB | 22 | 0\u202f% | "
		"`forward (net.py:10)` | - |",
			  second[] = "| 2.44\u202fKiB | 100\u202fB | 2 | 8.00\u202fs | "
				     "4.88\u202fKiB | 11 | 0\u202f% | "
				     "`forward (net.py:11)` | - |";
	const struct profile_frame *stacks[3][2];
	struct profile_hotspot hotspots[3];
	struct profile_frame lines[2];
	struct memory_scene s;

	scene_python(&s, lines, stacks, hotspots);
	/* 3000 + 2000 bytes at the peak, 0 + 200 live in 1 + 3 blocks, of 10 + 12 */
	expect_times(&s, "md", first, 1);
	expect_times(&s, "md", second, 1);
	expect_times(&s, "json", "\"live_at_peak_bytes\"", 3);
	/* the stack is that of the largest */
	expect_times(&s, "md", "strdup", 1);
	expect_times(&s, "md", "trainer+0x4321", 0);
}

/* One that traced functions called is another row where functions are shown. */
Test(report_memory, places_by_function)
{
	struct profile_function mm = {.id = 1, .name = "mm", .module = "", .module_base = ""};
	const struct profile_frame *stacks[3][2];
	struct profile_hotspot hotspots[3];
	struct profile_frame lines[2];
	struct memory_scene s;

	scene_python(&s, lines, stacks, hotspots);
	s.profile.functions = &mm;
	s.profile.functions_count = 1;
	hotspots[2].function = 1;
	expect_times(
		&s, "md",
		"| 2.93\u202fKiB | 0\u202fB | 1 | 7.00\u202fs | 4.88\u202fKiB | 10 | 0\u202f% | "
		"`forward (net.py:10)` | - |",
		1);
	expect_times(
		&s, "md",
		"| 1.95\u202fKiB | 200\u202fB | 3 | 9.00\u202fs | 4.88\u202fKiB | 12 | 0\u202f% | "
		"`forward (net.py:10)` | `mm` |",
		1);
	expect_times(&s, "md",
		     "| 4.88\u202fKiB | 200\u202fB | 9.77\u202fKiB | host heap | `forward "
		     "(net.py:10)` |",
		     1);
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

Test(report_memory, frees_that_are_inferred)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 10, 1, 4096);
	expect_says(&s, "temporary", true);
	expect_says(&s, "A block counts as freed when its memory is given out again", false);
	s.memory.level = PERFX_MEMORY_FREES_INFERRED;
	s.memory.frees_inferred = true;
	s.memory.bound = PROFILE_MEMORY_LOST_FREES;
	s.memory.temporary_count = s.hotspots[0].temporary_count = PROFILE_ABSENT;
	expect_says(&s, "temporary", false);
	expect_says(&s, "A block counts as freed when its memory is given out again", true);
	expect_says(&s, "Live bytes and the peak are upper bounds (≤).", true);
	expect_says(&s, "≥ ", true);
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
	report = written(&s, "text", (struct report_options){.width = 200});
	cr_expect_not_null(strstr(report, "Allocated  Kind"), "%s", report);
	cr_expect_null(strstr(report, "At peak"), "%s", report);
	free(report);
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

/* The roofline's drawing, whole. */

static char *draw(unsigned columns, const struct roofline_points *shown)
{
	struct text text = {0};

	plot_roofline(&text, columns, shown);
	return text_take(&text);
}

#define AT(x, y)                                                \
	{                                                       \
		.line = {.intensity = (x), .flops_per_s = (y) } \
	}

/* A roof of 10 with its ridge at 1, over three decades to the right and two up; one point on the
 * slope, one on the flat part, a third that shares its place, one below. */
Test(plot, whole)
{
	static const struct roofline_points shown = {
		.roofs = {{.flops_per_s = 10, .bytes_per_s = 10}},
		.roofs_count = 1,
		.points = {AT(0.1, 1), AT(10, 9.9), AT(10.1, 9.9), AT(99, 1.1)},
		.count = 4};
	char *got = draw(38, &shown);
	const char *want = "   100 ┤\n"
			   "       │\n"
			   "       │\n"
			   "       │\n"
			   "       │\n"
			   "    10 ┤          ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀\n"
			   "       │        ⢠⠊          BC\n"
			   "       │      ⢀⠔⠁\n"
			   "       │     ⡠⠃\n"
			   "       │   ⢀⠎\n"
			   "       │ ⢀⠔⠁\n"
			   "     1 ┤A⠊                           D\n"
			   "       └┬─────────┬─────────┬────────┬\n"
			   "        0.1       1        10      100\n";

	cr_expect_str_eq(got, want, "got:\n%s", got);
	free(got);
}

/* Whatever is drawn: fourteen lines, none beyond the width, the marks all there. */
Test(plot, keeps_its_place)
{
	static const struct roofline_points shown = {
		.roofs = {{.flops_per_s = 1e15, .bytes_per_s = 1e-3},
			  {.flops_per_s = 1, .bytes_per_s = 1e12}},
		.roofs_count = 2,
		.points = {AT(1e-12, 1e-9), AT(1e18, 1e18)},
		.count = 2};

	for (unsigned columns = 0; columns < 120; columns++) {
		char *got = draw(columns, &shown), *rest = got, *line;
		unsigned lines = 0, width = columns > PLOT_COLUMNS_MIN ? columns : PLOT_COLUMNS_MIN;

		cr_expect(strchr(got, 'A') && strchr(got, 'B'), "%s", got);
		while ((line = strsep(&rest, "\n")) && *line) {
			cr_expect_leq(utf8_width(line), width, "%s", line);
			lines++;
		}
		cr_expect_eq(lines, 14);
		free(got);
	}
}

/* More letters at one place than there is room for beside it: the rest is left out. */
Test(plot, crowd)
{
	struct roofline_points shown = {.count = ROOFLINE_POINTS};
	char *got;

	for (size_t i = 0; i < shown.count; i++)
		shown.points[i] = (struct roofline_point)AT(i ? 999 : 10, 5);
	got = draw(30, &shown);
	cr_expect(strchr(got, 'A') && strchr(got, 'B'));
	cr_expect_null(strchr(got, 'C'), "%s", got);
	free(got);
}

/* Which processes are one group, and what a group adds up to. */

/* A process whose rows take so much self time each; 0 ends them. */
struct worker {
	uint32_t ppid;
	const char *comm, *cmdline;
	struct {
		uint32_t function;
		uint64_t self_ns;
	} rows[4];
};

#define WORKERS_MAX 8

struct workers {
	struct profile_process processes[WORKERS_MAX];
	struct profile_row rows[WORKERS_MAX][4];
	struct profile profile;
};

static void workers_add(struct workers *s, const struct worker *w)
{
	struct profile_process *p = &s->processes[s->profile.processes_count];
	struct profile_row *rows = s->rows[s->profile.processes_count];

	*p = (struct profile_process){.ppid = w->ppid,
				      .comm = w->comm,
				      .cmdline = w->cmdline,
				      .to_ns = 1000 * MS,
				      .cpu_ns = 300 * MS,
				      .rss_bytes = 1 << 20,
				      .rows = rows};
	for (size_t i = 0; i < 4 && w->rows[i].self_ns; i++) {
		rows[p->rows_count++] = (struct profile_row){.function = w->rows[i].function,
							     .self_ns = w->rows[i].self_ns,
							     .total_ns = 2 * w->rows[i].self_ns,
							     .calls_count = 10,
							     .timed_count = 8};
		p->self_ns += w->rows[i].self_ns;
	}
	s->profile.processes = s->processes;
	s->profile.processes_count++;
}

static const struct worker trainer = {1, "python3", "train.py", {{1, 900 * MS}, {2, 100 * MS}}};
static const struct worker loader = {42, "python3", "train.py", {{3, 90 * MS}, {4, 9 * MS}}};

Test(workers, who_is_alike)
{
	static const struct {
		struct worker worker;
		size_t group; /* with the trainer at 0 and a loader at 1 */
	} rows[] = {
		{{42, "python3", "train.py", {{3, 80 * MS}, {4, 8 * MS}}}, 1},
		/* the order of the functions does not matter, nor one that takes nearly nothing */
		{{42, "python3", "train.py", {{4, 80 * MS}, {3, 70 * MS}}}, 1},
		{{42, "python3", "train.py", {{3, 95 * MS}, {4, 10 * MS}, {5, 4 * MS}}}, 1},
		{{42, "python3", "train.py", {{3, 95 * MS}, {4, 10 * MS}, {5, 30 * MS}}}, 2},
		{{42, "python3", "train.py", {{3, 95 * MS}}}, 2},
		{{42, "python3", "train.py", {{0, 0}}}, 2},
		{{43, "python3", "train.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
		{{42, "pt_data", "train.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
		{{42, "python3", "eval.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct workers s = {0};
		size_t *groups;

		workers_add(&s, &trainer);
		workers_add(&s, &loader);
		workers_add(&s, &rows[i].worker);
		groups = workers_group(&s.profile);
		cr_assert_not_null(groups);
		cr_expect_eq(groups[0], 0);
		cr_expect_eq(groups[1], 1);
		cr_expect_eq(groups[2], rows[i].group, "row %zu: %zu", i, groups[2]);
		free(groups);
	}
}

/* The order of sections: the process of the verdict is first, though another was busier. */
Test(workers, the_verdicts_process_is_first)
{
	static const struct worker compiler = {42, "cc1plus", "cc1plus", {{0, 0}}};
	static const struct worker program = {1, "python3", "train.py", {{0, 0}}};
	struct report_options options = {0};
	struct workers s = {0};
	struct analysis *analysis;

	workers_add(&s, &compiler);
	workers_add(&s, &program);
	s.processes[0].cpu_ns *= 2;
	analysis = analyze(&s.profile, NULL);
	for (size_t first = 0; first < 2; first++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		analysis->first_process = first;
		cr_assert_eq(
			report_writer_named("text")->write(out, &s.profile, analysis, &options), 0);
		fclose(out);
		cr_expect_eq(strstr(text, "\npython3 (pid 0)\n") <
				     strstr(text, "\ncc1plus (pid 0)\n"),
			     first == 1, "%s", text);
		free(text);
	}
	analysis__free(analysis);
}

Test(workers, sums)
{
	static const struct worker other = {
		42, "python3", "train.py", {{4, 200 * MS}, {3, 10 * MS}, {9, 1 * MS}}};
	static const size_t groups[] = {0, 1, 0, 1};
	struct worker_sum sum;
	struct workers s = {0};

	workers_add(&s, &trainer);
	workers_add(&s, &loader);
	workers_add(&s, &trainer);
	workers_add(&s, &other);
	s.processes[1].steps =
		(struct profile_steps){.count = 10, .total_ns = 100 * MS, .avg_ns = 10 * MS};
	s.processes[3].steps =
		(struct profile_steps){.count = 5, .total_ns = 100 * MS, .avg_ns = 20 * MS};
	s.processes[3].rss_bytes = PROFILE_ABSENT;
	cr_assert_eq(worker_sum_make(&sum, &s.profile, groups, 1), 0);
	cr_expect_eq(sum.count, 2);
	cr_expect_eq(sum.wall_ns, 2000 * MS);
	cr_expect_eq(sum.cpu_ns, 600 * MS);
	cr_expect_eq(sum.rss_bytes, PROFILE_ABSENT);
	cr_expect_eq(sum.steps_count, 15);
	cr_expect_eq(sum.steps_ns, 200 * MS);
	cr_expect_eq(sum.steps_avg_least_ns, 10 * MS);
	cr_expect_eq(sum.steps_avg_most_ns, 20 * MS);
	cr_assert_eq(sum.rows_count, 3);
	/* by self time, each function once */
	cr_expect(sum.rows[0].function == 4 && sum.rows[0].self_ns == 209 * MS &&
		  sum.rows[0].total_ns == 418 * MS);
	cr_expect(sum.rows[1].function == 3 && sum.rows[1].self_ns == 100 * MS &&
		  sum.rows[1].calls_count == 20 && sum.rows[1].timed_count == 16);
	cr_expect(sum.rows[2].function == 9 && sum.rows[2].self_ns == 1 * MS);
	worker_sum_clear(&sum);
}
