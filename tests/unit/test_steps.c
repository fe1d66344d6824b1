// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include <criterion/criterion.h>

#define MS 1000000ull

enum { DATA = 1, ZERO, BACKWARD, STEP, OTHER_STEP, NAMED };

static unsigned class_of(uint32_t function)
{
	switch (function) {
	case DATA:
		return step_class(PERFX_SOURCE_TORCH, "enumerate(DataLoader)#_X.__next__",
				  PERFX_FUNCTION_RANGE);
	case ZERO:
		return step_class(PERFX_SOURCE_TORCH, "Optimizer.zero_grad#SGD.zero_grad",
				  PERFX_FUNCTION_RANGE);
	case BACKWARD:
		return step_class(PERFX_SOURCE_TORCH, "torch::autograd::Engine::execute", 0);
	case STEP:
		return step_class(PERFX_SOURCE_TORCH, "Optimizer.step#SGD.step",
				  PERFX_FUNCTION_RANGE);
	case OTHER_STEP:
		return step_class(PERFX_SOURCE_TORCH, "Optimizer.step#Adam.step",
				  PERFX_FUNCTION_RANGE);
	default:
		return step_class(PERFX_SOURCE_NVTX, "my step",
				  PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	}
}

/* Times in ms. */
static void call(struct steps *steps, uint32_t function, uint64_t from, uint64_t to)
{
	const struct perfx_span span = {.start_ns = from * MS,
					.duration_ns = (to - from) * MS,
					.process = 7,
					.function = function,
					.tid = 70};

	cr_assert_eq(steps_span(steps, &span, class_of(function)), 0);
}

static void expect(const struct steps *steps, uint32_t function, uint64_t count, uint64_t total,
		   const uint64_t phases[PROFILE_PHASES])
{
	struct profile_steps found = steps_of_process(steps, 7);
	uint64_t sum = 0;

	cr_assert_eq(found.count, count, "%lu steps", (unsigned long)found.count);
	cr_assert_eq(found.function, function);
	cr_assert_eq(found.total_ns, total * MS, "%lu", (unsigned long)found.total_ns);
	cr_assert_eq(found.avg_ns, total * MS / count);
	for (int i = 0; i < PROFILE_PHASES; i++) {
		cr_assert_eq(found.phases[i], phases[i] * MS, "phase %d: %lu", i,
			     (unsigned long)found.phases[i]);
		sum += found.phases[i];
	}
	cr_assert_eq(sum, found.total_ns);
}

#define PHASES(...) ((const uint64_t[PROFILE_PHASES]){__VA_ARGS__})
#define F	    [PROFILE_PHASE_FORWARD]
#define D	    [PROFILE_PHASE_DATA]
#define B	    [PROFILE_PHASE_BACKWARD]
#define O	    [PROFILE_PHASE_OPTIMIZER]
#define REST	    [PROFILE_PHASE_OTHER]

Test(steps, a_usual_loop)
{
	struct steps steps = {0};

	for (uint64_t t = 100; t < 1100; t += 100) {
		call(&steps, DATA, t, t + 10);
		call(&steps, ZERO, t + 12, t + 15);
		call(&steps, BACKWARD, t + 35, t + 75);
		call(&steps, STEP, t + 80, t + 90);
	}
	/* nine of 100 ms, and the first from its data on; between two lie 10 ms of nothing */
	expect(&steps, STEP, 10, 990, PHASES(D = 100, O = 130, F = 220, B = 400, REST = 140));
	steps_clear(&steps);
}

Test(steps, accumulated_gradients_without_data)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100) {
		call(&steps, BACKWARD, t + 10, t + 30);
		call(&steps, BACKWARD, t + 50, t + 70);
		call(&steps, STEP, t + 75, t + 100);
	}
	expect(&steps, STEP, 3, 290, PHASES(F = 80, B = 120, O = 75, REST = 15));
	steps_clear(&steps);
}

Test(steps, an_optimizer_that_calls_the_backward_pass)
{
	struct steps steps = {0};

	call(&steps, BACKWARD, 10, 20);
	call(&steps, BACKWARD, 30, 40);
	call(&steps, STEP, 5, 50);
	expect(&steps, STEP, 1, 45, PHASES(O = 45));
	steps_clear(&steps);
}

