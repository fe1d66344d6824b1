// SPDX-License-Identifier: BSD-2-Clause
/* Steps where nothing marks them: the period of the calls. */
#include "aggregate/period.h"
#include "replay_fixture.h"

#include <stdlib.h>

#define MAIN 4242

/* Calls that follow each other. */
struct sequence {
	struct period_calls calls;
	uint64_t now_ns;
	unsigned depths[16]; /* by context */
};

static unsigned depth_of(void *ctx, uint32_t context)
{
	return ((const struct sequence *)ctx)->depths[context];
}

/* OWN: a function that the user has named */
enum { GEMM = 1, SYRK, LAYER, HEAD, LOG, COMPILE, OWN, JITTED, SUMMARY };

/* A call of a function from one line (context), after a gap. */
static void call(struct sequence *s, uint32_t function, uint32_t context, uint64_t gap_ns,
		 uint64_t ns)
{
	cr_assert_eq(grow_array(&s->calls.list, &s->calls.capacity, s->calls.count + 1,
				sizeof(*s->calls.list)),
		     0);
	s->calls.list[s->calls.count++] = (struct outer_call){.start_ns = s->now_ns + gap_ns,
							      .end_ns = s->now_ns + gap_ns + ns,
							      .context = context,
							      .function = function,
							      .is_operation = function < OWN,
							      .compiled = function >= JITTED};
	s->now_ns += gap_ns + ns;
}

/* Frees the sequence. */
static bool find(struct sequence *s, struct period *period)
{
	int found = period_find(period, &s->calls, depth_of, s);

	free(s->calls.list);
	*s = (struct sequence){0};
	cr_assert_geq(found, 0);
	return found;
}

/* A reproducible number below `limit`. */
static uint64_t draw(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*state >> 33) % limit;
}

/* Two calls of a function and a long one: of calls that come once, the one with the most time. */
Test(period, numpy)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 30; i++) {
		call(&s, GEMM, 1, MS, 3 * MS);
		call(&s, GEMM, 2, MS, 3 * MS);
		call(&s, SYRK, 3, MS, 100 * MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, SYRK);
	cr_expect_float_eq(period.confidence, 1, 0.05);
}

/* A pass over the data begins and ends with other calls, from nearer to the main program than the
 * compiled function, and with a pause: that is a step all the same, however short. */
Test(period, compiled_calls_of_short_passes)
{
	struct sequence s = {.depths = {[1] = 8, [2] = 5, [3] = 5}};
	struct period period;

	for (unsigned i = 0; i < 90; i++) {
		if (i % 3 == 0)
			call(&s, COMPILE, 2, 100 * MS, MS);
		call(&s, LOG, 3, MS / 10, MS / 10);
		call(&s, JITTED, 1, MS / 10, MS / 10);
		if (i % 3 == 2)
			call(&s, LOG, 3, MS / 10, MS / 10);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, JITTED);
	cr_expect(period.compiled);
}

/* After each fourth step, a library calls other compiled functions to sum up a pass. */
Test(period, compiled_calls_between_passes)
{
	struct sequence s = {.depths = {[1] = 2, [2] = 4}};
	struct period period;

	for (unsigned i = 0; i < 80; i++) {
		call(&s, JITTED, 1, MS, 3 * MS);
		if (i % 4 == 3)
			call(&s, SUMMARY, 2, MS, MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, JITTED);
}

/* Two that take turns are one step. */
Test(period, compiled_calls_that_take_turns)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 80; i++) {
		call(&s, JITTED, 1, MS, 3 * MS);
		call(&s, JITTED, 1, MS, 3 * MS);
		call(&s, SUMMARY, 2, MS, 9 * MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, SUMMARY);
}

/* With other programs on the CPUs a step takes three times as long as another one. That of a
 * compiled function is one all the same; a library's call may be anything. */
Test(period, uneven_times)
{
	static const uint32_t functions[] = {GEMM, JITTED};

	for (unsigned k = 0; k < 2; k++) {
		struct sequence s = {0};
		struct period period = {0};

		for (unsigned i = 0; i < 60; i++)
			call(&s, functions[k], 1, (i % 2 ? 6 : 18) * MS, MS);
		cr_expect_eq(find(&s, &period), functions[k] == JITTED);
	}
}

