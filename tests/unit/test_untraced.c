// SPDX-License-Identifier: BSD-2-Clause
/* Time of a thread outside all traced calls. */
#include "functions_fixture.h"

#include <criterion/criterion.h>

/* A call at a depth, since the start. */
static void nested_call(struct stream *s, uint32_t context, uint32_t tid, uint16_t depth,
			uint64_t at, uint64_t duration, uint64_t self)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = self,
				  .context = context,
				  .tid = tid,
				  .depth = depth};

	stream_span(s, &span);
}

/* Three functions of process 100 (threads 100 and 101): f2 called by f1, f3 by itself. */
static void begin_untraced(struct stream *s)
{
	begin(s, 3);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	stream_context(s, 3, 0, 3, 1);
}

static struct profile_untraced untraced_of(struct stream *s)
{
	struct aggregate *aggregate = replay(s);
	struct profile_untraced untraced = aggregate__finish(aggregate)->processes[0].untraced;

	/* its strings went with the aggregate */
	untraced.comm = NULL;
	aggregate__free(aggregate);
	return untraced;
}

static void expect_untraced(struct stream *s, uint32_t tid, uint64_t wall_ns, uint64_t self_ns,
			    uint64_t running_ns, bool at_least)
{
	struct profile_untraced untraced = untraced_of(s);

	cr_expect_eq(untraced.tid, tid);
	cr_expect_eq(untraced.wall_ns, wall_ns, "wall %llu", (unsigned long long)untraced.wall_ns);
	cr_expect_eq(untraced.self_ns, self_ns, "self %llu", (unsigned long long)untraced.self_ns);
	cr_expect_eq(untraced.running_ns, running_ns, "running %llu",
		     (unsigned long long)untraced.running_ns);
	cr_expect_eq(untraced.at_least, at_least);
}

/* Five seconds of ten, and what is nested in a call is not counted twice. */
Test(untraced, is_what_no_call_took)
{
	struct stream s = {0};

	begin_untraced(&s);
	nested_call(&s, 2, 100, 1, 1 * S, 1 * S, 1 * S);
	nested_call(&s, 1, 100, 0, 1 * S, 3 * S, 2 * S);
	nested_call(&s, 3, 100, 0, 7 * S, 2 * S, 2 * S);
	stream_end(&s, 10 * S, 0);
	expect_untraced(&s, 100, 10 * S, 5 * S, 0, false);
}

/* The other thread's calls are not this one's, nor is a range that any thread may end. */
Test(untraced, is_one_threads)
{
	struct stream s = {0};

	begin_untraced(&s);
	nested_call(&s, 1, 100, 0, 1 * S, 3 * S, 3 * S);
	nested_call(&s, 1, 101, 0, 0, 9 * S, 9 * S);
	stream_call(&s, 3, 100, 0, 8 * S, 8 * S, PERFX_SPAN_ASYNC);
	stream_end(&s, 10 * S, 0);
	expect_untraced(&s, 100, 10 * S, 7 * S, 0, false);
}

/* The main thread called nothing: the one that did most, as long as it was seen. */
Test(untraced, is_the_busiest_threads)
{
	struct stream s = {0};

	begin_untraced(&s);
	stream_thread(&s, 1, 102, "b", 'S', 500 * MS, 0, 0);
	nested_call(&s, 1, 101, 0, 1 * S, 1 * S, 1 * S);
	nested_call(&s, 1, 102, 0, 2 * S, 1 * S, 1 * S);
	nested_call(&s, 1, 102, 0, 6 * S, 2 * S, 2 * S);
	stream_end(&s, 10 * S, 0);
	/* from its sample at 0.5 s to its last call's end at 8 s */
	expect_untraced(&s, 102, 7500 * MS, 4500 * MS, 0, false);
}

