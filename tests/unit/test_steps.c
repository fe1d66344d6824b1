// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include <criterion/criterion.h>

#define MS 1000000ull

enum {
	DATA = 1,
	ZERO,
	BACKWARD,
	STEP,
	OTHER_STEP,
	OPERATOR,
	FORWARD_RANGE,
	ROUND,
	TRAINING,
	TEST,
	NAMED
};

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
	case OPERATOR:
		return STEP_TRACED | step_class(PERFX_SOURCE_TORCH, "at::_ops::mm::call", 0);
	case FORWARD_RANGE:
		return STEP_TRACED |
		       step_class(PERFX_SOURCE_TORCH, "forward", PERFX_FUNCTION_RANGE);
	case ROUND:
		return STEP_TRACED | step_class(PERFX_SOURCE_SYMBOL, "round", PERFX_FUNCTION_ROUND);
	case TRAINING:
		return STEP_TRACED | step_class(PERFX_SOURCE_TF, "train_function_5", 0);
	case TEST:
		return STEP_TRACED | step_class(PERFX_SOURCE_TF, "test_function_7", 0);
	default:
		return STEP_TRACED | step_class(PERFX_SOURCE_NVTX, "my step",
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

	cr_assert_eq(found.count, count, "%lu whole steps", (unsigned long)found.count);
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
#define U	    [PROFILE_PHASE_UNTRACED]

Test(steps, a_usual_loop)
{
	struct steps steps = {0};

	for (uint64_t t = 100; t < 1100; t += 100) {
		call(&steps, DATA, t, t + 10);
		call(&steps, ZERO, t + 12, t + 15);
		call(&steps, OPERATOR, t + 17, t + 19); /* inside the next one */
		call(&steps, OPERATOR, t + 16, t + 20);
		call(&steps, OPERATOR, t + 25, t + 31);
		call(&steps, BACKWARD, t + 35, t + 75);
		call(&steps, STEP, t + 80, t + 90);
		call(&steps, OPERATOR, t + 92, t + 95); /* loss.item() */
	}
	/* Nine of 100 ms: where the first one began is not known. Of each, forward is the
	 * operators' time; nothing was traced in 24 ms (10 before the backward pass, 5 after it, 2
	 * and 7 between steps). */
	expect(&steps, STEP, 9, 900, PHASES(D = 90, O = 117, F = 90, B = 360, REST = 27, U = 216));
	cr_assert_eq(steps_of_process(&steps, 7).ends_count, 10);
	steps_clear(&steps);
}

Test(steps, accumulated_gradients_without_data)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100) {
		call(&steps, OPERATOR, t + 2, t + 6);
		call(&steps, BACKWARD, t + 10, t + 30);
		call(&steps, FORWARD_RANGE, t + 32, t + 48);
		call(&steps, BACKWARD, t + 50, t + 70);
		call(&steps, OPERATOR, t + 72, t + 73); /* clips gradients */
		call(&steps, STEP, t + 75, t + 100);
	}
	expect(&steps, STEP, 2, 200, PHASES(F = 40, B = 80, O = 50, REST = 2, U = 28));
	steps_clear(&steps);
}

/* As Lightning and LBFGS do: forward and backward passes run in a closure, which the optimizer
 * calls. Its own work follows them. */
Test(steps, an_optimizer_that_calls_a_closure)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100) {
		call(&steps, OPERATOR, t + 10, t + 20);
		call(&steps, ZERO, t + 22, t + 25);
		call(&steps, BACKWARD, t + 30, t + 50);
		call(&steps, OPERATOR, t + 55, t + 60);
		call(&steps, BACKWARD, t + 60, t + 80);
		call(&steps, OPERATOR, t + 82, t + 85); /* the update */
		call(&steps, STEP, t + 5, t + 90);
	}
	expect(&steps, STEP, 2, 200, PHASES(F = 30, B = 80, O = 26, U = 64));
	steps_clear(&steps);
}

/* The budget stopped timing backward passes in the first step. A closure's are in the optimizer's
 * time, which says nothing from then on. */
