// SPDX-License-Identifier: BSD-2-Clause
/* Steps with and without probes: medians, noise, and whether estimate and observation agree. */
#include "aggregate/aggregate.h"
#include "report/document/compose.h"
#include "session/observation.h"
#include "stream_builder.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(observation, of_equal_steps_there_is_no_noise)
{
	const uint64_t steps_ns[] = {5, 5, 5, 5, 5, 5};
	struct unprobed unprobed = {steps_ns, steps_ns, COUNT(steps_ns), COUNT(steps_ns)};
	uint64_t noise_ns;

	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 5);
	cr_expect_eq(noise_ns, 0);
	/* one of the two times alone, and too few of both */
	unprobed.after_count = 2;
	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 5);
	unprobed.before_count = 2;
	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 0);
	cr_expect_eq(noise_ns, 0);
}

/* A machine that becomes slower: the middle, and half of the difference as noise. */
Test(observation, before_and_after_differ)
{
	const uint64_t before_ns[] = {100, 100, 100, 100}, after_ns[] = {140, 140, 140};
	struct unprobed unprobed = {before_ns, after_ns, COUNT(before_ns), COUNT(after_ns)};
	uint64_t noise_ns;

	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 120);
	cr_expect_eq(noise_ns, 20);
}

/* One step in ten is slow: the median does not care. Parts of 100 and of 130 are noise: four of
 * each, standard deviation 16.04, two standard errors 11.3. */
Test(observation, noise_is_what_parts_differ_by)
{
	uint64_t steady_ns[40], uneven_ns[40], noise_ns;
	struct unprobed unprobed = {steady_ns, steady_ns, 40, 40};

	for (size_t i = 0; i < 40; i++) {
		steady_ns[i] = i % 10 ? 100 : 1000;
		uneven_ns[i] = i / 10 % 2 ? 130 : 100;
	}
	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 100);
	cr_expect_eq(noise_ns, 0);
	unprobed = (struct unprobed){uneven_ns, uneven_ns, 40, 40};
	cr_expect_eq(unprobed_median(&unprobed, &noise_ns), 100);
	cr_expect_eq(noise_ns, 11);
}

#define STEP 1

static void unprobed(struct stream *s, uint32_t process, uint64_t step_ns, uint64_t noise_ns,
		     uint32_t cpu_wait_ppm)
{
	stream_plain(s, PERFX_KIND_UNPROBED_STEPS, struct perfx_unprobed_steps, .steps_count = 20,
		     .step_ns = step_ns, .noise_ns = noise_ns, .process = process, .function = STEP,
		     .tid = 7, .cpu_wait_ppm = cpu_wait_ppm);
}

/* Five steps of 10 ms that thread 7 waits for a CPU for a fifth of; hits for 1 ms of each. */
static void steps(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 70, 0, 0);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "train", ""),
		   .function = STEP, .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_STEP);
	stream_context(s, 1, 0, STEP, 1);
	for (uint64_t i = 0; i < 6; i++)
		stream_call(s, 1, 7, i * 10 * MS, 1 * MS, 1 * MS, 0);
	stream_probe(s, 1, STEP, PERFX_SITE_PUSH, false, 1000);
	stream_usage(s, 1, 0, 0, 0, 1);
	stream_usage(s, 1, 60 * MS, 60 * MS, 0, 1);
}

static const struct profile *profile_of(struct stream *s, struct aggregate **aggregate)
{
	*aggregate = aggregate__new();
	cr_assert_eq(stream_replay(s, *aggregate), 0);
	return aggregate__finish(*aggregate);
}

/* A data loader of two workers: one step in three finds its batch ready, one waits long. The few
 * steps without probes may all have been of that kind. */
Test(observation, steps_of_several_kinds_are_noise)
{
	const uint64_t waits_ms[] = {5, 30, 70};
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	stream_host(&s);
	stream_process(&s, 1, 70, 0, 0);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "train", ""),
		   .function = STEP, .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_STEP);
	stream_context(&s, 1, 0, STEP, 1);
	for (uint64_t i = 0, at_ns = 0; i < 40; at_ns += waits_ms[i++ % 3] * MS)
		stream_call(&s, 1, 7, at_ns, 1 * MS, 1 * MS, 0);
	stream_probe(&s, 1, STEP, PERFX_SITE_PUSH, false, 1000);
	unprobed(&s, 1, 5 * MS, 0, 0);
	profile = profile_of(&s, &aggregate);
	cr_expect_gt(profile_observed_percent(&profile->observed), 100);
	cr_expect_gt(profile->observed.noise_percent, 500);
	cr_expect_not(profile_observed_slower(&profile->observed));
	aggregate__free(aggregate);
	stream_clear(&s);
}

