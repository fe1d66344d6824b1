// SPDX-License-Identifier: BSD-2-Clause
/* Comparisons of two recordings with answers worked out by hand. */
#include "diff/diff.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS   1000000ULL
#define S    (1000 * MS)
#define MIB  (1ULL << 20)
#define MOST 40

static void near(double value, double expected)
{
	cr_expect(fabs(value - expected) <= 1e-7 * fmax(1, fabs(expected)), "%.10g, not %.10g",
		  value, expected);
}

/* Closed forms for 1, 2 and 4 degrees of freedom; tables for the others. */
Test(welch, student)
{
	near(student_two_sided(0, 7), 1);
	near(student_two_sided(1, 1), 0.5);
	near(student_two_sided(-1, 1), 0.5);
	near(student_two_sided(2, 2), 1 - 2 / sqrt(6));
	near(student_two_sided(1e6, 2), 1 - 1e6 / sqrt(2 + 1e12));
	near(student_two_sided(2.7764451052, 4), 0.05);
	near(student_two_sided(2.2281388520, 10), 0.05);
	near(student_two_sided(3.1692726726, 10), 0.01);
	near(student_two_sided(1.9599639845, 1e9), 0.05);
	cr_expect_eq(student_two_sided(INFINITY, 3), 0);
	cr_expect_lt(student_two_sided(60, 1000), 1e-300);
}

/* Variances of the means: 2² ÷ 4 = 1 and 9² ÷ 9 = 9. */
Test(welch, by_hand)
{
	struct welch welch = welch_test(&(struct sample){5, 10, 2}, &(struct sample){10, 16, 9});

	cr_assert(welch.known);
	near(welch.t, 6 / sqrt(10));
	near(welch.df, 100 / (1.0 / 4 + 81.0 / 9));
	near(welch_test(&(struct sample){10, 16, 9}, &(struct sample){5, 10, 2}).t, -6 / sqrt(10));
}

Test(welch, what_cannot_be_tested)
{
	cr_expect_not(welch_test(&(struct sample){4, 1, 1}, &(struct sample){9, 2, 1}).known);
	cr_expect_not(welch_test(&(struct sample){9, 1, 1}, &(struct sample){9, 2, -1}).known);
	/* every call took as long */
	cr_expect_eq(welch_test(&(struct sample){9, 1, 0}, &(struct sample){9, 2, 0}).p, 0);
	cr_expect_eq(welch_test(&(struct sample){9, 2, 0}, &(struct sample){9, 2, 0}).p, 1);
}

/* A second of one process. */
struct scene {
	struct profile profile;
	struct profile_process processes[4];
	struct profile_function functions[MOST];
	struct profile_row rows[MOST];
	struct profile_memory memory[2];
	struct profile_hotspot hotspots[4];
};

static void scene_set(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->processes[0] = (struct profile_process){.pid = 1,
						   .comm = "trainer",
						   .cmdline = "./trainer\x1f-x",
						   .to_ns = S,
						   .cpu_ns = PROFILE_ABSENT,
						   .rss_peak_bytes = PROFILE_ABSENT,
						   .rows = s->rows,
						   .memory = s->memory};
	s->profile = (struct profile){
		.functions = s->functions, .processes = s->processes, .processes_count = 1};
}

/* Calls of avg ± stddev; they were recorded, none inside another. */
static struct profile_row *add_function(struct scene *s, const char *name, const char *module,
					uint64_t calls, uint64_t avg_ns, double stddev_ns)
{
	struct profile_process *p = &s->processes[0];
	struct profile_row *row = &s->rows[p->rows_count];
	uint32_t id = (uint32_t)++p->rows_count;

	s->functions[s->profile.functions_count++] =
		(struct profile_function){.id = id,
					  .name = name,
					  .module = module,
					  .module_base = module,
					  .offset = 0x100ULL * id};
	*row = (struct profile_row){.function = id,
				    .calls_count = calls,
				    .timed_count = calls,
				    .total_ns = calls * avg_ns,
				    .self_ns = calls * avg_ns,
				    .stddev_ns = stddev_ns};
	return row;
}