Test(steps, a_closure_whose_backward_pass_is_not_timed)
{
	for (int in_closure = 0; in_closure < 2; in_closure++) {
		struct steps steps = {0};
		struct profile_steps found;

		for (uint64_t t = 100; t < 500; t += 100) {
			if (t == 100)
				call(&steps, BACKWARD, t + 30, t + 50);
			call(&steps, ZERO, t + 55, t + 60);
			call(&steps, STEP, in_closure ? t + 5 : t + 70, t + 90);
			cr_assert_eq(step_costs_limit(&steps.costs, 7,
						      &(struct step_limits){
							      .times_ns = 160 * MS,
							      .backward_ns = 160 * MS,
						      }),
				     0);
		}
		found = steps_of_process(&steps, 7);
		cr_assert_eq(found.count, 3);
		cr_expect_lt(steps_phase_ns(&found, PROFILE_PHASE_BACKWARD), 0);
		if (in_closure)
			cr_expect_lt(steps_phase_ns(&found, PROFILE_PHASE_OPTIMIZER), 0);
		else
			cr_expect_eq(steps_phase_ns(&found, PROFILE_PHASE_OPTIMIZER), 25 * MS);
		cr_expect_eq(found.phases[PROFILE_PHASE_OPTIMIZER], in_closure ? 0 : 75 * MS);
		steps_clear(&steps);
	}
}

/* LBFGS evaluates its closure several times in a step, and works after each backward pass until the
 * closure resets the gradients anew. Lightning's closure resets them after the forward pass: then
 * only what follows the last backward pass is known to be the optimizer's. */
Test(steps, an_optimizer_that_calls_a_closure_again)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100) {
		call(&steps, ZERO, t + 2, t + 4);
		call(&steps, OPERATOR, t + 5, t + 10);
		call(&steps, BACKWARD, t + 10, t + 20);
		call(&steps, OPERATOR, t + 30, t + 35); /* a direction */
		call(&steps, ZERO, t + 50, t + 52);
		call(&steps, OPERATOR, t + 53, t + 60);
		call(&steps, BACKWARD, t + 60, t + 70);
		call(&steps, STEP, t, t + 90);
	}
	expect(&steps, STEP, 2, 200, PHASES(F = 24, B = 40, O = 108, U = 28));
	steps_clear(&steps);
	for (uint64_t t = 0; t < 300; t += 100) {
		for (uint64_t i = 0; i < 80; i += 40) {
			call(&steps, OPERATOR, t + i + 1, t + i + 20);
			call(&steps, ZERO, t + i + 20, t + i + 22);
			call(&steps, BACKWARD, t + i + 22, t + i + 40);
		}
		call(&steps, STEP, t, t + 90);
	}
	expect(&steps, STEP, 2, 200, PHASES(F = 76, B = 72, O = 28, U = 24));
	steps_clear(&steps);
}

/* A recording that begins within a step says nothing of that one but that it ended. */
Test(steps, the_first_end_makes_no_step)
{
	struct steps steps = {0};
	struct profile_steps found;

	call(&steps, BACKWARD, 10, 20);
	call(&steps, STEP, 20, 30);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.ends_count, 1);
	cr_assert_eq(found.count, 0);
	cr_assert_eq(found.function, STEP);
	cr_assert_eq(found.total_ns, 0);
	steps_clear(&steps);
}

/* Each recording window has such a step. */
Test(steps, windows_begin_within_a_step)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 200; t += 100) {
		cr_assert_eq(steps_recording_window(&steps, (t + 1) * MS), 0);
		for (uint64_t i = 10; i < 50; i += 10)
			call(&steps, STEP, t + i, t + i + 5);
	}
	cr_assert_eq(steps_of_process(&steps, 7).ends_count, 8);
	expect(&steps, STEP, 6, 60, PHASES(O = 30, U = 30));
	steps_clear(&steps);
}