Test(observation, is_set_beside_the_estimate)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	steps(&s);
	unprobed(&s, 1, 8 * MS, 200000, 0);
	unprobed(&s, 2, 1 * MS, 0, 0); /* another process, which bears none of the hits */
	profile = profile_of(&s, &aggregate);
	cr_expect_eq(profile->observed.function, 0);
	cr_expect_eq(profile->observed.steps_without, 20);
	cr_expect_eq(profile->observed.steps_with, 6);
	cr_expect_eq(profile->observed.without_ns, 8 * MS);
	cr_expect_eq(profile->observed.with_ns, 10 * MS);
	cr_expect_float_eq(profile_observed_percent(&profile->observed), 25, 1e-9);
	cr_expect_float_eq(profile->observed.noise_percent, 2.5, 1e-9);
	/* about 1 % is estimated */
	cr_expect_eq(profile_slowdown_agreement(profile), SLOWDOWN_DISAGREES);
	cr_expect_float_eq(profile_slowdown_percent(profile), 25, 1e-9);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* Where steps were too rare, the time from one backward pass to the next is no step's. */
Test(observation, of_another_function_than_the_steps)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	steps(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("torch::autograd::Engine::execute", "libtorch_cpu.so", ""),
		   .function = 2, .source = PERFX_SOURCE_TORCH);
	stream_context(&s, 2, 0, 2, 1);
	for (uint64_t i = 0; i < 12; i++)
		stream_call(&s, 2, 7, (i * 5 + 2) * MS, 1 * MS, 1 * MS, 0);
	stream_plain(&s, PERFX_KIND_UNPROBED_STEPS, struct perfx_unprobed_steps, .steps_count = 20,
		     .step_ns = 4 * MS, .process = 1, .function = 2, .tid = 7);
	profile = profile_of(&s, &aggregate);
	cr_expect_eq(profile->processes[0].steps.function, STEP);
	cr_expect_eq(profile->observed.with_ns, 5 * MS);
	cr_expect_eq(profile->observed.function, 2);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* A thread that waited for a CPU a quarter of that time, and not at all while it was recorded: by
 * that alone steps would take 3/4 as long. */
Test(observation, other_programs_are_noise)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	steps(&s);
	unprobed(&s, 1, 10 * MS, 0, 250000);
	profile = profile_of(&s, &aggregate);
	cr_expect_float_eq(profile_observed_percent(&profile->observed), 0, 1e-9);
	cr_expect_float_eq(profile->observed.noise_percent, 100.0 / 3, 1e-9);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* A worker of a data loader that had no CPU for half of the time: steps that wait for it may take
 * twice as long. */
Test(observation, workers_without_a_cpu_are_noise)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	steps(&s);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("worker", "worker"),
		   .time_ns = STREAM_START, .start_boot_ns = 41 * S, .process = 2, .pid = 71,
		   .ppid = 70);
	stream_thread(&s, 2, 71, "worker", 'R', 0, 0, 0);
	stream_thread(&s, 2, 71, "worker", 'R', 60 * MS, 30 * MS, 30 * MS);
	unprobed(&s, 1, 8 * MS, 0, 0);
	profile = profile_of(&s, &aggregate);
	cr_expect_float_eq(profile_observed_percent(&profile->observed), 25, 1e-9);
	cr_expect_float_eq(profile->observed.noise_percent, 62.5, 1e-9);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* Five steps of 10 ms, five of 14 ms, and so on: the six eighths in the middle are 4 ms apart.
 * Steps of 8 ms without probes say nothing of the cost. */