static const struct diff_function *only_function(const struct diff *diff)
{
	cr_assert_eq(diff->processes_count, 1);
	cr_assert_eq(diff->processes[0].functions_count, 1);
	return &diff->processes[0].functions[0];
}

static struct diff *compare(const struct scene *a, const struct scene *b, double threshold)
{
	struct diff *diff = diff__new(&a->profile, &b->profile, threshold);

	cr_assert_not_null(diff);
	return diff;
}

/* One function in both; what is found of its time, and whether it counts at 5 %. */
static enum diff_verdict verdict_of(uint64_t calls, uint64_t a_ns, double a_stddev, uint64_t b_ns,
				    double b_stddev, bool *regressed)
{
	struct scene a, b;
	struct diff *diff;
	enum diff_verdict verdict;

	scene_set(&a);
	scene_set(&b);
	add_function(&a, "f", "m", calls, a_ns, a_stddev);
	add_function(&b, "f", "m", calls, b_ns, b_stddev);
	diff = compare(&a, &b, 0.05);
	verdict = only_function(diff)->time;
	*regressed = only_function(diff)->regressed;
	cr_expect_eq(diff->regressions_count, *regressed);
	diff__free(diff);
	return verdict;
}

/* Ten calls of 10 ± 1 ms, then of 12 ± 1 ms, in a second. */
Test(diff, known_change)
{
	const struct diff_function *f;
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	add_function(&a, "f", "m", 10, 10 * MS, 1e6);
	add_function(&b, "f", "m", 10, 12 * MS, 1e6);
	diff = compare(&a, &b, 0.05);
	f = only_function(diff);
	near(diff_change(f->avg_ns), 0.2);
	near(diff_ratio(f->avg_ns), 1.2);
	near(f->welch.t, 2 / sqrt(2.0 / 9));
	near(f->welch.df, 18);
	near(f->total_share.a, 0.1);
	near(f->total_share.b, 0.12);
	near(f->calls_per_s.b, 10);
	near(f->impact, 0.02);
	cr_expect_eq(f->time, DIFF_WORSE);
	cr_expect(f->regressed);
	cr_expect_eq(diff->compared_count, 1);
	cr_expect_eq(diff->worse_count, 1);
	diff__free(diff);
	diff = compare(&a, &b, 0.25);
	cr_expect_eq(only_function(diff)->time, DIFF_WORSE);
	cr_expect_not(only_function(diff)->regressed);
	diff__free(diff);
	diff = compare(&b, &a, 0.05);
	cr_expect_eq(only_function(diff)->time, DIFF_BETTER);
	cr_expect_eq(diff->regressions_count, 0);
	diff__free(diff);
}

Test(diff, what_stands_out)
{
	bool regressed;

	/* t = 2 ÷ √(2 × 100 ÷ 9) = 0.42 */
	cr_expect_eq(verdict_of(10, 10 * MS, 1e7, 12 * MS, 1e7, &regressed), DIFF_SAME);
	/* sure, but half a percent */
	cr_expect_eq(verdict_of(1000, 1000000, 10, 1005000, 10, &regressed), DIFF_SAME);
	/* sure, and 3 %: less than is asked for */
	cr_expect_eq(verdict_of(1000, 1000000, 10, 1030000, 10, &regressed), DIFF_WORSE);
	cr_expect_not(regressed);
	cr_expect_eq(verdict_of(4, 10 * MS, 1, 20 * MS, 1, &regressed), DIFF_UNJUDGED);
	cr_expect_not(regressed);
	/* 0.9 % of the time, then 0.99 %: sure, but light */
	cr_expect_eq(verdict_of(10, 900000, 10, 990000, 10, &regressed), DIFF_WORSE);
	cr_expect_not(regressed);
	cr_expect_eq(verdict_of(10, 900000, 10, 1000000, 10, &regressed), DIFF_WORSE);
	cr_expect(regressed);
}