/* The optimizer's range says which thread runs the steps. */
Test(untraced, is_the_steps_threads)
{
	struct stream s = {0};

	begin_untraced(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("Optimizer.step#SGD.step", "", ""), .function = 4,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_context(&s, 4, 0, 4, 1);
	nested_call(&s, 1, 100, 0, 0, 9 * S, 9 * S);
	nested_call(&s, 4, 101, 0, 1 * S, 1 * S, 1 * S);
	nested_call(&s, 4, 101, 0, 4 * S, 1 * S, 1 * S);
	stream_end(&s, 10 * S, 0);
	expect_untraced(&s, 101, 4 * S, 2 * S, 0, false);
}

/* What an outer call does that has not ended is its own time since its first call inside. That it
 * has not is what the kernel says: otherwise its record was lost, or the overhead budget removed
 * its probes while it was open. */
Test(untraced, is_not_in_calls_that_run_at_the_end)
{
	static const struct {
		uint64_t unmatched;
		bool removed;
	} rows[] = {{0, false}, {1, false}, {1, true}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stream s = {0};

		begin_untraced(&s);
		nested_call(&s, 2, 100, 1, 1 * S, 1 * S, 1 * S);
		nested_call(&s, 1, 100, 0, 1 * S, 2 * S, 1 * S);
		nested_call(&s, 2, 100, 1, 5 * S, 1 * S, 1 * S);
		nested_call(&s, 2, 100, 1, 8 * S, 500 * MS, 500 * MS);
		if (rows[i].removed)
			stream_reduced(&s, 1, 6 * S, PERFX_REDUCED_REMOVED, false);
		if (rows[i].unmatched)
			stream_loss(&s, PERFX_LOSS_UNMATCHED_ENTRIES, rows[i].unmatched);
		stream_end(&s, 10 * S, 0);
		if (rows[i].unmatched && !rows[i].removed)
			expect_untraced(&s, 100, 10 * S, 3 * S, 3500 * MS, false);
		else
			expect_untraced(&s, 100, 10 * S, 6500 * MS, 0, false);
	}
}

/* A full ring's calls are this thread's, or may be when others called, too. */
Test(untraced, is_not_in_overflow_calls)
{
	for (int others = 0; others <= 1; others++) {
		struct stream s = {0};

		begin_untraced(&s);
		nested_call(&s, 1, 100, 0, 1 * S, 3 * S, 3 * S);
		if (others)
			nested_call(&s, 1, 101, 0, 1 * S, 3 * S, 3 * S);
		stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
			     .context = 3, .calls_count = 10, .total_ns = 4 * S, .self_ns = 4 * S);
		stream_loss(&s, PERFX_LOSS_RING_DROPS, 10);
		stream_end(&s, 10 * S, 0);
		expect_untraced(&s, 100, 10 * S, 3 * S, 0, others);
	}
}

/* --wait: of two windows of three and one seconds. */
Test(untraced, is_in_what_was_recorded)
{
	static const uint64_t windows[] = {1, 4, 6, 7};
	struct stream s = {0};

	begin_untraced(&s);
	for (uint32_t i = 0; i < 4; i++)
		stream_plain(&s, PERFX_KIND_RECORDING_WINDOW, struct perfx_recording_window,
			     .time_ns = STREAM_START + windows[i] * S, .process = 1, .pid = 100,
			     .flags = i % 2 ? 0 : PERFX_RECORDING_WINDOW_OPENS);
	nested_call(&s, 1, 100, 0, 1 * S, 2 * S, 2 * S);
	stream_end(&s, 10 * S, 0);
	expect_untraced(&s, 100, 4 * S, 2 * S, 0, false);
}

/* Two seconds on a CPU, four in calls, six outside: none to two of these. Seven: three to six. */
Test(untraced, on_a_cpu_is_within_bounds)
{
	static const struct {
		uint64_t on_cpu_ns, min_ns, max_ns;
	} rows[] = {{2 * S, 0, 2 * S}, {7 * S, 3 * S, 6 * S}};

	for (size_t i = 0; i < 2; i++) {
		struct profile_untraced untraced;
		struct stream s = {0};

		begin_untraced(&s);
		stream_thread(&s, 1, 100, "a", 'S', 0, 1 * S, 0);
		nested_call(&s, 1, 100, 0, 1 * S, 4 * S, 4 * S);
		stream_thread(&s, 1, 100, "a", 'S', 10 * S, 1 * S + rows[i].on_cpu_ns, 0);
		stream_end(&s, 10 * S, 0);
		untraced = untraced_of(&s);
		cr_expect_eq(untraced.on_cpu_min_ns, rows[i].min_ns);
		cr_expect_eq(untraced.on_cpu_max_ns, rows[i].max_ns);
	}
}

/* Calls that were only counted say nothing of time. */
Test(untraced, is_not_known_without_times)
{
	struct stream s = {0};

	begin_untraced(&s);
	stream_call(&s, 1, 100, 1 * S, 0, 0, PERFX_SPAN_UNTIMED);
	stream_end(&s, 10 * S, 0);
	cr_expect_eq(untraced_of(&s).tid, 0);
}
