// SPDX-License-Identifier: BSD-2-Clause
/* Events with known rates. */
#include "session/trial.h"

#include "aggregate/steps.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define MS 1000000ull
#define S  (1000 * MS)

enum { STEP = 1, OPERATOR };

static void give(struct pipeline *pipeline, const struct event *event)
{
	cr_assert_eq(pipeline->on_event(pipeline->ctx, event), 0);
}

static void describe(struct pipeline *pipeline)
{
	struct event event = {.kind = PERFX_KIND_FUNCTION,
			      .function = {.function = STEP,
					   .source = PERFX_SOURCE_NVTX,
					   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP},
			      .strings = {"my step"}};

	give(pipeline, &event);
	event.function =
		(struct perfx_function){.function = OPERATOR, .source = PERFX_SOURCE_TORCH};
	event.strings[0] = "at::_ops::mm::call";
	give(pipeline, &event);
}

/* Times in ms. */
static void call(struct pipeline *pipeline, uint32_t process, uint32_t function, uint64_t from,
		 uint64_t to)
{
	struct event event = {.kind = PERFX_KIND_SPAN,
			      .span = {.start_ns = S + from * MS,
				       .duration_ns = (to - from) * MS,
				       .process = process,
				       .function = function,
				       .tid = process}};

	give(pipeline, &event);
}

static void value(struct pipeline *pipeline, uint32_t process, uint32_t id, uint64_t at,
		  double number, uint32_t flags)
{
	struct event event = {
		.kind = PERFX_KIND_USER_VALUE,
		.user_value = {
			.time_ns = S + at * MS, .process = process, .value = id, .flags = flags}};

	memcpy(&event.user_value.number_bits, &number, sizeof(number));
	give(pipeline, &event);
}

static void name_value(struct pipeline *pipeline, uint32_t id, const char *name)
{
	struct event event = {.kind = PERFX_KIND_USER_VALUE_NAME,
			      .user_value_name = {.value = id},
			      .strings = {name}};

	give(pipeline, &event);
}

/* Steps of 100 ms, then, after the warm-up of 250 ms, of 10 ms. */
Test(rate_watch, steps_after_the_warm_up)
{
	const struct rate_options options = {
		.of = RATE_STEPS, .warmup_ns = 250 * MS, .duration_ns = 200 * MS};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);
	struct rate rate;

	describe(&pipeline);
	cr_expect_not(rate_watch__rate(watch).began);
	for (uint64_t at = 0; at < 400; at += 100) {
		call(&pipeline, 7, OPERATOR, at + 10, at + 20);
		call(&pipeline, 7, STEP, at, at + 100);
	}
	/* the first ended at 100 */
	cr_expect(rate_watch__rate(watch).began);
	cr_expect_eq(rate_watch__rate(watch).events_count, 0);
	for (uint64_t at = 400; at < 590; at += 10)
		call(&pipeline, 7, STEP, at, at + 10);
	cr_expect_not(rate_watch__enough(watch));
	call(&pipeline, 7, STEP, 590, 600);
	cr_expect(rate_watch__enough(watch));
	rate = rate_watch__rate(watch);
	cr_expect(rate_is_known(&rate));
	cr_expect_eq(rate.events_count, 20);
	cr_expect_eq(rate.ns, 200 * MS);
	cr_expect_float_eq(rate_per_s(&rate), 100, 1e-9);
	rate_watch__free(watch);
	cr_expect_null(pipeline.on_event);
}