/* p = 0.0042 (t = 3.29, 18 degrees of freedom): enough for one function, not among 33. */
Test(diff, many_functions_ask_for_more)
{
	static char names[MOST][8];
	bool regressed;
	struct scene a, b;
	struct diff *diff;
	double stddev = 2e6 / 3.29 * 3 / sqrt(2);

	cr_expect_eq(verdict_of(10, 10 * MS, stddev, 12 * MS, stddev, &regressed), DIFF_WORSE);
	scene_set(&a);
	scene_set(&b);
	for (int i = 0; i < 33; i++) {
		snprintf(names[i], sizeof(names[i]), "f%02d", i);
		add_function(&a, names[i], "m", 10, 10 * MS, stddev);
		add_function(&b, names[i], "m", 10, i ? 10 * MS : 12 * MS, stddev);
	}
	diff = compare(&a, &b, 0.05);
	near(diff->processes[0].functions[0].welch.t, 3.29);
	cr_expect_eq(diff->tested_count, 33);
	cr_expect_eq(diff->worse_count, 0);
	diff__free(diff);
}

/* The same program for three times as long. */
Test(diff, length_is_no_change)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	b.processes[0].to_ns = 3 * S;
	add_function(&a, "f", "m", 10, 10 * MS, 1e6);
	add_function(&b, "f", "m", 30, 10 * MS, 1e6);
	diff = compare(&a, &b, 0.05);
	near(diff_change(only_function(diff)->total_share), 0);
	near(diff_change(only_function(diff)->calls_per_s), 0);
	cr_expect_eq(only_function(diff)->time, DIFF_SAME);
	diff__free(diff);
}

/* Calls that came by the overflow sums count for the mean; the spread is of the recorded ones. */
Test(diff, overflow_calls)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	add_function(&a, "f", "m", 10, 10 * MS, 1e6);
	add_function(&b, "f", "m", 40, 12 * MS, 1e6)->overflow_count = 30;
	diff = compare(&a, &b, 0.05);
	near(only_function(diff)->welch.df, 18);
	near(diff_change(only_function(diff)->avg_ns), 0.2);
	diff__free(diff);
}

Test(diff, versions_and_renamed_programs)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	b.processes[0].cmdline = "/opt/trainer-2\x1f-x";
	add_function(&a, "f", "libx.so.1.13", 10, MS, 1);
	add_function(&b, "f", "libx.so.2", 10, MS, 1);
	add_function(&a, "main", "trainer", 10, MS, 1);
	add_function(&b, "main", "trainer-2", 10, MS, 1);
	add_function(&a, "f", "liby.so.1", 10, MS, 1);
	diff = compare(&a, &b, 0.05);
	cr_expect_eq(diff->compared_count, 2);
	cr_assert_eq(diff->processes[0].functions_count, 3);
	cr_expect_eq(diff->processes[0].functions[2].in, DIFF_IN_A);
	cr_expect_str_eq(diff->processes[0].functions[2].function->module, "liby.so.1");
	diff__free(diff);
}

/* Two of one name: in order of their offsets. */
Test(diff, overloads)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	add_function(&a, "f", "m", 10, 1 * MS, 1);
	add_function(&a, "f", "m", 10, 5 * MS, 1);
	add_function(&b, "f", "m", 10, 5 * MS, 1);
	add_function(&b, "f", "m", 10, 1 * MS, 1);
	b.functions[0].offset = 0x900;
	diff = compare(&a, &b, 0.05);
	cr_expect_eq(diff->compared_count, 2);
	cr_expect_eq(diff->worse_count + diff->better_count, 0);
	diff__free(diff);
}

/* Two, then one: together. 10 × 1 ms and 10 × 3 ms are 20 of 2 ± 1 ms. */
Test(diff, overloads_that_went)
{
	const struct diff_function *f;
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	add_function(&a, "f", "m", 10, 1 * MS, 0);
	add_function(&a, "f", "m", 10, 3 * MS, 0);
	add_function(&b, "f", "m", 10, 2 * MS, 0);
	diff = compare(&a, &b, 0.05);
	f = only_function(diff);
	near(f->avg_ns.a, 2e6);
	near(f->a.stddev, 1e6);
	cr_expect_eq(f->a.count, 20);
	near(f->calls.a, 20);
	diff__free(diff);
}