/* Another program mapped the library: for a while no call of it was seen, ends of steps neither. */
Test(steps, a_gap_is_in_no_step)
{
	struct steps steps = {0};

	for (uint64_t i = 10; i <= 50; i += 10)
		call(&steps, STEP, i, i + 5);
	cr_assert_eq(steps_gap(&steps, 7, 100 * MS), 0);
	cr_assert_eq(steps_gap(&steps, 8, 125 * MS), 0);
	for (uint64_t i = 110; i <= 150; i += 10)
		call(&steps, STEP, i, i + 5);
	cr_assert_eq(steps_of_process(&steps, 7).ends_count, 10);
	expect(&steps, STEP, 8, 80, PHASES(O = 40, U = 40));
	steps_clear(&steps);
}

/* A round of boosting is a step from its begin on. */
Test(steps, rounds_of_boosting)
{
	struct steps steps = {0};

	for (uint64_t t = 10; t < 310; t += 100) {
		call(&steps, OPERATOR, t + 20, t + 30);
		call(&steps, ROUND, t, t + 90);
	}
	expect(&steps, ROUND, 3, 290, PHASES(REST = 270, U = 20));
	cr_assert_eq(steps_of_process(&steps, 7).found_by, PROFILE_STEPS_BY_CALL);
	steps_clear(&steps);
}

Test(steps, data_that_waits_inside_a_backward_pass)
{
	struct steps steps = {0};

	call(&steps, STEP, 5, 10);
	call(&steps, DATA, 10, 20);
	call(&steps, BACKWARD, 15, 30);
	call(&steps, STEP, 30, 40);
	expect(&steps, STEP, 1, 30, PHASES(D = 5, B = 15, O = 10));
	steps_clear(&steps);
}

Test(steps, validation_is_other)
{
	struct steps steps = {0};

	call(&steps, STEP, 0, 1);
	call(&steps, DATA, 1, 10);
	call(&steps, BACKWARD, 20, 30);
	call(&steps, STEP, 30, 40);
	call(&steps, DATA, 40, 50); /* and a forward pass of 18 in 20, without a backward one */
	call(&steps, OPERATOR, 51, 69);
	call(&steps, DATA, 70, 80);
	call(&steps, OPERATOR, 80, 84);
	call(&steps, BACKWARD, 85, 90);
	call(&steps, STEP, 95, 100);
	expect(&steps, STEP, 2, 99, PHASES(D = 29, F = 4, B = 15, O = 15, REST = 18, U = 18));
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
	cr_assert_eq(steps_of_process(&steps, 7).ends_count, 5);
	cr_assert_eq(steps_of_process(&steps, 7).max_ns, 200 * MS);
	steps_clear(&steps);
}

/* A step of an optimizer, which is one of those of its class; times in ms. */
static void optimize(struct steps *steps, uint16_t object, uint64_t from, uint64_t to)
{
	const struct perfx_span span = {.start_ns = from * MS,
					.duration_ns = (to - from) * MS,
					.process = 7,
					.function = STEP,
					.tid = 70,
					.object = object};

	cr_assert_eq(steps_span(steps, &span, class_of(STEP)), 0);
}

/* A GAN's discriminator and generator: a step of the program has a step of each. */
Test(steps, two_optimizers_of_a_class)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 1000; t += 100) {
		call(&steps, DATA, t, t + 10);
		call(&steps, OPERATOR, t + 10, t + 20);
		call(&steps, BACKWARD, t + 20, t + 40);
		optimize(&steps, 11, t + 40, t + 45);
		call(&steps, OPERATOR, t + 50, t + 55);
		call(&steps, BACKWARD, t + 60, t + 80);
		optimize(&steps, 12, t + 80, t + 90);
	}
	expect(&steps, STEP, 9, 900, PHASES(D = 90, F = 135, B = 360, O = 135, U = 180));
	steps_clear(&steps);
}

/* As a critic that is trained five times for each step of the generator. */
Test(steps, an_optimizer_that_steps_several_times_in_a_step)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 1000; t += 100) {
		for (uint64_t i = 0; i < 50; i += 10)
			optimize(&steps, 11, t + i, t + i + 5);
		optimize(&steps, 12, t + 80, t + 90);
	}
	cr_assert_eq(steps_of_process(&steps, 7).count, 9);
	cr_assert_eq(steps_of_process(&steps, 7).avg_ns, 100 * MS);
	steps_clear(&steps);
}