Test(steps, data_that_waits_inside_a_backward_pass)
{
	struct steps steps = {0};

	call(&steps, DATA, 10, 20);
	call(&steps, BACKWARD, 15, 30);
	call(&steps, STEP, 30, 40);
	expect(&steps, STEP, 1, 30, PHASES(D = 5, B = 15, O = 10));
	steps_clear(&steps);
}

Test(steps, validation_is_other)
{
	struct steps steps = {0};

	call(&steps, DATA, 0, 10);
	call(&steps, BACKWARD, 20, 30);
	call(&steps, STEP, 30, 40);
	call(&steps, DATA, 40, 50); /* and a forward pass of 20, without a backward one */
	call(&steps, DATA, 70, 80);
	call(&steps, BACKWARD, 85, 90);
	call(&steps, STEP, 95, 100);
	expect(&steps, STEP, 2, 100, PHASES(D = 30, F = 15, B = 15, O = 15, REST = 25));
	steps_clear(&steps);
}

Test(steps, the_optimizer_that_steps_least_often)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 1000; t += 100) {
		call(&steps, STEP, t + 10, t + 20);
		if (t % 200 == 100)
			call(&steps, OTHER_STEP, t + 30, t + 40);
	}
	cr_assert_eq(steps_of_process(&steps, 7).function, OTHER_STEP);
	cr_assert_eq(steps_of_process(&steps, 7).count, 5);
	cr_assert_eq(steps_of_process(&steps, 7).max_ns, 200 * MS);
	steps_clear(&steps);
}

Test(steps, a_named_range_before_an_optimizer_before_a_backward_pass)
{
	struct steps steps = {0};

	call(&steps, BACKWARD, 10, 20);
	cr_assert_eq(steps_of_process(&steps, 7).function, BACKWARD);
	call(&steps, STEP, 30, 40);
	cr_assert_eq(steps_of_process(&steps, 7).function, STEP);
	call(&steps, STEP, 50, 60);
	call(&steps, NAMED, 5, 70);
	cr_assert_eq(steps_of_process(&steps, 7).function, NAMED);
	cr_assert_eq(steps_of_process(&steps, 7).total_ns, 65 * MS);
	cr_assert_eq(steps_of_process(&steps, 8).count, 0);
	steps_clear(&steps);
}

/* Without names nothing is known but backward passes. */
/* What TensorFlow has traced of one function for several shapes. */
Test(steps, several_functions_of_the_name)
{
	struct steps steps = {0};

	call(&steps, NAMED, 0, 10);
	call(&steps, NAMED + 1, 20, 30);
	call(&steps, NAMED, 35, 40);
	expect(&steps, NAMED, 3, 40, PHASES(REST = 40));
	steps_clear(&steps);
}

Test(steps, backward_passes_alone)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100)
		call(&steps, BACKWARD, t + 10, t + 30);
	expect(&steps, BACKWARD, 3, 220, PHASES(B = 60, REST = 160));
	steps_clear(&steps);
}

/* A thread that never ends a step does not grow without end, one that does loses nothing. */
Test(steps, many)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 100000; t++)
		call(&steps, DATA, 10 * t, 10 * t + 5);
	for (uint64_t t = 100000; t < 200000; t++)
		call(&steps, STEP, 10 * t, 10 * t + 5);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 100000);
	cr_assert_eq(found.phases[PROFILE_PHASE_OPTIMIZER], 500000 * MS);
	steps_clear(&steps);
}

Test(steps, what_a_name_says)
{
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "f", 0), 0);
	cr_assert_eq(step_class(PERFX_SOURCE_NVTX, "Optimizer.step#SGD.step", PERFX_FUNCTION_RANGE),
		     STEP_RANGE);
	cr_assert_eq(step_class(PERFX_SOURCE_TORCH, "Optimizer.step#SGD.step", 0), 0);
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "train_step", PERFX_FUNCTION_STEP),
		     STEP_RANGE | STEP_BY_NAME << STEP_RANK_SHIFT);
}