/* Without the calls that ended by an exception, each third, two steps would look like one. */
Test(period, exceptions)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 90; i++) {
		bool is_unwound = i % 3 == 2;

		call(&s, is_unwound ? 0 : OWN, is_unwound ? 0 : 1, MS, is_unwound ? 0 : MS);
	}
	cr_expect_not(find(&s, &period));
	for (unsigned i = 0; i < 90; i++) {
		if (i == 50)
			call(&s, 0, 0, MS, 0);
		call(&s, OWN, 1, MS, MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, OWN);
}

/* A step that compiles comes from another line, and takes ten times as long. */
Test(period, one_in_twenty_compiles)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 200; i++) {
		if (i % 20 == 0)
			call(&s, COMPILE, 3, MS, 100 * MS);
		call(&s, OWN, i % 20 ? 1 : 2, MS, 10 * MS);
	}
	s.depths[1] = 3;
	s.depths[2] = s.depths[3] = 20;
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, OWN);
	cr_expect_eq(period.context, 0);
	cr_expect_float_eq(period.confidence, 0.95, 0.02);
}

/* A worker that multiplies matrices until it is told to end, or a layer in a loop; a function that
 * the user has named is a step. */
Test(period, a_repeated_operation)
{
	static const uint32_t functions[] = {GEMM, OWN, JITTED};

	for (unsigned k = 0; k < 3; k++) {
		struct sequence s = {0};
		struct period period = {0};

		for (unsigned i = 0; i < 200; i++) {
			if (i % 50 == 20)
				call(&s, SYRK, 2, MS, MS);
			call(&s, functions[k], 1, MS, 10 * MS);
		}
		cr_expect_eq(find(&s, &period), functions[k] != GEMM);
	}
}

/* Of five periods in six nothing is said. */
Test(period, doubtful)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 120; i++) {
		call(&s, GEMM, 1, MS, 10 * MS);
		if (i % 12 == 3 || i % 12 == 5)
			call(&s, SYRK, 2, MS, MS);
	}
	cr_assert(!find(&s, &period));
}

/* Without Python's frames layers and what follows them are equally deep. */
Test(period, a_repeated_layer)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 11; i++) {
		for (unsigned layer = 0; layer < 6; layer++)
			call(&s, LAYER, 1, 0, 5 * MS);
		call(&s, HEAD, 2, 0, 2 * MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, HEAD);
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned layer = 0; layer < 60; layer++)
			call(&s, LAYER, 1, 0, 5 * MS);
		call(&s, HEAD, 2, 0, 2 * MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, HEAD);
}

/* Layers in a loop of an inner function: the step is what the outer one does. */
Test(period, layers_are_no_steps)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 20; i++) {
		for (unsigned layer = 0; layer < 24; layer++)
			call(&s, LAYER, 1, 0, 5 * MS);
		call(&s, HEAD, 2, 0, 2 * MS);
	}
	s.depths[1] = 6;
	s.depths[2] = 4;
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, HEAD);
}

/* A function that is done once in twenty steps of a compiled one is no step. */
Test(period, logs_are_no_steps)
{
	struct sequence s = {0};
	struct period period;

	for (unsigned i = 0; i < 400; i++) {
		call(&s, JITTED, 1, MS, 10 * MS);
		if (i % 20 == 4)
			call(&s, LOG, 2, 0, MS);
	}
	cr_assert(find(&s, &period));
	cr_expect_eq(period.function, JITTED);
	cr_expect_gt(period.confidence, 0.9);
}