static void set_process(struct scene *s, size_t i, uint32_t pid, const char *comm,
			const char *cmdline)
{
	s->processes[i] = (struct profile_process){.pid = pid,
						   .comm = comm,
						   .cmdline = cmdline,
						   .to_ns = S,
						   .cpu_ns = PROFILE_ABSENT,
						   .rss_peak_bytes = PROFILE_ABSENT};
	if (s->profile.processes_count <= i)
		s->profile.processes_count = i + 1;
}

/* By command line in order; then by comm; then the last on either side. */
Test(diff, processes)
{
	static const uint32_t expected[][2] = {{22, 13}, {21, 11}, {23, 12}, {24, 14}};
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	set_process(&a, 0, 11, "python3", "train\x1f-o a");
	set_process(&a, 1, 12, "python3", "load");
	set_process(&a, 2, 13, "sh", "sh");
	set_process(&a, 3, 14, "old", "old");
	set_process(&b, 0, 22, "sh", "sh");
	set_process(&b, 1, 21, "python3", "train\x1f-o b");
	set_process(&b, 2, 23, "python3", "load");
	set_process(&b, 3, 24, "new", "new");
	diff = compare(&a, &b, 0.05);
	cr_assert_eq(diff->processes_count, 4);
	for (size_t i = 0; i < 4; i++) {
		cr_expect_eq(diff->processes[i].b->pid, expected[i][0]);
		cr_expect_eq(diff->processes[i].a->pid, expected[i][1]);
	}
	diff__free(diff);
	b.profile.processes_count = 2;
	diff = compare(&a, &b, 0.05);
	cr_assert_eq(diff->processes_count, 4);
	cr_expect_null(diff->processes[2].b);
	cr_expect_eq(diff->processes[2].a->pid, 12);
	diff__free(diff);
}

/* The comparison of many equal processes as Markdown: its size; malloc'd. */
static char *comment_of(struct scene *a, struct scene *b, size_t processes, size_t *size)
{
	struct scene *scenes[] = {a, b};
	struct profile_process *all[2];
	struct diff_options options = {.name_a = "a", .name_b = "b", .fails = true};
	struct diff *diff;
	char *text;
	FILE *out = open_memstream(&text, size);

	for (size_t i = 0; i < 2; i++) {
		all[i] = calloc(processes, sizeof(*all[i]));
		for (size_t j = 0; j < processes; j++)
			all[i][j] = scenes[i]->processes[0];
		scenes[i]->profile.processes = all[i];
		scenes[i]->profile.processes_count = processes;
		scenes[i]->profile.host_name = "node";
	}
	diff = compare(a, b, 0.05);
	cr_assert_eq(diff_writer_named("md")->write(out, diff, &options), 0);
	fclose(out);
	diff__free(diff);
	free(all[0]);
	free(all[1]);
	return text;
}

