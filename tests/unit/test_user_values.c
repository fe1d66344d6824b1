// SPDX-License-Identifier: BSD-2-Clause
/* Values of the program's own, as they add up; and the windows in which a program wants to be
 * recorded. */
#include "replay_fixture.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static struct aggregate *replay_whole(struct stream *stream)
{
	stream_end(stream, 10 * S, 0);
	return replay(stream);
}

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	stream_value_name(s, 1, "one");
	stream_value_name(s, 2, "two");
}

static const struct profile_user_value *only(const struct profile *profile)
{
	cr_assert_eq(profile->processes[0].values_count, 1);
	return &profile->processes[0].values[0];
}

Test(user_values, set_ones)
{
	static const double numbers[] = {3, -1.5, 8, 2};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile_user_value *value;

	begin(&s);
	for (int i = 0; i < 4; i++)
		stream_value(&s, 1, (uint64_t)i * S, numbers[i], 0);
	a = replay_whole(&s);
	value = only(aggregate__finish(a));
	cr_expect_str_eq(value->name, "one");
	cr_expect_eq(value->samples_count, 4);
	cr_expect_eq(value->added_count, 0);
	cr_expect(value->value == 2 && value->sum == 11.5);
	cr_expect(value->lowest == -1.5 && value->highest == 8);
	cr_expect(value->rate == 1.15);
	cr_assert_eq(value->points_count, 4);
	cr_expect(value->points[1].value == -1.5);
	cr_expect_eq(value->points[1].time_ns, STREAM_START + 1 * S);
	aggregate__free(a);
}

Test(user_values, sums_are_exact)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile_user_value *value;

	begin(&s);
	for (uint64_t i = 0; i < 100000; i++)
		stream_value(&s, 1, i * US, 0.1, PERFX_USER_VALUE_ADDED);
	a = replay_whole(&s);
	value = only(aggregate__finish(a));
	cr_expect(value->sum == 10000 && value->value == 10000, "%.17g", value->sum);
	cr_expect(value->points_count <= PROFILE_VALUE_POINTS_MAX);
	cr_expect(value->points_count >= PROFILE_VALUE_POINTS_MAX / 2);
	aggregate__free(a);
}

/* Threads tell of what they set in another order than that of time. */
Test(user_values, the_last_by_time_counts)
{
	struct stream s = {0};
	struct aggregate *a;

	begin(&s);
	stream_value(&s, 1, 2 * S, 20, 0);
	stream_value(&s, 1, 1 * S, 10, 0);
	stream_value(&s, 1, 3 * S, 0.5, PERFX_USER_VALUE_ADDED);
	a = replay_whole(&s);
	cr_expect(only(aggregate__finish(a))->value == 20.5);
	aggregate__free(a);
}

Test(user_values, what_is_no_number_is_only_counted)
{
	static const double numbers[] = {NAN, INFINITY, -INFINITY, DBL_MAX, DBL_MAX};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile_user_value *value;

	begin(&s);
	for (int i = 0; i < 5; i++)
		stream_value(&s, 1, (uint64_t)i, numbers[i], PERFX_USER_VALUE_ADDED);
	a = replay_whole(&s);
	value = only(aggregate__finish(a));
	cr_expect_eq(value->samples_count, 5);
	cr_expect_eq(value->strange_count, 3);
	cr_expect(value->lowest == DBL_MAX && value->highest == DBL_MAX);
	cr_expect(isinf(value->sum)); /* 2 × DBL_MAX */
	aggregate__free(a);
}

Test(user_values, those_without_room)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile_user_value *values;

	begin(&s);
	stream_value(&s, 1, 1 * S, 4, PERFX_USER_VALUE_ADDED);
	stream_value(&s, 2, 1 * S, 4, 0);
	stream_plain(&s, PERFX_KIND_OVERFLOW_VALUES, struct perfx_overflow_values, .process = 1,
		     .value = 1, .adds_count = 3, .sum = 30);
	stream_plain(&s, PERFX_KIND_OVERFLOW_VALUES, struct perfx_overflow_values, .process = 1,
		     .value = 2, .sets_count = 5, .sum = -6, .unsummed_count = 2,
		     .last_bits = 0x4008000000000000 /* 3.0 */, .last_ns = STREAM_START + 2 * S);
	a = replay_whole(&s);
	values = aggregate__finish(a)->processes[0].values;
	/* most samples first */
	cr_expect_str_eq(values[0].name, "two");
	cr_expect_eq(values[0].samples_count, 6);
	cr_expect_eq(values[0].lost_count, 5);
	cr_expect_eq(values[0].unsummed_count, 2);
	cr_expect(values[0].value == 3 && values[0].sum == -2);
	cr_expect_eq(values[1].samples_count, 4);
	cr_expect(values[1].value == 34 && values[1].sum == 34);
	aggregate__free(a);
}