Test(observation, a_machine_whose_speed_changes_is_noise)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	uint64_t at_ns = 0;

	stream_host(&s);
	stream_process(&s, 1, 70, 0, 0);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "train", ""),
		   .function = STEP, .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_STEP);
	stream_context(&s, 1, 0, STEP, 1);
	stream_call(&s, 1, 7, 0, 1 * MS, 1 * MS, 0);
	for (uint64_t i = 0; i < 40; i++) {
		at_ns += (i / 5 % 2 ? 14 : 10) * MS;
		stream_call(&s, 1, 7, at_ns, 1 * MS, 1 * MS, 0);
	}
	stream_probe(&s, 1, STEP, PERFX_SITE_PUSH, false, 1000);
	unprobed(&s, 1, 8 * MS, 0, 0);
	profile = profile_of(&s, &aggregate);
	cr_expect_geq(profile->observed.noise_percent, 100 * 2 / 1.7 * 4 / 8 - 1e-3);
	cr_expect_not(profile_observed_slower(&profile->observed));
	aggregate__free(aggregate);
	stream_clear(&s);
}

Test(observation, too_few_steps_are_none)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	steps(&s);
	unprobed(&s, 1, 0, 0, 0);
	cr_expect_eq(profile_of(&s, &aggregate)->observed.without_ns, 0);
	aggregate__free(aggregate);
	stream_clear(&s);
}

static struct profile slowdown(double estimated, uint64_t with_ns, double noise_percent)
{
	return (struct profile){.overhead_percent = estimated,
				.observed = {.without_ns = 1000,
					     .with_ns = with_ns,
					     .noise_percent = noise_percent}};
}

Test(observation, agrees_within_a_quarter_or_three_points_beyond_the_noise)
{
	const struct {
		double estimated;
		uint64_t with_ns;
		double noise_percent;
		enum slowdown_agreement agreement;
		double judged_by;
	} cases[] = {
		{2, 1049, 1, SLOWDOWN_AGREES, 4.9},	{2, 1051, 1, SLOWDOWN_DISAGREES, 5.1},
		{75, 2000, 1, SLOWDOWN_AGREES, 100},	{74, 2000, 1, SLOWDOWN_DISAGREES, 100},
		{100, 1750, 1, SLOWDOWN_AGREES, 75},	{100, 1740, 1, SLOWDOWN_DISAGREES, 74},
		{100, 2000, 25, SLOWDOWN_AGREES, 100},	{100, 2000, 26, SLOWDOWN_IN_NOISE, 100},
		{2, 1020, 3, SLOWDOWN_AGREES, 2},	{2, 1020, 4, SLOWDOWN_IN_NOISE, 2},
		{5, 1100, 4.9, SLOWDOWN_DISAGREES, 10}, {5, 1100, 5.1, SLOWDOWN_IN_NOISE, 10},
		{5, 1100, 11, SLOWDOWN_IN_NOISE, 5},	{1, 900, 2, SLOWDOWN_NOT_OBSERVED, 1},
		{1, 900, 12, SLOWDOWN_IN_NOISE, 1},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct profile profile =
			slowdown(cases[i].estimated, cases[i].with_ns, cases[i].noise_percent);

		cr_expect_eq(profile_slowdown_agreement(&profile), cases[i].agreement, "case %zu",
			     i);
		cr_expect_float_eq(profile_slowdown_percent(&profile), cases[i].judged_by, 1e-9,
				   "case %zu", i);
	}
}

Test(observation, is_said_in_words)
{
	const struct {
		struct profile profile;
		const char *words;
	} cases[] = {
		{slowdown(4.7, 749, 11.9),
		 ", not observed: steps were 25.1 % faster while they were traced, so the machine "
		 "changed by more than tracing costs: a step takes 749 ns, 1.00 µs without probes"},
		{slowdown(4.7, 900, 11.9), ", observed none beyond the noise of ±11.9 %: a step "
					   "takes 900 ns, 1.00 µs without "
					   "probes; the noise is too large to check the estimate"},
		{slowdown(4.7, 1200, 2),
		 ", observed 1.2× (+20 %) (noise ±2.0 %): a step takes 1.20 µs, 1.00 µs without "
		 "probes; they "
		 "disagree: the observed one counts, unless another program began or ended "
		 "meanwhile"},
		{slowdown(4.7, 1050, 2),
		 ", observed 5.0 % (noise ±2.0 %): a step takes 1.05 µs, 1.00 µs without probes"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct text text = {0};

		text_add_observed(&text, &cases[i].profile);
		cr_expect_str_eq(text_peek(&text), cases[i].words, "%s", text_peek(&text));
		text_clear(&text);
	}
}