/* Near misses. */
Test(period, none)
{
	struct sequence s = {0};
	struct period period;
	uint64_t state = 1;

	/* functions in no order */
	for (unsigned i = 0; i < 2000; i++)
		call(&s, (uint32_t)draw(&state, 4) + 1, (uint32_t)draw(&state, 4) + 1, MS, 5 * MS);
	cr_expect_not(find(&s, &period));
	/* one function, now and then: the distance varies by a factor of a hundred */
	for (unsigned i = 0; i < 2000; i++)
		call(&s, GEMM, 1, MS << draw(&state, 7), MS);
	cr_expect_not(find(&s, &period));
	/* too few */
	for (unsigned i = 0; i < PERIODS_MIN; i++)
		call(&s, GEMM, 1, MS, 10 * MS);
	cr_expect_not(find(&s, &period));
	/* too short */
	for (unsigned i = 0; i < 2000; i++)
		call(&s, GEMM, 1, 0, MS / 2);
	cr_expect_not(find(&s, &period));
	/* periodic for a while, then other things */
	for (unsigned i = 0; i < 100; i++)
		call(&s, GEMM, 1, 0, 10 * MS);
	for (unsigned i = 0; i < 1000; i++)
		call(&s, (uint32_t)draw(&state, 4) + 2, (uint32_t)draw(&state, 4) + 2, 0, 5 * MS);
	cr_expect_not(find(&s, &period));
	cr_expect_not(find(&s, &period)); /* nothing */
}

static const struct profile_steps *steps_in(struct aggregate *aggregate)
{
	const struct profile *profile = aggregate__finish(aggregate);

	cr_assert_not_null(profile);
	return &profile->processes[0].steps;
}

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, MAIN, "python3", "python3\x1ftrain.py");
	stream_function(s, GEMM, "cblas_dgemm", "/libblas.so", PERFX_SOURCE_BLAS);
	stream_function(s, SYRK, "cblas_dsyrk", "/libblas.so", PERFX_SOURCE_BLAS);
	stream_context(s, 1, 0, GEMM, 1);
	stream_context(s, 2, 0, SYRK, 1);
}

/* Each 20 ms long: 1 GFLOP in 5 ms, then 10 ms, then nothing. */
static void run(struct stream *s, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		stream_compute(s, 1, MAIN, i * 20 * MS, 5 * MS, 5 * MS,
			       (struct stream_cost){PERFX_COST_COUNTED, PERFX_DTYPE_F64, 1000000000,
						    1000});
		stream_call(s, 2, MAIN, i * 20 * MS + 5 * MS, 10 * MS, 10 * MS, 0);
	}
}

static void expect_steps(const struct profile_steps *steps, uint64_t count)
{
	cr_expect_eq(steps->count, count, "%lu", (unsigned long)steps->count);
	cr_expect_eq(steps->found_by, PROFILE_STEPS_BY_PERIOD);
	cr_expect_eq(steps->function, SYRK);
	cr_expect_eq(steps->tid, MAIN);
	cr_expect_eq(steps->avg_ns, 20 * MS);
	cr_expect_eq(steps->max_ns, 20 * MS);
	cr_expect_gt(steps->confidence, 0.9);
	cr_expect_eq(steps->phases[PROFILE_PHASE_OTHER], count * 15 * MS);
	cr_expect_eq(steps->phases[PROFILE_PHASE_UNTRACED], count * 5 * MS);
	cr_expect_eq(steps->cost.steps_count, count);
	cr_expect_eq(steps->cost.flops, count * 1000000000);
	cr_expect_eq(steps->cost.thread_flops, count * 1000000000);
	cr_expect_eq(steps->times_count, count);
}

/* A short program is judged at its end. Before its first step's begin nothing is known. */
Test(period, at_the_end)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	run(&s, 0, 40);
	aggregate = replay(&s);
	expect_steps(steps_in(aggregate), 39);
	expect_steps(steps_in(aggregate), 39); /* once more */
	aggregate__free(aggregate);
}