/* Each parameter has an optimizer: more than are kept apart. */
Test(steps, an_optimizer_of_each_parameter)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 1000; t += 100)
		for (uint16_t i = 0; i < 50; i++)
			optimize(&steps, 100 + i, t + i, t + i + 1);
	cr_assert_eq(steps_of_process(&steps, 7).count, 9);
	cr_assert_eq(steps_of_process(&steps, 7).avg_ns, 100 * MS);
	steps_clear(&steps);
}

/* Folds of a cross-validation, or parts of a curriculum: each step counts. */
Test(steps, optimizers_one_after_another)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 1000; t += 10)
		optimize(&steps, t < 500 ? 11 : t < 800 ? 12 : 13, t, t + 5);
	cr_assert_eq(steps_of_process(&steps, 7).count, 99);
	steps_clear(&steps);
}

/* In each epoch a hundred of one's and then ten of another one's: each counts. */
Test(steps, optimizers_that_step_in_blocks)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 11000; t += 10)
		optimize(&steps, t % 1100 < 1000 ? 11 : 12, t, t + 5);
	cr_assert_eq(steps_of_process(&steps, 7).count, 1099);
	steps_clear(&steps);
}

/* An optimizer of another class that steps at the start alone. */
Test(steps, an_optimizer_that_is_used_up)
{
	struct steps steps = {0};

	call(&steps, OTHER_STEP, 0, 5);
	call(&steps, OTHER_STEP, 10, 15);
	for (uint64_t t = 20; t < 1020; t += 10)
		optimize(&steps, 11, t, t + 5);
	cr_assert_eq(steps_of_process(&steps, 7).function, STEP);
	cr_assert_eq(steps_of_process(&steps, 7).count, 99);
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
	call(&steps, OPERATOR, 41, 42);
	expect(&steps, NAMED, 3, 40, PHASES(U = 40));
	steps_clear(&steps);
}

Test(steps, backward_passes_alone)
{
	struct steps steps = {0};

	for (uint64_t t = 0; t < 300; t += 100)
		call(&steps, BACKWARD, t + 10, t + 30);
	expect(&steps, BACKWARD, 2, 200, PHASES(B = 40, U = 160));
	steps_clear(&steps);
}

/* A thread that never ends a step does not grow without end, one that does loses nothing. */
Test(steps, many)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 100000; t++)
		call(&steps, DATA, 10 * t, 10 * t + 5);
	for (uint64_t t = 99999; t < 200000; t++)
		call(&steps, STEP, 10 * t, 10 * t + 5);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 100000);
	cr_assert_eq(found.phases[PROFILE_PHASE_OPTIMIZER], 500000 * MS);
	/* 64 at a time: 2048 times 32 would be too few */
	cr_assert_eq(found.series_each, 64);
	cr_assert_eq(found.series_count, 1563);
	cr_assert_eq(found.series[0].max_ns, 10 * MS);
	cr_assert_eq(found.series[1562].count, 100000 - 1562 * 64);
	for (size_t i = 0; i < found.series_count; i++) {
		const struct profile_step *step = &found.series[i];

		cr_assert_eq(step->total_ns, step->to_ns - step->from_ns);
		cr_assert(!i || step->from_ns == found.series[i - 1].to_ns);
		cr_assert_eq(step->phases[PROFILE_PHASE_OPTIMIZER], step->count * 5 * MS);
	}
	steps_clear(&steps);
}

/* Times in ms; state and tid of the call. */
static void compute(struct steps *steps, uint64_t from, uint64_t to, uint64_t flops,
		    enum perfx_cost_state state, uint32_t tid, bool late)
{
	const struct perfx_span span = {.start_ns = from * MS,
					.duration_ns = (to - from) * MS,
					.process = 7,
					.tid = tid,
					.cost_state = (uint8_t)state,
					.dtype = tid == 70 ? PERFX_DTYPE_F32 : PERFX_DTYPE_BF16,
					.flops = flops};

	cr_assert_eq(steps_cost(steps, &span, late), 0);
}

#define COUNTED PERFX_COST_COUNTED

/* All threads' calls that end in a step are in it; what ends before the first one or after the last
 * is in none. */
