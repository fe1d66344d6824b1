// SPDX-License-Identifier: BSD-2-Clause
/* The roofline on numbers that can be checked by hand, and the findings that come of it. */
#include "analyze/roofline.h"
#include "profile_parts.h"

#include <string.h>

#define G 1000000000ULL

/* Ten seconds of one function on two of four cores, five of them in calls of 1 ms that compute
 * 50 GFLOP/s at 10 FLOP a byte; f32 peaks of 40 and 120 GFLOP/s, bandwidths of 10 and 16 GB/s. */
struct scene {
	struct profile profile;
	struct profile_process process;
	struct profile_row row;
	struct profile_function function;
	struct profile_compute_dtype dtype;
	struct perfx_peak peaks[4];
};

static void set_cost(struct scene *s, uint64_t flops, uint64_t bytes)
{
	s->row.cost = (struct profile_cost){.flops = flops, .bytes = bytes, .counted_count = 5000};
	s->row.inclusive = s->process.compute.cost = s->row.cost;
	s->dtype.flops = flops;
}

static void scene_set(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->function = part_function();
	s->function.source = PERFX_SOURCE_TORCH;
	s->row = part_row();
	s->row.calls_count = s->row.timed_count = 5000;
	s->row.total_ns = s->row.computing_ns = 5 * S;
	s->row.self_ns = 0; /* no finding but of computing */
	s->row.dtype = PERFX_DTYPE_F32;
	s->dtype = (struct profile_compute_dtype){.dtype = PERFX_DTYPE_F32};
	s->process = part_process(&s->row, NULL);
	s->process.cpu_ns = 15 * S;
	s->process.compute = (struct profile_compute){
		.measured = true, .counted_ns = 5 * S, .dtypes = &s->dtype, .dtypes_count = 1};
	set_cost(s, 250 * G, 25 * G);
	s->peaks[0] = (struct perfx_peak){.threads = 1,
					  .dtype = PERFX_DTYPE_F32,
					  .flops_per_s = 40 * G,
					  .bytes_per_s = 10 * G};
	s->peaks[1] = (struct perfx_peak){.threads = 4,
					  .dtype = PERFX_DTYPE_F32,
					  .flops_per_s = 120 * G,
					  .bytes_per_s = 16 * G};
	s->profile = part_profile(&s->process, &s->function, 1);
	s->profile.peaks = s->peaks;
	s->profile.peaks_count = 2;
	s->profile.overhead_percent = 0.01;
}

#define expect_near(got, want)                                                                  \
	do {                                                                                    \
		double got_ = (got), want_ = (want);                                            \
                                                                                                \
		cr_expect_float_eq(got_, want_, 1e-9 * want_ + 1e-12, "%.17g, not %.17g", got_, \
				   want_);                                                      \
	} while (0)

/* 1.5 cores on average: half of the time one at something else, then 2 that compute. */
Test(roofline, cores)
{
	struct scene s;

	scene_set(&s);
	expect_near(roofline_cores(&s.profile, &s.process), 2);
	/* four threads call, each on its own */
	s.process.compute.counted_ns = 40 * S;
	s.process.cpu_ns = 40 * S;
	expect_near(roofline_cores(&s.profile, &s.process), 1);
	/* no more than there are */
	s.process.compute.counted_ns = 2 * S;
	expect_near(roofline_cores(&s.profile, &s.process), 4);
	/* waiting takes none away */
	s.process.cpu_ns = 1 * S;
	expect_near(roofline_cores(&s.profile, &s.process), 1);
	/* too little of it to tell its threads from others: the average */
	s.process.compute.counted_ns = S / 2;
	s.process.cpu_ns = 25 * S;
	expect_near(roofline_cores(&s.profile, &s.process), 2.5);
	s.process.cpu_ns = PROFILE_ABSENT;
	expect_near(roofline_cores(&s.profile, &s.process), 0);
}