/* Samples of the steps' thread in the time of the steps, in order, whatever order they come in. */
Test(period, samples_in_steps)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;
	struct perfx_sample sample = {
		.interval_ns = 10 * MS, .process = 1, .tid = MAIN, .state = PERFX_SAMPLE_ON_CPU};

	begin(&s);
	run(&s, 0, 40);
	stream_sample(&s, 700 * MS, sample);
	stream_sample(&s, 300 * MS, sample);
	stream_sample(&s, 14 * MS, sample);  /* before the first step */
	stream_sample(&s, 799 * MS, sample); /* after the last one */
	sample.tid = MAIN + 1;
	stream_sample(&s, 310 * MS, sample);
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_assert_eq(steps->samples_count, 2);
	cr_expect_eq(steps->samples[0].time_ns, STREAM_START + 300 * MS);
	cr_expect_eq(steps->samples[1].time_ns, STREAM_START + 700 * MS);
	cr_expect_eq(steps->samples[0].what.ns, 10 * MS);
	cr_expect_eq(steps->samples[0].what.count, 1);
	aggregate__free(aggregate);
}

/* A long one meanwhile: no step of the past is missing, and what comes is counted as it comes. */
Test(period, meanwhile)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	run(&s, 0, 2000);
	aggregate = replay(&s);
	expect_steps(steps_in(aggregate), 1999);
	aggregate__free(aggregate);
}

/* Of very many only the last ones are there one by one; all are counted. */
Test(period, the_last_steps)
{
	const uint64_t count = PROFILE_STEP_TIMES_MAX + 1000;
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;
	uint64_t end_ns = STREAM_START + count * 20 * MS + 15 * MS;

	begin(&s);
	run(&s, 0, (unsigned)count + 1);
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_expect_eq(steps->count, count);
	cr_expect_gt(steps->series_each, 1);
	cr_assert_eq(steps->times_count, PROFILE_STEP_TIMES_MAX / 2 + 1000);
	cr_expect_eq(steps->times[steps->times_count - 1].to_ns, end_ns);
	cr_expect_eq(steps->times[0].from_ns, end_ns - steps->times_count * 20 * MS);
	aggregate__free(aggregate);
}

/* A step that is marked counts, whenever it comes. */
Test(period, marked_steps_count)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	run(&s, 0, 1000);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "", ""),
		   .function = LAYER, .source = PERFX_SOURCE_PERFX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(&s, 3, 0, LAYER, 1);
	for (unsigned i = 1000; i < 1010; i++)
		stream_call(&s, 3, MAIN, i * 20 * MS, 20 * MS, 20 * MS, 0);
	aggregate = replay(&s);
	cr_expect_eq(steps_in(aggregate)->found_by, PROFILE_STEPS_BY_RANGE);
	cr_expect_eq(steps_in(aggregate)->count, 10);
	aggregate__free(aggregate);
}

/* Calls inside of calls are no period of their own; but they are while these go on. */
Test(period, in_a_call_that_goes_on)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	run(&s, 0, 40);
	aggregate = replay(&s);
	expect_steps(steps_in(aggregate), 39);
	aggregate__free(aggregate);

	s = (struct stream){0};
	begin(&s);
	run(&s, 0, 40);
	stream_function(&s, HEAD, "train", "/train.so", PERFX_SOURCE_SYMBOL);
	stream_context(&s, 4, 0, HEAD, 1);
	stream_call(&s, 4, MAIN, 0, 40 * 20 * MS, 0, 0);
	aggregate = replay(&s);
	cr_expect_eq(steps_in(aggregate)->count, 0);
	aggregate__free(aggregate);
}

/* Whatever else the overhead budget gives up, calls that end steps are counted to the end. A period
 * from before still holds; but periods with calls that went and without them are not alike. */
Test(period, reduced_probes)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	run(&s, 0, 12);
	stream_reduced(&s, GEMM, 12 * 20 * MS, PERFX_REDUCED_REMOVED, true);
	for (unsigned i = 12; i < 400; i++)
		stream_call(&s, 2, MAIN, i * 20 * MS + 5 * MS, 10 * MS, 10 * MS, 0);
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_expect_eq(steps->function, SYRK);
	cr_expect_eq(steps->count, 399, "%lu", (unsigned long)steps->count);
	cr_expect_eq(steps->total_ns, 399 * 20 * MS);
	cr_expect_eq(steps->divided.count, 11);
	cr_expect_eq(steps->cost.steps_count, 11);
	cr_expect_eq(steps->cost.flops, 11000000000);
	aggregate__free(aggregate);

	/* too little comes after the reduction to find a period in it */
	s = (struct stream){0};
	begin(&s);
	run(&s, 0, 40);
	stream_reduced(&s, GEMM, 40 * 20 * MS, PERFX_REDUCED_REMOVED, true);
	for (unsigned i = 40; i < 45; i++)
		stream_call(&s, 2, MAIN, i * 20 * MS + 5 * MS, 10 * MS, 10 * MS, 0);
	aggregate = replay(&s);
	cr_expect_eq(steps_in(aggregate)->count, 44);
	aggregate__free(aggregate);
}