static size_t count_in(const char *text, const char *part)
{
	size_t count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

/* Calls of 30 functions, half of which take twice the time; each of a name's characters has two
 * bytes. */
Test(diff, comment_fits)
{
	static const struct {
		size_t processes, shown, folds; /* "How changes are judged" is one */
		bool shortened;
	} cases[] = {{1, 1, 2, false}, {10, 10, 11, true}, {25, 25, 1, true}, {200, 5, 1, true}};
	static char names[MOST][201];
	struct scene a, b;

	scene_set(&a);
	scene_set(&b);
	for (size_t i = 0; i < 30; i++) {
		for (size_t j = 0; j < 200; j += 2)
			memcpy(names[i] + j, "é", 2);
		memcpy(names[i], (char[]){'A' + (char)i, '|'}, 2);
		add_function(&a, names[i], "m", 1000, 10 * MS, 1e5);
		add_function(&b, names[i], "m", 1000, i % 2 ? 20 * MS : 10 * MS, 1e5);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t count = cases[i].processes, size, folds;
		char *text = comment_of(&a, &b, count, &size), rest[32];

		folds = count_in(text, "<details>");
		snprintf(rest, sizeof(rest), "%zu more processes", count - cases[i].shown);
		cr_expect_leq(size, 65000, "%zu: %zu", count, size);
		cr_expect_eq(count_in(text, "#### "), cases[i].shown, "%zu: %zu", count,
			     count_in(text, "#### "));
		cr_expect_eq(folds, cases[i].folds, "%zu: %zu", count, folds);
		cr_expect_eq(count_in(text, "</details>"), folds);
		cr_expect_eq(count_in(text, "Shortened to fit"), cases[i].shortened, "%zu", count);
		cr_expect_eq(count_in(text, rest), count > cases[i].shown);
		cr_expect_gt(count_in(text, "| regression |"), 0);
		free(text);
	}
}

/* Twice the work a call in 1.5 times the time: the rate went up by a third. */
Test(diff, rates)
{
	const struct diff_function *f;
	struct scene a, b;
	struct diff *diff;
	struct profile_row *row;

	scene_set(&a);
	scene_set(&b);
	row = add_function(&a, "mm", "m", 10, 10 * MS, 1e5);
	row->inclusive = (struct profile_cost){.flops = 10 * 1000000000ULL, .counted_count = 10};
	row->computing_ns = row->total_ns;
	row = add_function(&b, "mm", "m", 10, 15 * MS, 1e5);
	row->inclusive = (struct profile_cost){.flops = 20 * 1000000000ULL, .counted_count = 10};
	row->computing_ns = row->total_ns;
	diff = compare(&a, &b, 0.05);
	f = only_function(diff);
	near(f->flops_per_s.a, 1e11);
	near(diff_change(f->flops_per_s), 1.0 / 3);
	near(diff_change(f->flops_per_call), 1);
	cr_expect_eq(f->time, DIFF_WORSE);
	cr_expect_eq(f->rate, DIFF_BETTER);
	diff__free(diff);
}

/* The overhead budget stopped the counting of FLOPs after a quarter of A's second. */
Test(diff, flops_are_over_the_time_in_which_they_were_counted)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	a.processes[0].compute = b.processes[0].compute =
		(struct profile_compute){.measured = true,
					 .cost = {.flops = 6000000000, .counted_count = 6},
					 .until_flops = 6000000000};
	a.processes[0].compute.until_ns = S / 4;
	diff = compare(&a, &b, 0.05);
	near(diff->processes[0].flops_per_s.a, 24e9);
	near(diff->processes[0].flops_per_s.b, 6e9);
	diff__free(diff);
}

Test(diff, python_lines)
{
	const struct profile_frame of_a = {.function = "step", .file = "/a.py", .line = 1};
	const struct profile_frame of_b = {.function = "step", .file = "/b.py", .line = 2};
	const struct profile_python_caller a_caller = {.frame = &of_a, .total_ns = MS};
	const struct profile_python_caller b_caller = {.frame = &of_b, .total_ns = MS};
	struct profile_row *a_row, *b_row;
	struct text verdict = {0};
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	a_row = add_function(&a, "f", "m", 10, 10 * MS, 1e6);
	b_row = add_function(&b, "f", "m", 10, 12 * MS, 1e6);
	a_row->python_callers = &a_caller;
	a_row->python_callers_count = 1;
	diff = compare(&a, &b, 0.05);
	cr_expect_eq(only_function(diff)->line, &of_a);
	diff__free(diff);
	b_row->python_callers = &b_caller;
	b_row->python_callers_count = 1;
	diff = compare(&a, &b, 0.05);
	cr_expect_eq(only_function(diff)->line, &of_b);
	diff_say_verdict(&verdict, diff);
	cr_expect(strstr(text_peek(&verdict), "12.0 ms), called in "), "%s", text_peek(&verdict));
	cr_expect(strstr(text_peek(&verdict), "step (b.py:2)"), "%s", text_peek(&verdict));
	text_clear(&verdict);
	diff__free(diff);
}

static void set_peak(struct scene *s, uint64_t peak_bytes)
{
	s->memory[0] = (struct profile_memory){.domain = PERFX_DOMAIN_HOST,
					       .peak_bytes = peak_bytes,
					       .allocs = {100, 100, 100},
					       .allocated_bytes = {4 * peak_bytes, 0, 0},
					       .recorded_ns = S,
					       .hotspots = s->hotspots};
	s->processes[0].memory_count = 1;
}