Test(roofline, roof_between_peaks)
{
	struct scene s;
	struct roof roof;

	scene_set(&s);
	roof = roofline_roof(&s.profile, PERFX_DTYPE_F32, 2.5);
	expect_near(roof.flops_per_s, 80e9);
	expect_near(roof.bytes_per_s, 13e9);
	expect_near(roof_ridge(&roof), 80.0 / 13);
	roof = roofline_whole_roof(&s.profile, PERFX_DTYPE_F32);
	expect_near(roof.cores, 4);
	expect_near(roof.flops_per_s, 120e9);
	/* one number of threads only */
	s.profile.peaks_count = 1;
	expect_near(roofline_roof(&s.profile, PERFX_DTYPE_F32, 3).flops_per_s, 40e9);
	s.profile.peaks_count = 0;
	expect_near(roofline_roof(&s.profile, PERFX_DTYPE_F32, 3).flops_per_s, 0);
}

Test(roofline, types_without_a_peak)
{
	struct scene s;
	struct roof roof;

	scene_set(&s);
	roof = roofline_roof(&s.profile, PERFX_DTYPE_BF16, 1);
	cr_expect_eq(roof.dtype, PERFX_DTYPE_F32);
	expect_near(roof.flops_per_s, 40e9);
	s.peaks[2] =
		(struct perfx_peak){.threads = 1, .dtype = PERFX_DTYPE_BF16, .flops_per_s = 90 * G};
	s.profile.peaks_count = 3;
	roof = roofline_roof(&s.profile, PERFX_DTYPE_BF16, 1);
	cr_expect_eq(roof.dtype, PERFX_DTYPE_BF16);
	expect_near(roof.flops_per_s, 90e9);
	expect_near(roof.bytes_per_s, 10e9);
	expect_near(roofline_roof(&s.profile, PERFX_DTYPE_C128, 1).flops_per_s, 0);
	expect_near(roofline_roof(&s.profile, PERFX_DTYPE_INTEGER, 1).flops_per_s, 0);
	expect_near(roofline_roof(&s.profile, PERFX_DTYPE_UNKNOWN, 1).flops_per_s, 0);
}

/* The user knows better than the measurement, in whatever order they come. */
Test(roofline, given_peaks_win)
{
	struct scene s;

	scene_set(&s);
	s.peaks[2] = (struct perfx_peak){.threads = 4,
					 .dtype = PERFX_DTYPE_F32,
					 .flops_per_s = 100 * G,
					 .origin = PERFX_PEAK_GIVEN};
	s.profile.peaks_count = 3;
	expect_near(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).flops_per_s, 100e9);
	s.peaks[0] = s.peaks[2];
	s.peaks[2] = s.peaks[1];
	expect_near(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).flops_per_s, 100e9);
	expect_near(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).bytes_per_s, 16e9);
}

/* Said wherever the peak is, until the user or a measurement says better. */
Test(roofline, estimated_peaks_are_marked)
{
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	cr_expect_not(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).estimated);
	s.peaks[0].origin = s.peaks[1].origin = PERFX_PEAK_ESTIMATED;
	cr_expect(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).estimated);
	cr_expect(roofline_whole_roof(&s.profile, PERFX_DTYPE_F16).estimated);
	set_cost(&s, 239 * G, 24 * G);
	analysis = analyze(&s.profile, NULL);
	cr_assert_eq(analysis->processes[0].findings_count, 1);
	cr_expect_not_null(strstr(analysis->processes[0].findings[0].evidence,
				  "peak of 4 cores (estimated); "));
	analysis__free(analysis);
	s.peaks[1].origin = PERFX_PEAK_GIVEN;
	cr_expect_not(roofline_whole_roof(&s.profile, PERFX_DTYPE_F32).estimated);
}