/* Ranks of a training have the same steps: those of one are counted. */
Test(rate_watch, of_several_processes_the_busiest)
{
	const struct rate_options options = {
		.of = RATE_STEPS, .duration_ns = UINT64_MAX, .events_max = 4};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);

	describe(&pipeline);
	for (uint64_t at = 0; at < 100; at += 20) {
		cr_expect_not(rate_watch__enough(watch), "at %llu", (unsigned long long)at);
		call(&pipeline, 8, STEP, at, at + 15);
		if (at < 60)
			call(&pipeline, 7, STEP, at, at + 20);
	}
	/* the first step ends where the measurement begins */
	cr_expect(rate_watch__enough(watch));
	cr_expect_eq(rate_watch__rate(watch).events_count, 4);
	cr_expect_eq(rate_watch__rate(watch).ns, 80 * MS);
	rate_watch__free(watch);
}

Test(rate_watch, too_few_events_are_no_rate)
{
	const struct rate_options options = {.of = RATE_CALLS, .duration_ns = MS};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);
	struct rate rate;

	for (uint64_t at = 0; at < 3; at++)
		call(&pipeline, 7, OPERATOR, at * 10, at * 10 + 5);
	rate = rate_watch__rate(watch);
	cr_expect_not(rate_is_known(&rate));
	cr_expect_not(rate_watch__enough(watch));
	call(&pipeline, 7, OPERATOR, 30, 35);
	rate = rate_watch__rate(watch);
	cr_expect(rate_is_known(&rate));
	cr_expect(rate_watch__enough(watch));
	cr_expect_float_eq(rate_per_s(&rate), 100, 1e-9);
	rate_watch__free(watch);
}

Test(rate_watch, calls_without_a_record)
{
	const struct rate_options options = {.of = RATE_CALLS, .duration_ns = MS};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);
	struct event event = {.kind = PERFX_KIND_OVERFLOW_CALLS,
			      .overflow_calls = {.calls_count = 3}};
	struct rate rate;

	for (uint64_t at = 0; at < 10; at++)
		call(&pipeline, 7, OPERATOR, at * 10, at * 10 + 5);
	give(&pipeline, &event);
	rate = rate_watch__rate(watch);
	cr_expect(rate.lost);
	cr_expect_not(rate_is_known(&rate));
	rate_watch__free(watch);
}

/* Two processes add 32 each, every 10 ms; another counter is none of it. */
Test(rate_watch, what_is_added_to_a_counter)
{
	const struct rate_options options = {
		.of = RATE_COUNTER, .counter = "tokens", .duration_ns = UINT64_MAX};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);
	struct rate rate;

	name_value(&pipeline, 3, "loss");
	name_value(&pipeline, 4, "tokens");
	for (uint64_t at = 0; at <= 1000; at += 10) {
		value(&pipeline, 7, 4, at, 32, PERFX_USER_VALUE_ADDED);
		value(&pipeline, 8, 4, at, 32, PERFX_USER_VALUE_ADDED);
		value(&pipeline, 7, 3, at, 1e9, PERFX_USER_VALUE_ADDED);
		value(&pipeline, 7, 4, at, NAN, PERFX_USER_VALUE_ADDED);
	}
	rate = rate_watch__rate(watch);
	cr_expect_eq(rate.ns, S);
	/* of the first two one is the beginning */
	cr_expect_float_eq(rate.amount, 32 * 201, 1e-9);
	rate_watch__free(watch);
}

/* It grows by 5 every 10 ms, from a value that is far from 0. */
Test(rate_watch, growth_of_a_counter_that_is_set)
{
	const struct rate_options options = {.of = RATE_COUNTER,
					     .counter = "seen",
					     .warmup_ns = 100 * MS,
					     .duration_ns = UINT64_MAX};
	struct pipeline pipeline = {0};
	struct rate_watch *watch = rate_watch__new(&pipeline, &options);
	struct rate rate;

	name_value(&pipeline, 1, "seen");
	for (uint64_t at = 0; at <= 1100; at += 10)
		value(&pipeline, 7, 1, at, 1e6 + (double)at / 2, 0);
	rate = rate_watch__rate(watch);
	cr_expect_eq(rate.ns, S);
	cr_expect_float_eq(rate_per_s(&rate), 500, 1e-9);
	rate_watch__free(watch);
}