Test(steps, operations)
{
	struct steps steps = {0};
	struct profile_steps found;

	compute(&steps, 0, 9, 1000, COUNTED, 70, false);
	compute(&steps, 0, 10, 1000, COUNTED, 70, false);
	call(&steps, STEP, 5, 10);
	compute(&steps, 11, 12, 1, COUNTED, 70, false);
	compute(&steps, 5, 16, 2, COUNTED, 71, false);
	compute(&steps, 16, 17, 0, PERFX_COST_UNREAD, 70, false);
	compute(&steps, 16, 17, 99, PERFX_COST_INSIDE, 70, false);
	call(&steps, STEP, 20, 30);
	compute(&steps, 31, 32, 40, COUNTED, 70, false);
	compute(&steps, 29, 40, 80, COUNTED, 71, false);
	compute(&steps, 31, 32, 0, PERFX_COST_OPAQUE, 71, false);
	call(&steps, STEP, 35, 40);
	compute(&steps, 41, 42, 5000, COUNTED, 70, false);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 2);
	cr_assert_eq(found.series[0].flops, 3);
	cr_assert_eq(found.series[1].flops, 120);
	cr_assert_eq(found.cost.flops, 123);
	cr_assert_eq(found.cost.thread_flops, 41);
	cr_assert_eq(found.cost.dtype, PERFX_DTYPE_BF16);
	cr_assert_eq(found.cost.counted_count, 4);
	cr_assert_eq(found.cost.unread_count, 1);
	cr_assert_eq(found.cost.opaque_count, 1);
	cr_assert_eq(found.cost.steps_count, 2);
	cr_assert_eq(found.cost.ns, 30 * MS);
	cr_assert_eq(steps_of_process(&steps, 8).cost.flops, 0);
	steps_clear(&steps);
}

/* A step of the training that follows an evaluation has the evaluation's time in it, but what it
 * computed is not known, also where that is told late. */
Test(steps, operations_of_an_evaluation)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 60; t += 10) {
		bool tests = t == 20 || t == 30;

		compute(&steps, t, t + 8, tests ? 50 : 100, COUNTED, 71, false);
		call(&steps, tests ? TEST : TRAINING, t, t + 9);
	}
	compute(&steps, 20, 27, 1000, COUNTED, 71, true);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.function, TRAINING);
	cr_assert_eq(found.count, 4);
	cr_assert_eq(found.total_ns, 59 * MS);
	cr_expect_eq(found.cost.steps_count, 3, "%lu", (unsigned long)found.cost.steps_count);
	cr_expect_eq(found.cost.flops, 300, "%lu", (unsigned long)found.cost.flops);
	steps_clear(&steps);
}

/* Work that is told when the step is over goes to the step in which the call ended. */
Test(steps, operations_told_late)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t <= 30; t += 10)
		call(&steps, STEP, t, t + 5);
	compute(&steps, 15, 20, 7, COUNTED, 70, true);
	compute(&steps, 15, 26, 100, COUNTED, 71, true);
	compute(&steps, 0, 4, 1000, COUNTED, 70, true);
	compute(&steps, 36, 37, 3000, COUNTED, 70, true);
	call(&steps, STEP, 40, 45);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.series[0].flops, 0);
	cr_assert_eq(found.series[1].flops, 7);
	cr_assert_eq(found.series[2].flops, 100);
	cr_assert_eq(found.series[3].flops, 3000);
	cr_assert_eq(found.cost.flops, 3107);
	cr_assert_eq(found.cost.thread_flops, 3007);
	steps_clear(&steps);
}

/* So many calls before the first step's end that where it began among them is forgotten. */
Test(steps, operations_long_before_the_first)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 20000; t++)
		compute(&steps, t, t + 1, 1, COUNTED, 70, false);
	call(&steps, NAMED, 1, 20010);
	compute(&steps, 20011, 20012, 6, COUNTED, 70, false);
	call(&steps, NAMED, 20015, 20020);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 2);
	cr_assert_eq(found.cost.steps_count, 1);
	cr_assert_eq(found.cost.ns, 10 * MS);
	cr_assert_eq(found.cost.flops, 6);
	steps_clear(&steps);
}