/* A call that is only counted ends its step when it begins. From the end of the last timed call to
 * the first such entry there is no whole step. */
static void expect_counted(unsigned timed, unsigned all)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	run(&s, 0, timed);
	stream_reduced(&s, GEMM, timed * 20 * MS, PERFX_REDUCED_REMOVED, true);
	stream_reduced(&s, SYRK, timed * 20 * MS, PERFX_REDUCED_COUNTED, false);
	for (unsigned i = timed; i < all; i++)
		stream_call(&s, 2, MAIN, i * 20 * MS + 5 * MS, 0, 0, PERFX_SPAN_UNTIMED);
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_expect_eq(steps->ends_count, all);
	cr_expect_eq(steps->count, all - 2, "%lu", (unsigned long)steps->count);
	cr_expect_eq(steps->avg_ns, 20 * MS);
	cr_expect_eq(steps->max_ns, 20 * MS);
	aggregate__free(aggregate);
}

Test(period, counted_calls)
{
	expect_counted(12, 60);
	expect_counted(12, 2000);
	expect_counted(1000, 2000);
}

/* Steps are withheld whose ends were seen in less than half of the recording. One probe shows the
 * calls of all compiled functions, or those of others. */
static void expect_withheld(unsigned seen, unsigned removed, unsigned all, bool withheld)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	stream_function(&s, HEAD, "xla::PjRtLoadedExecutable::Execute", "/xla.so",
			PERFX_SOURCE_JAX);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("train", "", ""),
		   .function = JITTED, .source = PERFX_SOURCE_JAX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_COMPILED);
	stream_context(&s, 3, 0, JITTED, 1);
	for (unsigned i = 0; i < seen; i++) {
		if (i == removed)
			stream_reduced(&s, HEAD, i * 20 * MS, PERFX_REDUCED_REMOVED, true);
		stream_call(&s, 3, MAIN, i * 20 * MS, 10 * MS, 10 * MS, 0);
	}
	stream_end(&s, all * 20 * MS, 0);
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_expect_eq(steps->ends_count, withheld ? 0 : seen);
	cr_expect_eq(steps->ended_ns, seen == all ? 0 : STREAM_START + (uint64_t)removed * 20 * MS);
	aggregate__free(aggregate);
}

Test(period, ends_that_were_no_longer_seen)
{
	expect_withheld(60, 58, 100, false);
	expect_withheld(40, 38, 100, true);
	expect_withheld(100, 40, 100, false);
}

/* A compiled function returns while other threads still compute for it, sometimes earlier,
 * sometimes later: all that is computed from its begin to the next one's is one step. */
static void expect_whole_work(unsigned count)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("train", "", ""),
		   .function = JITTED, .source = PERFX_SOURCE_JAX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_COMPILED);
	stream_context(&s, 3, 0, JITTED, 1);
	for (unsigned i = 0; i < count; i++) {
		uint64_t at = i * 20 * MS;

		for (unsigned k = 0; k < 4; k++) {
			if (k == 1 + i % 2)
				stream_call(&s, 3, MAIN, at, (4 * k - 1) * MS, (4 * k - 1) * MS, 0);
			stream_compute(&s, 1, MAIN + 1, at + 4 * k * MS, MS, MS,
				       (struct stream_cost){PERFX_COST_COUNTED, PERFX_DTYPE_F32, 25,
							    100});
		}
	}
	aggregate = replay(&s);
	steps = steps_in(aggregate);
	cr_assert_eq(steps->function, JITTED);
	cr_expect_eq(steps->count, count - 1, "%lu", (unsigned long)steps->count);
	cr_expect_eq(steps->avg_ns, 20 * MS);
	cr_expect_eq(steps->max_ns, 20 * MS);
	cr_expect_eq(steps->cost.flops, (count - 1) * 100);
	for (size_t i = 0; i < steps->series_count; i++)
		cr_expect_eq(steps->series[i].flops, 100, "step %zu: %lu", i,
			     (unsigned long)steps->series[i].flops);
	aggregate__free(aggregate);
}