/* With 2 cores the peak is 66.7 GFLOP/s, the bandwidth 12 GB/s, the ridge 5.56 FLOP a byte. */
Test(roofline, classes)
{
	double peak = 40e9 + 80e9 / 3;
	struct roofline line;
	struct scene s;

	scene_set(&s);
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	expect_near(line.flops_per_s, 50e9);
	expect_near(line.intensity, 10);
	expect_near(line.attainable_flops_per_s, peak);
	cr_expect_eq(line.bound, ROOFLINE_COMPUTE);

	/* a quarter of the peak is 16.67 GFLOP/s: 83.33 G in five seconds */
	set_cost(&s, 84 * G, 8 * G);
	cr_expect_eq(roofline_of_row(&s.profile, &s.process, &s.row).bound, ROOFLINE_COMPUTE);
	set_cost(&s, 83 * G, 8 * G);
	cr_expect_eq(roofline_of_row(&s.profile, &s.process, &s.row).bound, ROOFLINE_OVERHEAD);

	/* two FLOP a byte: 24 GFLOP/s at most, a quarter of it is 30 G in five seconds */
	set_cost(&s, 32 * G, 16 * G);
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	expect_near(line.attainable_flops_per_s, 24e9);
	cr_expect_eq(line.bound, ROOFLINE_MEMORY);
	set_cost(&s, 28 * G, 14 * G);
	cr_expect_eq(roofline_of_row(&s.profile, &s.process, &s.row).bound, ROOFLINE_OVERHEAD);
}

/* What is not known is not classed. */
Test(roofline, unknown_stays_unknown)
{
	struct roofline line;
	struct scene s;

	scene_set(&s);
	s.profile.peaks_count = 0;
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	expect_near(line.flops_per_s, 50e9);
	cr_expect_eq(line.bound, ROOFLINE_UNKNOWN);
	cr_expect_null(roofline_class_name(line.bound));

	scene_set(&s);
	set_cost(&s, 250 * G, 0);
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_lt(line.intensity, 0);
	cr_expect_eq(line.bound, ROOFLINE_UNKNOWN);

	/* calls without time among those with operations */
	scene_set(&s);
	s.row.timed_count = 4950;
	cr_expect_gt(roofline_of_row(&s.profile, &s.process, &s.row).flops_per_s, 0);
	s.row.timed_count = 4949;
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_lt(line.flops_per_s, 0);
	cr_expect_eq(line.bound, ROOFLINE_UNKNOWN);

	scene_set(&s);
	set_cost(&s, 0, 100);
	cr_expect_lt(roofline_of_row(&s.profile, &s.process, &s.row).flops_per_s, 0);
}

/* A row whose calls all came by the overflow sums has the process's type. */
/* The time of what goes on after it is not the time of the work; and no host is faster than itself.
 */
Test(roofline, withheld)
{
	struct scene s;
	struct roofline line;

	scene_set(&s);
	s.row.inclusive.submitted_count = 1;
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_lt(line.flops_per_s, 0);
	cr_expect_eq(line.withheld, ROOFLINE_SUBMITTED);
	cr_expect_eq(line.bound, ROOFLINE_UNKNOWN);
	expect_near(line.intensity, 10);
	/* 150 GFLOP/s are 1.25 times the peak of all cores: still believed */
	set_cost(&s, 750 * G, 25 * G);
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_eq(line.withheld, ROOFLINE_RATED);
	expect_near(line.flops_per_s, 150e9);
	set_cost(&s, 751 * G, 25 * G);
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_lt(line.flops_per_s, 0);
	cr_expect_eq(line.withheld, ROOFLINE_ABOVE_PEAK);
	cr_expect_eq(line.bound, ROOFLINE_UNKNOWN);
	/* a unit for 16-bit types may be faster than f32, whose peak stands in */
	s.row.dtype = PERFX_DTYPE_BF16;
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_eq(line.withheld, ROOFLINE_RATED);
	/* untimed: nothing to be withheld */
	s.row.timed_count = 0;
	s.row.inclusive.submitted_count = 1;
	line = roofline_of_row(&s.profile, &s.process, &s.row);
	cr_expect_eq(line.withheld, ROOFLINE_RATED);
	cr_expect_str_eq(roofline_withheld_name(ROOFLINE_SUBMITTED), "submitted");
	cr_expect_str_eq(roofline_withheld_name(ROOFLINE_ABOVE_PEAK), "above_peak");
	cr_expect_null(roofline_withheld_name(ROOFLINE_RATED));
	/* the process's rate is over wall time */
	s.process.compute.cost.submitted_count = 1;
	expect_near(roofline_of_process(&s.profile, &s.process).flops_per_s, 75.1e9);
}