/* Steps of 10 ms: a forward pass, a backward pass, an optimizer; 5 operations in each. */
static void train(struct steps *steps, uint64_t from, uint64_t to)
{
	for (uint64_t t = from; t < to; t += 10) {
		call(steps, OPERATOR, t + 1, t + 3);
		compute(steps, t + 1, t + 3, 5, COUNTED, 70, false);
		call(steps, BACKWARD, t + 4, t + 7);
		call(steps, STEP, t + 8, t + 10);
	}
}

/* Of a step in which a probe went, and of those after it, phases and operations are not known; but
 * ranges stay. */
Test(steps, a_probe_that_goes_within_a_step)
{
	const struct step_limits limits = {.times_ns = 45 * MS, .costs_ns = 45 * MS};
	struct steps steps = {0};
	struct profile_steps found;

	train(&steps, 0, 40);
	compute(&steps, 41, 43, 5, COUNTED, 70, false);
	cr_assert_eq(step_costs_limit(&steps.costs, 7, &limits), 0);
	for (uint64_t t = 40; t < 100; t += 10) {
		call(&steps, BACKWARD, t + 4, t + 7);
		call(&steps, STEP, t + 8, t + 10);
	}
	compute(&steps, 91, 93, 1000, COUNTED, 70, true);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.ends_count, 10);
	cr_assert_eq(found.count, 9);
	cr_assert_eq(found.total_ns, 90 * MS);
	cr_assert_eq(found.divided.count, 3);
	cr_assert_eq(found.divided.ns, 30 * MS);
	cr_assert_eq(found.divided.phases[PROFILE_PHASE_FORWARD], 6 * MS);
	cr_assert_eq(found.phases[PROFILE_PHASE_FORWARD], 6 * MS);
	cr_assert_eq(found.phases[PROFILE_PHASE_BACKWARD], 27 * MS);
	cr_assert_float_eq(steps_phase_ns(&found, PROFILE_PHASE_FORWARD), 2.0 * MS, 1);
	cr_assert_float_eq(steps_phase_share(&found, PROFILE_PHASE_FORWARD), 0.2, 1e-9);
	cr_assert_eq(found.cost.steps_count, 3);
	cr_assert_eq(found.cost.ns, 30 * MS);
	cr_assert_eq(found.cost.flops, 15);
	cr_assert_eq(found.series[2].flops, 5);
	cr_assert_eq(found.series[3].computed_count, 0);
	cr_assert_eq(found.series[8].flops, 0);
	cr_assert_eq(step_costs_limits(&steps.costs, 7).costs_ns, 45 * MS);
	cr_assert_eq(step_costs_limited_flops(&steps.costs, 7), 25);
	steps_clear(&steps);
}

/* The budget changes a probe: until that is done, it is not known what steps compute. */
Test(steps, a_probe_that_changes_within_a_step)
{
	struct steps steps = {0};
	struct profile_steps found;

	train(&steps, 0, 40);
	cr_assert_eq(step_costs_change(&steps.costs, 7, 45 * MS), 0);
	cr_assert_eq(step_costs_change(&steps.costs, 8, 150 * MS), 0); /* of another process */
	train(&steps, 40, 200);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 19);
	cr_assert_eq(found.cost.steps_count, 19 - 6);
	cr_assert_eq(found.cost.flops, (19 - 6) * 5);
	cr_assert_eq(found.series[2].computed_count, 1);
	for (size_t i = 3; i < 9; i++)
		cr_assert_eq(found.series[i].computed_count, 0);
	cr_assert_eq(found.series[9].computed_count, 1);
	steps_clear(&steps);
}

/* It went before a whole step had ended: there is no figure but those of ranges. */
Test(steps, a_probe_that_goes_at_once)
{
	const struct step_limits limits = {.times_ns = 5 * MS, .costs_ns = 5 * MS};
	struct steps steps = {0};
	struct profile_steps found;

	cr_assert_eq(step_costs_limit(&steps.costs, 7, &limits), 0);
	train(&steps, 0, 40);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 3);
	cr_assert_eq(found.divided.count, 0);
	cr_assert_eq(found.cost.steps_count, 0);
	cr_assert_eq(found.cost.counted_count, 0);
	cr_assert_lt(steps_phase_ns(&found, PROFILE_PHASE_FORWARD), 0);
	cr_assert_lt(steps_phase_ns(&found, PROFILE_PHASE_UNTRACED), 0);
	cr_assert_float_eq(steps_phase_ns(&found, PROFILE_PHASE_BACKWARD), 3.0 * MS, 1);
	steps_clear(&steps);
}