Test(user_values, lost_additions_of_fractions_leave_the_value_unknown)
{
	struct stream s = {0};
	struct aggregate *a;

	begin(&s);
	stream_plain(&s, PERFX_KIND_OVERFLOW_VALUES, struct perfx_overflow_values, .process = 1,
		     .value = 1, .adds_count = 3, .sum = 1, .unsummed_count = 2);
	a = replay_whole(&s);
	cr_expect(isnan(only(aggregate__finish(a))->value));
	aggregate__free(a);
}

Test(user_values, hostile_records)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *profile;

	begin(&s);
	stream_value(&s, 0, 0, 1, 0);
	stream_value(&s, UINT32_MAX, 0, 1, 0);
	stream_value(&s, 77, 0, 1, 0); /* nobody says what it is called */
	stream_value_name(&s, 0, "zero");
	stream_value_name(&s, UINT32_MAX, "far");
	stream_plain(&s, PERFX_KIND_USER_VALUE, struct perfx_user_value, .value = 1, .process = 9);
	stream_plain(&s, PERFX_KIND_OVERFLOW_VALUES, struct perfx_overflow_values, .value = 1,
		     .process = UINT32_MAX, .adds_count = 1);
	a = replay_whole(&s);
	profile = aggregate__finish(a);
	cr_expect_eq(profile->processes[0].values_count, 0);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 7);
	aggregate__free(a);
}

static void recording_window(struct stream *s, uint64_t at, bool opens)
{
	stream_plain(s, PERFX_KIND_RECORDING_WINDOW, struct perfx_recording_window,
		     .time_ns = STREAM_START + at, .process = 1, .pid = 100,
		     .flags = opens ? PERFX_RECORDING_WINDOW_OPENS : 0);
}

Test(recording_windows, rates_are_of_what_was_recorded)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *profile;

	begin(&s);
	recording_window(&s, 0, true);
	stream_value(&s, 1, 1 * S, 60, PERFX_USER_VALUE_ADDED);
	recording_window(&s, 2 * S, false);
	recording_window(&s, 6 * S, true);
	recording_window(&s, 7 * S, false);
	recording_window(&s, 9 * S, true); /* to the end */
	a = replay_whole(&s);
	profile = aggregate__finish(a);
	cr_assert_eq(profile->recording_windows_count, 3);
	cr_expect_eq(profile->recording_windows[2].to_ns, STREAM_START + 10 * S);
	cr_expect_eq(profile_recorded_ns(profile, &profile->processes[0]), 4 * S);
	cr_expect(only(profile)->rate == 15);
	aggregate__free(a);
}

/* Closes without an opening, opens twice, goes back in time, lies outside. */
Test(recording_windows, strange_ones)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *profile;

	begin(&s);
	recording_window(&s, 1 * S, false);
	recording_window(&s, 2 * S, true);
	recording_window(&s, 3 * S, true);
	recording_window(&s, 4 * S, false);
	recording_window(&s, 1 * S, false);
	recording_window(&s, 3 * S, true);
	recording_window(&s, 50 * S, false);
	a = replay_whole(&s);
	profile = aggregate__finish(a);
	cr_assert_eq(profile->recording_windows_count, 2);
	for (size_t i = 0; i < 2; i++)
		cr_expect(profile->recording_windows[i].from_ns <=
			  profile->recording_windows[i].to_ns);
	cr_expect_eq(profile_recorded_ns(profile, &profile->processes[0]), 8 * S);
	aggregate__free(a);
}

Test(recording_windows, who_ended_before_is_left_out)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *profile;

	stream_plain(&s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START - 5 * S,
		     .process = 2, .parent_process = 1, .pid = 200, .ppid = 100);
	stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START - 4 * S,
		     .process = 2, .pid = 200);
	begin(&s);
	recording_window(&s, 0, true);
	recording_window(&s, 10 * S, false);
	stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 30 * S,
		     .process = 1, .pid = 100, .runtime_ns = 25 * S);
	a = replay_whole(&s);
	profile = aggregate__finish(a);
	cr_assert_eq(profile->processes_count, 1);
	cr_expect_eq(profile_wall_ns(&profile->processes[0]), 10 * S);
	aggregate__free(a);
}

/* No step begins before its window. */
Test(recording_windows, steps_begin_anew)
{
	struct stream s = {0};
	struct aggregate *a;
	const struct profile_steps *steps;

	begin(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "", ""),
		   .function = 1, .source = PERFX_SOURCE_PERFX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(&s, 1, 0, 1, 1);
	recording_window(&s, 0, true);
	recording_window(&s, 3 * S, false);
	recording_window(&s, 6 * S, true);
	for (uint64_t at = 1; at < 9; at++)
		if (at < 3 || at > 5)
			stream_call(&s, 1, 100, at * S, 500 * MS, 500 * MS, 0);
	a = replay_whole(&s);
	steps = &aggregate__finish(a)->processes[0].steps;
	cr_expect_eq(steps->count, 5);
	/* 0.5 and 1; 0.5, 1 and 1 */
	cr_expect_eq(steps->total_ns, 4 * S, "%lu", (unsigned long)steps->total_ns);
	aggregate__free(a);
}