static struct diff_memory memory_of(uint64_t a_bytes, uint64_t b_bytes, unsigned bound)
{
	struct scene a, b;
	struct diff *diff;
	struct diff_memory memory;

	scene_set(&a);
	scene_set(&b);
	set_peak(&a, a_bytes);
	set_peak(&b, b_bytes);
	b.memory[0].bound = bound;
	diff = compare(&a, &b, 0.1);
	cr_assert_eq(diff->processes[0].memory_count, 1);
	memory = diff->processes[0].memory[0];
	cr_expect_eq(diff->regressions_count, memory.regressed);
	diff__free(diff);
	return memory;
}

Test(diff, peaks)
{
	struct diff_memory m = memory_of(100 * MIB, 120 * MIB, 0);

	near(diff_change(m.peak_bytes), 0.2);
	near(m.allocated_per_s.b, 480.0 * (double)MIB);
	cr_expect_eq(m.verdict, DIFF_WORSE);
	cr_expect(m.regressed);
	m = memory_of(100 * MIB, 108 * MIB, 0); /* 5 % is passed, the threshold is not */
	cr_expect_eq(m.verdict, DIFF_WORSE);
	cr_expect_not(m.regressed);
	m = memory_of(2 * MIB, 2 * MIB + 900000, 0); /* less than 1 MiB */
	cr_expect_eq(m.verdict, DIFF_SAME);
	cr_expect_not(m.regressed);
	cr_expect_eq(memory_of(120 * MIB, 100 * MIB, 0).verdict, DIFF_BETTER);
	m = memory_of(0, 2 * MIB, 0); /* from nothing */
	cr_expect_eq(m.verdict, DIFF_WORSE);
	cr_expect(m.regressed);
	m = memory_of(100 * MIB, 200 * MIB, PROFILE_MEMORY_LOST_FREES);
	cr_expect_eq(m.verdict, DIFF_UNJUDGED);
	cr_expect_not(m.exact || m.regressed);
}

static void set_place(struct scene *s, size_t i, const struct profile_frame *const *frames,
		      uint64_t bytes)
{
	s->hotspots[i] = (struct profile_hotspot){.frames = frames,
						  .frames_count = 1,
						  .allocator = "libc",
						  .allocs = {10, 10, 10},
						  .allocated_bytes = {bytes, bytes, bytes},
						  .live_at_peak_bytes = bytes};
	s->memory[0].hotspots_count = i + 1;
}

/* Another line and address is the same place; two places of one function are one. */
Test(diff, places)
{
	static const struct profile_frame f1 = {.function = "f", .module_base = "m", .line = 1},
					  f9 = {.function = "f",
						.module_base = "m",
						.line = 9,
						.address = 7,
						.offset = 7},
					  g = {.function = "g", .module_base = "m"};
	static const struct profile_frame *const in_f1[] = {&f1}, *const in_f9[] = {&f9},
						 *const in_g[] = {&g};
	const struct diff_process *p;
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	set_peak(&a, 100);
	set_peak(&b, 100);
	set_place(&a, 0, in_f1, 100);
	set_place(&a, 1, in_g, 7);
	set_place(&b, 0, in_f9, 200);
	set_place(&b, 1, in_f1, 300);
	diff = compare(&a, &b, 0.05);
	p = &diff->processes[0];
	cr_assert_eq(p->places_count, 2);
	near(p->places[0].live_at_peak_bytes.a, 100);
	near(p->places[0].live_at_peak_bytes.b, 500);
	near(p->places[0].allocated_per_s.b, 500);
	cr_expect_eq(p->places[1].in, DIFF_IN_A);
	cr_expect(isnan(p->places[1].live_at_peak_bytes.b));
	diff__free(diff);
}

Test(diff, nothing)
{
	struct scene a, b;
	struct diff *diff;

	scene_set(&a);
	scene_set(&b);
	b.profile.processes_count = 0;
	diff = compare(&a, &b, 0.05);
	cr_assert_eq(diff->processes_count, 1);
	cr_expect_eq(diff->compared_count, 0);
	diff__free(diff);
}