/* The optimizer ends the steps; the probes on backward passes went in the fifth step. */
Test(steps, backward_passes_that_are_no_longer_traced)
{
	const struct step_limits limits = {.times_ns = 45 * MS, .backward_ns = 45 * MS};
	struct steps steps = {0};
	struct profile_steps found;

	train(&steps, 0, 50);
	cr_assert_eq(step_costs_limit(&steps.costs, 7, &limits), 0);
	for (uint64_t t = 50; t < 100; t += 10)
		call(&steps, STEP, t + 8, t + 10);
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 9);
	cr_assert_float_eq(steps_phase_ns(&found, PROFILE_PHASE_BACKWARD), 3.0 * MS, 1,
			   "of the steps that were seen whole");
	cr_assert_eq(found.divided.count, 4);
	found.divided = (struct profile_step_division){0};
	cr_assert_lt(steps_phase_ns(&found, PROFILE_PHASE_BACKWARD), 0, "not of the others");
	cr_assert_float_eq(steps_phase_ns(&found, PROFILE_PHASE_OPTIMIZER), 2.0 * MS, 1);
	for (size_t i = 4; i < found.series_count; i++) {
		cr_assert_eq(found.series[i].phases[PROFILE_PHASE_BACKWARD], 0);
		cr_assert_eq(found.series[i].phases[PROFILE_PHASE_UNTRACED], 8 * MS);
	}
	steps_clear(&steps);
}

/* Tracing made the steps slow as long as it measured them whole: these say nothing of the others.
 */
Test(steps, measured_ones_that_are_not_typical)
{
	const struct step_limits limits = {.times_ns = 205 * MS, .costs_ns = 205 * MS};
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 200; t += 50) {
		call(&steps, BACKWARD, t + 10, t + 30);
		call(&steps, STEP, t + 40, t + 50);
	}
	cr_assert(steps_are_typical(&(struct profile_steps){.count = 9, .total_ns = 90}, 3, 33));
	cr_assert_eq(steps_of_process(&steps, 7).divided.count, 3);
	cr_assert_eq(step_costs_limit(&steps.costs, 7, &limits), 0);
	for (uint64_t t = 200; t < 500; t += 10) {
		call(&steps, BACKWARD, t + 4, t + 7);
		call(&steps, STEP, t + 8, t + 10);
	}
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 33);
	cr_assert_eq(found.total_ns, 450 * MS);
	cr_assert_not(steps_are_typical(&found, 3, 150 * MS));
	cr_assert_eq(found.divided.count, 0);
	cr_assert_lt(steps_phase_ns(&found, PROFILE_PHASE_FORWARD), 0);
	cr_assert_float_eq(steps_phase_ns(&found, PROFILE_PHASE_BACKWARD), 150.0 * MS / 33, 1);
	steps_clear(&steps);
}

/* A process that does not rest on the function keeps its figures. Of one that comes later it cannot
 * be known. */
Test(steps, probes_of_another_process)
{
	const struct step_limits limits = {.times_ns = 25 * MS, .costs_ns = 25 * MS}, none = {0};
	struct steps steps = {0};

	cr_assert_eq(step_costs_limit(&steps.costs, 7, &none), 0);
	step_costs_limit_later(&steps.costs, &limits);
	train(&steps, 0, 40);
	cr_assert_eq(steps_of_process(&steps, 7).cost.steps_count, 3);
	cr_assert_eq(steps_of_process(&steps, 7).divided.count, 3);
	cr_assert_eq(step_costs_limits(&steps.costs, 8).costs_ns, 25 * MS);
	steps_clear(&steps);
}