Test(roofline, type_of_overflow_rows)
{
	struct scene s;

	scene_set(&s);
	s.row.dtype = PERFX_DTYPE_UNKNOWN;
	cr_expect_eq(roofline_of_row(&s.profile, &s.process, &s.row).dtype, PERFX_DTYPE_F32);
	s.dtype.dtype = PERFX_DTYPE_UNKNOWN;
	cr_expect_eq(roofline_dtype(&s.process), PERFX_DTYPE_UNKNOWN);
}

Test(roofline, of_a_process)
{
	struct scene s;

	scene_set(&s);
	expect_near(roofline_of_process(&s.profile, &s.process).flops_per_s, 25e9);
	expect_near(roofline_mfu(&s.profile, PERFX_DTYPE_F32, 250 * G, 10 * S), 25.0 / 120);
	cr_expect_lt(roofline_mfu(&s.profile, PERFX_DTYPE_F64, 250 * G, 10 * S), 0);
	cr_expect_lt(roofline_mfu(&s.profile, PERFX_DTYPE_F32, 250 * G, 0), 0);
	expect_near(roofline_attributed(&s.process.compute), 1);
	s.process.compute.unread_ns = 15 * S;
	expect_near(roofline_attributed(&s.process.compute), 0.25);
	s.process.compute.counted_ns = s.process.compute.unread_ns = 0;
	cr_expect_lt(roofline_attributed(&s.process.compute), 0);
}

/* What the only finding suggests contains the word. */
static void expect_suggestion(const struct scene *s, const char *word)
{
	struct analysis *analysis = analyze(&s->profile, NULL);

	cr_assert_eq(analysis->processes[0].findings_count, 1);
	cr_expect(strstr(analysis->processes[0].findings[0].suggestion, word), "%s",
		  analysis->processes[0].findings[0].suggestion);
	analysis__free(analysis);
}

Test(roofline, a_good_program_has_no_finding)
{
	struct scene s;

	scene_set(&s);
	expect_kinds(s, "");
}

/* A fifth of 120 GFLOP/s are 240 G in ten seconds, a twentieth 60 G. */
Test(roofline, low_utilization)
{
	struct scene s;

	scene_set(&s);
	set_cost(&s, 240 * G, 24 * G);
	expect_kinds(s, "");
	set_cost(&s, 239 * G, 24 * G);
	expect_kinds(s, "LowUtilization/low");
	expect_suggestion(&s, "larger batches");
	s.row.computing_ns = 1 * S; /* of high rate, so that nothing else is said of it */
	set_cost(&s, 59 * G, 5 * G);
	expect_kinds(s, "LowUtilization/low");
	/* half of the time at most in calls that compute, then few cores */
	s.process.compute.counted_ns = 4999999999;
	expect_suggestion(&s, "between the operators");
	s.process.compute.counted_ns = 10 * S;
	expect_suggestion(&s, "number of threads");
	/* a program that has something else to do */
	s.process.compute.counted_ns = 999999999;
	expect_kinds(s, "");
}