Test(period, compiled_functions_return_early)
{
	expect_whole_work(60);
	expect_whole_work(1500);
}

/* A worker's calls are periodic, too. */
Test(period, not_of_workers)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("worker", "python3"),
		   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = 2, .pid = 5000,
		   .ppid = MAIN);
	stream_context(&s, 5, 0, GEMM, 2);
	run(&s, 0, 40);
	for (unsigned i = 0; i < 1000; i++)
		stream_call(&s, 5, 5000, i * 20 * MS, 10 * MS, 10 * MS, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_not_null(profile);
	cr_assert_eq(profile->processes_count, 2);
	for (size_t i = 0; i < 2; i++)
		cr_expect_eq(profile->processes[i].steps.count,
			     profile->processes[i].pid == MAIN ? 39 : 0);
	aggregate__free(aggregate);
}

/* A thread of a pool makes so many calls that its period is found before that of the main thread.
 */
Test(period, of_the_main_thread)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	for (unsigned i = 0; i < 60; i++) {
		for (unsigned k = 0; k < 15; k++)
			stream_call(&s, 1 + k % 2, MAIN + 1, i * 20 * MS + k * MS, MS / 2, MS / 2,
				    0);
		stream_call(&s, 1, MAIN, i * 20 * MS + 16 * MS, MS, MS, 0);
		stream_call(&s, 2, MAIN, i * 20 * MS + 18 * MS, MS, MS, 0);
	}
	aggregate = replay(&s);
	steps = &only_process(aggregate)->steps;
	cr_expect_eq(steps->tid, MAIN);
	cr_expect_eq(steps->count, 59);
	aggregate__free(aggregate);
}

/* Threads of a server each answer their requests: the process has no steps. One that makes the
 * calls now and then has no part in them. */
Test(period, of_several_threads_of_a_pool)
{
	for (unsigned each = 1; each <= 3; each += 2) {
		struct stream s = {0};
		struct aggregate *aggregate;
		const struct profile_steps *steps;

		begin(&s);
		for (unsigned i = 0; i < 60; i++) {
			for (unsigned k = 0; k < (i % each ? 1 : 2); k++) {
				uint64_t at = i * 20 * MS + k * MS;

				stream_call(&s, 1, MAIN + 1 + k, at, 5 * MS, 5 * MS, 0);
				stream_call(&s, 2, MAIN + 1 + k, at + 6 * MS, 5 * MS, 5 * MS, 0);
			}
		}
		aggregate = replay(&s);
		steps = &only_process(aggregate)->steps;
		cr_expect_eq(steps->count, each == 1 ? 0 : 59);
		cr_expect_eq(steps->repeating_threads, each == 1 ? 2 : 0);
		cr_expect_eq(!steps->repeated, each != 1);
		aggregate__free(aggregate);
	}
}

/* One thread of a pool is longer in one call, the other in the other call. */
Test(period, of_threads_of_a_pool_that_differ)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	begin(&s);
	for (unsigned i = 0; i < 60; i++) {
		for (unsigned k = 0; k < 2; k++) {
			uint64_t at = i * 20 * MS + k * MS, first = k ? 2 * MS : 7 * MS;

			stream_call(&s, 1, MAIN + 1 + k, at, first, first, 0);
			stream_call(&s, 2, MAIN + 1 + k, at + 8 * MS, 9 * MS - first,
				    9 * MS - first, 0);
		}
	}
	aggregate = replay(&s);
	steps = &only_process(aggregate)->steps;
	cr_expect_eq(steps->count, 0);
	cr_expect_eq(steps->repeating_threads, 2);
	aggregate__free(aggregate);
}