static void waiting_call(struct steps *steps, uint32_t function, uint64_t from, uint64_t to,
			 uint16_t depth, uint64_t off_cpu)
{
	const struct perfx_span span = {.start_ns = from * MS,
					.duration_ns = (to - from) * MS,
					.off_cpu_ns = off_cpu * MS,
					.process = 7,
					.function = function,
					.tid = 70,
					.depth = depth};

	cr_assert_eq(steps_span(steps, &span, class_of(function)), 0);
}

/* A wait in a call is in the calls around it, too, and counts once: in the step in which the
 * innermost of them ends. */
Test(steps, waits_of_a_step)
{
	struct steps steps = {0};
	struct profile_steps found;

	for (uint64_t t = 0; t < 400; t += 100) {
		waiting_call(&steps, DATA, t, t + 20, 0, 15);
		waiting_call(&steps, OPERATOR, t + 30, t + 40, 1, 5);
		waiting_call(&steps, OPERATOR, t + 40, t + 50, 1, 0);
		waiting_call(&steps, FORWARD_RANGE, t + 25, t + 60, 0, 7);
		waiting_call(&steps, STEP, t + 70, t + 90, 0, 1);
	}
	found = steps_of_process(&steps, 7);
	cr_assert_eq(found.count, 3);
	cr_expect_eq(found.off_cpu_ns, 3 * (15 + 7 + 1) * MS, "%lu",
		     (unsigned long)found.off_cpu_ns);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(found.series[i].off_cpu_ns, (15 + 7 + 1) * MS);
	steps_clear(&steps);
}

Test(steps, spread)
{
	struct steps steps = {0};

	for (uint64_t t = 0, i = 0; i < 4; i++) {
		uint64_t length = i % 2 ? 30 : 10;

		call(&steps, NAMED, t, t + length);
		t += length;
	}
	cr_assert_float_eq(steps_of_process(&steps, 7).stddev_ns, 10.0 * MS, 1);
	steps_clear(&steps);
}

Test(steps, what_a_name_says)
{
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "f", 0), 0);
	cr_assert_eq(step_class(PERFX_SOURCE_NVTX, "Optimizer.step#SGD.step", PERFX_FUNCTION_RANGE),
		     STEP_RANGE);
	cr_assert_eq(step_class(PERFX_SOURCE_TORCH, "Optimizer.step#SGD.step", 0), 0);
	cr_assert_eq(step_class(PERFX_SOURCE_TF, "TFE_Py_TapeGradient", PERFX_FUNCTION_RANGE),
		     PROFILE_PHASE_BACKWARD | STEP_RANGE | STEP_BY_BACKWARD << STEP_RANK_SHIFT);
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "train_step", PERFX_FUNCTION_STEP),
		     STEP_RANGE | STEP_BY_NAME << STEP_RANK_SHIFT);
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "f", PERFX_FUNCTION_ROUND),
		     STEP_RANGE | STEP_BY_CALL << STEP_RANK_SHIFT);
	cr_assert_eq(step_class(PERFX_SOURCE_SYMBOL, "f", PERFX_FUNCTION_INFERENCE),
		     STEP_RANGE | STEP_BY_INFERENCE << STEP_RANK_SHIFT);
}

Test(steps, calls_that_are_steps)
{
	static const struct {
		unsigned source;
		const char *name;
		bool is_step;
	} calls[] = {
		{PERFX_SOURCE_TF, "TF_SessionRun", true},
		{PERFX_SOURCE_TF, "train_function", true},
		{PERFX_SOURCE_TF, "train_function_506", true},
		{PERFX_SOURCE_TF, "multi_step_on_iterator_1193", true},
		{PERFX_SOURCE_TF, "one_step_on_data_distributed_315", true},
		{PERFX_SOURCE_TF, "train_function_", false},
		{PERFX_SOURCE_TF, "train_function_5_grad", false},
		{PERFX_SOURCE_TF, "train_functional_5", false},
		{PERFX_SOURCE_SYMBOL, "train_function_506", false},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cr_expect_eq(step_class(calls[i].source, calls[i].name, 0),
			     calls[i].is_step ? STEP_RANGE | STEP_BY_CALL << STEP_RANK_SHIFT : 0,
			     "%s", calls[i].name);
}