Test(roofline, overhead_and_memory_bound)
{
	struct scene s;

	scene_set(&s);
	/* one thread, all the time: 40 GFLOP/s, 10 GB/s */
	s.profile.peaks_count = 1;
	s.process.cpu_ns = s.process.compute.counted_ns = 10 * S;
	set_cost(&s, 49 * G, 4 * G);
	s.row.computing_ns = 5 * S;
	expect_kinds(s, "OverheadBound/low");
	/* a twentieth of the roof: whatever it computes, something is wrong */
	set_cost(&s, 9 * G, 800000000);
	expect_kinds(s, "OverheadBound/medium");
	set_cost(&s, 90 * G, 45 * G);
	expect_kinds(s, "MemoryBound/low");
	expect_suggestion(&s, "memory bandwidth");
	/* a tenth of the wall time, or it is not worth a word */
	s.row.computing_ns = 999999999;
	set_cost(&s, 90 * G, 4 * G);
	expect_kinds(s, "");
	/* a caller: what else it does is not known */
	s.row.computing_ns = 5 * S;
	set_cost(&s, 90 * G, 45 * G);
	s.row.cost = (struct profile_cost){0};
	expect_kinds(s, "");
}

Test(roofline, small_operations_are_to_be_batched)
{
	struct scene s;

	scene_set(&s);
	s.profile.peaks_count = 1;
	s.process.cpu_ns = s.process.compute.counted_ns = 10 * S;
	s.row.computing_ns = s.row.total_ns = 9 * S;
	set_cost(&s, 81 * G, 8 * G);
	s.row.avg_ns = 99999;
	expect_suggestion(&s, "batch them");
	s.row.avg_ns = 100000;
	expect_suggestion(&s, "optimised");
}

Test(roofline, unread_compute)
{
	struct scene s;

	scene_set(&s);
	s.row.cost.unread_count = s.process.compute.cost.unread_count = 10;
	s.process.compute.unread_ns = 500000000;
	expect_kinds(s, "");
	s.process.compute.unread_ns = 600000000;
	expect_kinds(s, "UnreadCompute/low");
	s.process.compute.unread_ns = 5 * S;
	expect_kinds(s, "UnreadCompute/medium");
	expect_suggestion(&s, "--flops-rules");
	/* it waits */
	s.process.compute.counted_ns = s.process.compute.unread_ns = S / 4;
	expect_kinds(s, "UnreadCompute/low");
	/* nothing timed: by calls, 10 of 5010 */
	s.process.compute.counted_ns = s.process.compute.unread_ns = 0;
	expect_kinds(s, "");
	s.process.compute.cost.unread_count = 5000;
	expect_kinds(s, "UnreadCompute/medium");
}

/* Of calls that the budget stopped measuring a part is known: the count is not of the whole time.
 */
Test(roofline, unread_compute_of_a_part_of_the_time)
{
	struct perfx_reduced reduced = {.time_ns = 2 * S, .function = 1, .loses_cost = true};
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	s.row.cost.unread_count = s.process.compute.cost.unread_count = 10;
	s.process.compute.unread_ns = 5 * S;
	s.profile.reduced = &reduced;
	s.profile.reduced_count = 1;
	s.process.compute.until_ns = reduced.time_ns = s.process.from_ns + 2 * S;
	analysis = analyze(&s.profile, NULL);
	cr_assert_eq(analysis->processes[0].findings_count, 1);
	cr_expect(strstr(analysis->processes[0].findings[0].evidence, "later calls are not among"),
		  "%s", analysis->processes[0].findings[0].evidence);
	analysis__free(analysis);
}

/* Two steps were measured, but their FLOPs are not known where a call could not be read. */
Test(roofline, flops_of_a_part_of_the_steps)
{
	for (unsigned unread = 0; unread < 2; unread++) {
		struct profile profile = {0};
		struct profile_process process = {.compute.measured = true,
						  .steps = {.ends_count = 100,
							    .count = 100,
							    .divided.count = 100,
							    .costs_until_ns = 1,
							    .cost = {.steps_count = 2,
								     .counted_count = 10,
								     .unread_count = unread,
								     .flops = 1000}}};
		struct text text = {0};

		steps_add_why(&text, &profile, &process);
		cr_assert_not(text.failed);
		cr_expect_eq(text.length > 0, !unread, "%s", text.length ? text.data : "");
		if (!unread)
			cr_expect_not_null(
				strstr(text.data, "FLOPs are those of 2 of 100 whole steps: "));
		text_clear(&text);
	}
}
