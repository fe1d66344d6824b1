// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"
#include "replay_fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static const struct profile_row *row_of(const struct profile *profile, size_t process,
					uint32_t function)
{
	const struct profile_process *p = &profile->processes[process];

	for (size_t i = 0; i < p->rows_count; i++) {
		if (p->rows[i].function == function)
			return &p->rows[i];
	}
	cr_assert_fail("no row of function %u", function);
	abort();
}

static void begin(struct stream *s, uint32_t functions)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	for (uint32_t f = 1; f <= functions; f++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", f);
		stream_function(s, f, name, "/bin/a", PERFX_SOURCE_SYMBOL);
	}
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* Against sums made in the plainest way. */
Test(aggregate, numbers_are_exact)
{
	enum { CALLS = 3001 };
	uint64_t durations[CALLS], total = 0, self = 0;
	const struct profile_row *row;
	struct aggregate *aggregate;
	struct stream s = {0};
	long double mean, squares = 0;

	srand(5);
	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	for (int i = 0; i < CALLS; i++) {
		uint64_t own;

		durations[i] = 1000 + (uint64_t)rand() % 1000000;
		own = (uint64_t)rand() % durations[i];
		total += durations[i];
		self += own;
		stream_call(&s, 1, 100 + (uint32_t)i % 7, (uint64_t)i * MS, durations[i], own, 0);
	}
	mean = (long double)total / CALLS;
	for (int i = 0; i < CALLS; i++)
		squares += ((long double)durations[i] - mean) * ((long double)durations[i] - mean);
	qsort(durations, CALLS, sizeof(durations[0]), compare);

	aggregate = replay(&s);
	row = row_of(aggregate__finish(aggregate), 0, 1);
	cr_expect_eq(row->calls_count, CALLS);
	cr_expect_eq(row->timed_count, CALLS);
	cr_expect_eq(row->total_ns, total);
	cr_expect_eq(row->self_ns, self);
	cr_expect_eq(row->avg_ns, total / CALLS);
	cr_expect_eq(row->min_ns, durations[0]);
	cr_expect_eq(row->max_ns, durations[CALLS - 1]);
	cr_expect_float_eq(row->stddev_ns, (double)sqrtl(squares / CALLS), 1e-6);
	cr_expect_eq(row->threads_count, 7);
	cr_expect_leq(fabs((double)row->p50_ns - (double)durations[1500]),
		      SKETCH_ERROR * (double)durations[1500]);
	cr_expect_leq(fabs((double)row->p99_ns - (double)durations[2970]),
		      SKETCH_ERROR * (double)durations[2970]);
	aggregate__free(aggregate);
}

/* Where Σx² - (Σx)²/n in floating point has no digit left. */
Test(aggregate, small_spread_around_a_large_mean)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 1000; i++)
		stream_call(&s, 1, 1, 0, 3600 * S + i % 2 * 2, 0, 0);
	aggregate = replay(&s);
	cr_expect_float_eq(row_of(aggregate__finish(aggregate), 0, 1)->stddev_ns, 1.0, 1e-9);
	aggregate__free(aggregate);
}

static void expect_caller(const struct profile_row *row, size_t at, uint32_t caller, uint64_t calls,
			  uint64_t total)
{
	cr_assert_lt(at, row->callers_count);
	cr_expect_eq(row->callers[at].caller, caller);
	cr_expect_eq(row->callers[at].calls_count, calls);
	cr_expect_eq(row->callers[at].total_ns, total);
}

/* f3 is called by f1, by f2 in two contexts, and by code that is not traced. */
Test(aggregate, callers_come_from_the_tree)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_row *row;

	begin(&s, 3);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 2, 1);
	stream_context(&s, 3, 1, 3, 1);
	stream_context(&s, 4, 2, 3, 1);
	stream_context(&s, 5, 0, 2, 1);
	stream_context(&s, 6, 5, 3, 1);
	stream_context(&s, 7, 0, 3, 1);
	for (int i = 0; i < 5; i++)
		stream_call(&s, 3, 1, 0, 10, 10, 0);
	for (int i = 0; i < 4; i++)
		stream_call(&s, 4, 1, 0, 20, 20, 0);
	for (int i = 0; i < 3; i++)
		stream_call(&s, 6, 1, 0, 30, 30, 0);
	stream_call(&s, 7, 1, 0, 40, 40, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	row = row_of(profile, 0, 3);
	cr_expect_eq(row->calls_count, 13);
	cr_expect_eq(row->callers_count, 3);
	expect_caller(row, 0, 2, 7, 170);
	expect_caller(row, 1, 1, 5, 50);
	expect_caller(row, 2, PROFILE_CALLER_UNTRACED, 1, 40);
	cr_expect_eq(profile->processes[0].contexts_count, 7);
	cr_expect_eq(profile->processes[0].contexts[3].parent, 2);
	cr_expect_eq(profile->processes[0].contexts[3].calls_count, 4);
	cr_expect_eq(profile->processes[0].contexts[3].total_ns, 80);
	aggregate__free(aggregate);
}

Test(aggregate, unwound_and_untimed_calls_count_without_time)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_row *row;

	begin(&s, 2);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 0, 2, 1);
	stream_call(&s, 1, 1, 0, 100, 100, 0);
	stream_call(&s, 1, 1, 0, 0, 0, PERFX_SPAN_UNWOUND);
	stream_call(&s, 1, 1, 0, 0, 0, PERFX_SPAN_UNTIMED);
	stream_call(&s, 2, 1, 0, 0, 0, PERFX_SPAN_UNTIMED);
	stream_loss(&s, PERFX_LOSS_UNTIMED_CALLS, 2);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	row = row_of(profile, 0, 1);
	cr_expect_eq(row->calls_count, 3);
	cr_expect_eq(row->timed_count, 1);
	cr_expect_eq(row->unwound_count, 1);
	cr_expect_eq(row->avg_ns, 100);
	cr_expect_eq(row->min_ns, 100);
	row = row_of(profile, 0, 2);
	cr_expect_eq(row->calls_count, 1);
	cr_expect_eq(row->timed_count, 0);
	cr_expect_eq(row->avg_ns, PROFILE_ABSENT);
	cr_expect_eq(row->max_ns, PROFILE_ABSENT);
	cr_expect_lt(row->stddev_ns, 0);
	cr_expect_null(row->sketch);
	/* not counted a second time here */
	cr_expect_eq(profile->losses[PERFX_LOSS_UNTIMED_CALLS], 2);
	aggregate__free(aggregate);
}

Test(aggregate, overflow_is_part_of_the_sums)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_row *row;

	begin(&s, 2);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 2, 1);
	stream_call(&s, 2, 1, 0, 10, 10, 0);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 2,
		     .calls_count = 10, .unwound_count = 2, .untimed_count = 3, .total_ns = 500,
		     .self_ns = 400);
	/* a function that is in the overflow sums alone */
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .calls_count = 4, .total_ns = 900, .self_ns = 90);
	stream_loss(&s, PERFX_LOSS_RING_DROPS, 14);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	row = row_of(profile, 0, 2);
	cr_expect_eq(row->calls_count, 11);
	cr_expect_eq(row->timed_count, 6);
	cr_expect_eq(row->unwound_count, 2);
	cr_expect_eq(row->overflow_count, 5);
	cr_expect_eq(row->total_ns, 510);
	cr_expect_eq(row->self_ns, 410);
	cr_expect_eq(row->avg_ns, 85);
	cr_expect_eq(row->max_ns, 10);
	expect_caller(row, 0, 1, 11, 510);
	row = row_of(profile, 0, 1);
	cr_expect_eq(row->calls_count, 4);
	cr_expect_eq(row->avg_ns, 225);
	cr_expect_eq(row->p50_ns, PROFILE_ABSENT);
	cr_expect(profile->partial & PROFILE_PARTIAL_LOSSY);
	aggregate__free(aggregate);
}

/* User space describes what the kernel made only after it has heard of it. */
Test(aggregate, descriptions_may_come_later)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	s.contexts[1] = (struct perfx_context){.function = 1, .process = 1};
	s.contexts[2] = (struct perfx_context){.function = 2, .process = 1};
	s.contexts[3] = (struct perfx_context){.function = 2, .process = 9};
	s.contexts[4] = (struct perfx_context){.function = 9, .process = 1};
	stream_call(&s, 1, 1, 0, 100, 60, 0);
	stream_call(&s, 2, 1, 0, 40, 40, 0);
	stream_call(&s, 2, 1, 0, 40, 40, 0);
	/* of a process and of a function that nobody describes */
	stream_call(&s, 3, 1, 0, 5, 5, 0);
	stream_call(&s, 4, 1, 0, 5, 5, 0);
	begin(&s, 2);
	stream_context(&s, 1, 0, 1, 1);
	aggregate = replay(&s);

	profile = aggregate__finish(aggregate);
	cr_expect_eq(row_of(profile, 0, 2)->calls_count, 2);
	expect_caller(row_of(profile, 0, 2), 0, PROFILE_CALLER_UNKNOWN, 2, 80);
	cr_expect_eq(profile->calls_count, 3);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);

	stream_context(&s, 2, 1, 2, 1);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	stream_clear(&s);
	/* a second finish is a new one: nothing is counted twice */
	profile = aggregate__finish(aggregate);
	expect_caller(row_of(profile, 0, 2), 0, 1, 2, 80);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);
	aggregate__free(aggregate);
}

Test(aggregate, a_call_without_context_keeps_its_numbers)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_row *row;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	stream_call(&s, 1, 1, 0, 100, 60, 0);
	s.contexts[0] = (struct perfx_context){.function = 1, .process = 1};
	stream_call(&s, 0, 1, 0, 50, 30, 0);
	aggregate = replay(&s);
	row = row_of(aggregate__finish(aggregate), 0, 1);
	cr_expect_eq(row->calls_count, 2);
	cr_expect_eq(row->total_ns, 150);
	cr_expect_eq(row->self_ns, 90);
	cr_expect_eq(row->max_ns, 100);
	cr_expect_eq(row->callers_count, 2);
	aggregate__free(aggregate);
}

/* What contradicts or goes too far is counted, not believed. */
Test(aggregate, lies_are_undecoded)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 2);
	stream_context(&s, 1, 0, 1, 1);
	stream_call(&s, 1, 1, 0, 10, 10, 0);
	stream_end(&s, 1 * S, 0);
	/* twelve lies */
	s.contexts[1].function = 2;
	stream_call(&s, 1, 1, 0, 10, 10, 0);
	s.contexts[1] = (struct perfx_context){.function = 1, .process = 2};
	stream_call(&s, 1, 1, 0, 10, 10, 0);
	stream_context(&s, 1, 0, 2, 1);
	stream_context(&s, 5, 5, 1, 1);
	stream_context(&s, 6, 7, 1, 1);
	stream_plain(&s, PERFX_KIND_CONTEXT, struct perfx_context, .context = UINT32_MAX,
		     .function = 1, .process = 1);
	stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span, .context = UINT32_MAX, .function = 1,
		     .process = 1);
	stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span, .context = 9, .function = UINT32_MAX,
		     .process = 1);
	stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span, .context = 9, .function = 1,
		     .process = UINT32_MAX);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 40,
		     .calls_count = 1);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .calls_count = 1, .unwound_count = 1, .untimed_count = 1);
	stream_plain(&s, PERFX_KIND_HITS, struct perfx_hits, .probe = 12345, .hits_count = 1);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 12);
	cr_expect_eq(profile->calls_count, 1);
	cr_expect(profile->partial & PROFILE_PARTIAL_LOSSY);
	aggregate__free(aggregate);
}

Test(aggregate, sums_do_not_wrap)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_row *row;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	for (int i = 0; i < 3; i++)
		stream_call(&s, 1, 1, 0, UINT64_MAX, UINT64_MAX, 0);
	aggregate = replay(&s);
	row = row_of(aggregate__finish(aggregate), 0, 1);
	cr_expect_eq(row->total_ns, UINT64_MAX - 1);
	cr_expect_lt(row->stddev_ns, 0);
	aggregate__free(aggregate);
}

Test(aggregate, usage_is_the_difference_in_the_window)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_process *p;

	begin(&s, 0);
	stream_usage(&s, 1, 0, 5 * S, 2 * S, 100);
	stream_usage(&s, 1, 1 * S, 6 * S, 2 * S, 900);
	stream_usage(&s, 1, 2 * S, 8 * S, 3 * S, 300);
	stream_end(&s, 2 * S, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	p = &profile->processes[0];
	cr_expect_eq(profile_wall_ns(p), 2 * S);
	cr_expect_eq(p->cpu_user_ns, 3 * S);
	cr_expect_eq(p->cpu_system_ns, 1 * S);
	cr_expect_eq(p->cpu_ns, 4 * S);
	cr_expect_eq(p->rss_bytes, 300);
	cr_expect_eq(p->rss_peak_bytes, 900);
	cr_expect_eq(p->read_bytes, 2 * MS);
	cr_expect_eq(p->write_bytes, 0);
	cr_expect_eq(p->net_rx_bytes, PROFILE_ABSENT);
	cr_expect_eq(p->points_count, 3);
	aggregate__free(aggregate);
}

Test(aggregate, a_long_series_is_thinned_out)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_process *p;

	begin(&s, 0);
	for (uint64_t i = 0; i < 10000; i++)
		stream_usage(&s, 1, i * S, i * S, 0, i);
	aggregate = replay(&s);
	p = &aggregate__finish(aggregate)->processes[0];
	cr_expect_leq(p->points_count, PROFILE_POINTS_MAX);
	cr_expect_geq(p->points_count, PROFILE_POINTS_MAX / 2);
	for (size_t i = 1; i < p->points_count; i++)
		cr_assert_eq(p->points[i].time_ns - p->points[i - 1].time_ns,
			     p->points[1].time_ns - p->points[0].time_ns);
	cr_expect_eq(p->cpu_ns, 9999 * S);
	aggregate__free(aggregate);
}

/* Process 1 maps two files late; 2 and 3 end before they have been looked at, 3 after two tries. */
Test(aggregate, what_came_late_is_summed_by_process)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	struct profile_late_sum sum;

	begin(&s, 1);
	for (unsigned i = 1; i <= 2; i++)
		stream_add(&s, PERFX_KIND_LATE, struct perfx_late, STRINGS("/lib/late.so"),
			   .time_ns = STREAM_START + S + i * MS, .since_ns = STREAM_START + S,
			   .process = 1, .functions_count = 10 * i, .files_count = i,
			   .cause = PERFX_LATE_MAPPED);
	for (unsigned i = 2; i <= 4; i++)
		stream_add(&s, PERFX_KIND_LATE, struct perfx_late, STRINGS(""),
			   .time_ns = STREAM_START + S + i * 10 * MS, .since_ns = STREAM_START + S,
			   .process = i < 3 ? 2 : 3, .cause = PERFX_LATE_EXECUTED);
	stream_end(&s, 9 * S, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	sum = profile_late_sum(profile);
	cr_expect_eq(sum.late_count, 1);
	cr_expect_eq(sum.latest->late_ns, 2 * MS);
	cr_expect_eq(sum.latest->functions_count, 20);
	cr_expect_str_eq(sum.latest->module, "/lib/late.so");
	cr_expect_eq(sum.ended_count, 2);
	cr_expect_eq(sum.longest->late_ns, 40 * MS);
	aggregate__free(aggregate);
}

/* -a: a process is found 10 ms after it has started, and lives for 90 ms more: all its CPU time is
 * of the recording, and a tenth of its life is missing. */
Test(aggregate, a_process_that_was_found_after_its_start)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("ann", ""),
		   .time_ns = STREAM_START + S + 10 * MS, .start_boot_ns = STREAM_START + S,
		   .process = 2, .pid = 200, .ppid = 1);
	stream_add(&s, PERFX_KIND_LATE, struct perfx_late, STRINGS("/bin/ann"),
		   .time_ns = STREAM_START + S + 10 * MS, .since_ns = STREAM_START + S,
		   .process = 2, .functions_count = 1, .files_count = 1,
		   .cause = PERFX_LATE_MAPPED);
	stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + S + 100 * MS,
		     .process = 2, .pid = 200, .runtime_ns = 5 * MS);
	stream_usage(&s, 2, S + 100 * MS, 5 * MS, 0, 1);
	stream_end(&s, 2 * S, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->processes_count, 2);
	cr_expect_eq(profile->processes[1].cpu_ns, 5 * MS);
	cr_expect_eq(profile->partial, 0, "10 ms of 2.1 s");
	aggregate__free(aggregate);

	stream_loss(&s, PERFX_LOSS_PROCESSES_MISSED, 1);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_PROCESSES_MISSED], 1);
	cr_expect(profile->partial & PROFILE_PARTIAL_LOSSY, "one of three");
	aggregate__free(aggregate);
}

/* A child's counters begin at 0; what exec replaces goes on from where the process before ended. */
Test(aggregate, fork_exec_and_exit_begin_and_end_processes)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_process *p;

	begin(&s, 1);
	stream_plain(&s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + 1 * S,
		     .process = 2, .parent_process = 1, .pid = 200, .ppid = 100);
	stream_usage(&s, 2, 2 * S, 500 * MS, 100 * MS, 10);
	stream_plain(&s, PERFX_KIND_EXEC, struct perfx_exec, .time_ns = STREAM_START + 3 * S,
		     .process = 3, .old_process = 2, .pid = 200);
	stream_process(&s, 3, 200, "b", "b");
	stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 4 * S,
		     .process = 3, .pid = 200, .status = 7 << 8, .runtime_ns = 1000 * MS,
		     .user_tick_ns = 40 * MS, .system_tick_ns = 10 * MS);
	stream_end(&s, 9 * S, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->processes_count, 3);

	p = &profile->processes[1];
	cr_expect_eq(p->pid, 200);
	cr_expect_eq(p->ppid, 100);
	cr_expect_str_eq(p->comm, "a");
	cr_expect_eq(profile_wall_ns(p), 2 * S);
	cr_expect_eq(p->cpu_user_ns, 500 * MS);
	cr_expect_eq(p->cpu_system_ns, 100 * MS);
	cr_expect_not(p->exited);

	p = &profile->processes[2];
	cr_expect_str_eq(p->comm, "b");
	cr_expect_eq(profile_wall_ns(p), 1 * S);
	cr_expect(p->exited);
	cr_expect_eq(p->status, 7 << 8);
	/* 1 s at exit, four fifths of it user, less what the process before had */
	cr_expect_eq(p->cpu_ns, 400 * MS);
	cr_expect_eq(p->cpu_user_ns, 300 * MS);
	cr_expect_eq(p->cpu_system_ns, 100 * MS);
	aggregate__free(aggregate);
}

static const struct profile_thread *thread_of(const struct profile_process *p, uint32_t tid)
{
	for (size_t i = 0; i < p->threads_count; i++) {
		if (p->threads[i].tid == tid)
			return &p->threads[i];
	}
	cr_assert_fail("no thread %u", tid);
	abort();
}

Test(aggregate, threads)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_process *p;
	const struct profile_thread *t;

	begin(&s, 0);
	stream_thread(&s, 1, 100, "main", 'R', 0, 5 * S, 1 * S);
	stream_thread(&s, 1, 101, "gone", 'S', 0, 1 * S, 0);
	stream_thread(&s, 1, 102, "busy", 'R', 0, 0, 0);
	stream_thread(&s, 1, 100, "main", 'S', 10 * S, 8 * S, 2 * S);
	stream_thread(&s, 1, 102, "busy", 'R', 10 * S, 9 * S, 2 * S);
	stream_thread(&s, 1, 103, "new", '\x1b', 10 * S, 700 * MS, 0);
	aggregate = replay(&s);
	p = &aggregate__finish(aggregate)->processes[0];
	cr_assert_eq(p->threads_count, 4);
	cr_expect_eq(p->threads[0].tid, 102);

	t = thread_of(p, 100);
	cr_expect_eq(t->wall_ns, 10 * S);
	cr_expect_eq(t->on_cpu_ns, 3 * S);
	cr_expect_eq(t->runnable_ns, 1 * S);
	cr_expect_eq(t->blocked_ns, 6 * S);
	cr_expect_eq(t->state, 'S');
	/* ran and waited for more than the wall time, as rounding has it: not negative */
	cr_expect_eq(thread_of(p, 102)->blocked_ns, 0);
	/* ended in between: not known */
	cr_expect_eq(thread_of(p, 101)->on_cpu_ns, PROFILE_ABSENT);
	/* began in between: its counters began at 0 */
	t = thread_of(p, 103);
	cr_expect_eq(t->on_cpu_ns, 700 * MS);
	cr_expect_eq(t->blocked_ns, PROFILE_ABSENT);
	cr_expect_eq(t->state, 0);
	aggregate__free(aggregate);
}

/* What began or ended in between has its times to the end, where its start was recorded. */
Test(aggregate, threads_that_come_and_go)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_process *p;
	const struct profile_thread *t;

	begin(&s, 0);
	stream_thread(&s, 1, 100, "main", 'R', 0, 5 * S, 1 * S);
	stream_add(&s, PERFX_KIND_THREAD, struct perfx_thread, STRINGS("brief"),
		   .time_ns = STREAM_START + 3 * S, .on_cpu_ns = 700 * MS, .runnable_ns = 100 * MS,
		   .process = 1, .tid = 101, .state = 'X', .flags = PERFX_THREAD_ENDED,
		   .start_ns = STREAM_START + 2 * S);
	stream_add(&s, PERFX_KIND_THREAD, struct perfx_thread, STRINGS("late"),
		   .time_ns = STREAM_START + 10 * S, .on_cpu_ns = 1 * S, .runnable_ns = 0,
		   .process = 1, .tid = 102, .state = 'S', .start_ns = STREAM_START + 6 * S);
	stream_add(&s, PERFX_KIND_THREAD, struct perfx_thread, STRINGS("old"),
		   .time_ns = STREAM_START + 9 * S, .on_cpu_ns = 50 * S, .runnable_ns = 0,
		   .process = 1, .tid = 103, .state = 'X', .flags = PERFX_THREAD_ENDED,
		   .start_ns = STREAM_START - 90 * S);
	aggregate = replay(&s);
	p = &aggregate__finish(aggregate)->processes[0];
	t = thread_of(p, 101);
	cr_expect_str_eq(t->comm, "brief");
	cr_expect_eq(t->wall_ns, 1 * S);
	cr_expect_eq(t->on_cpu_ns, 700 * MS);
	cr_expect_eq(t->runnable_ns, 100 * MS);
	cr_expect_eq(t->blocked_ns, 200 * MS);
	t = thread_of(p, 102);
	cr_expect_eq(t->wall_ns, 4 * S);
	cr_expect_eq(t->blocked_ns, 3 * S);
	cr_expect_eq(thread_of(p, 103)->on_cpu_ns, PROFILE_ABSENT, "used 50 s in 99 s");
	aggregate__free(aggregate);
}

/* A record at the end that lacks something leaves what was known. The kernel's mark of the peak
 * holds where it was reached in the recording: it rose, or the program began meanwhile. */
Test(aggregate, memory_of_processes_that_have_ended)
{
	struct perfx_usage usage = usage_absent(1, 0);
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	usage.rss_bytes = 100;
	usage.rss_peak_bytes = 900;
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	stream_plain(&s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + 1 * S,
		     .process = 2, .parent_process = 1, .pid = 200, .ppid = 100);
	usage = usage_absent(2, 2 * S);
	usage.rss_peak_bytes = 48;
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	usage = usage_absent(1, 3 * S);
	usage.rss_bytes = 120;
	usage.rss_peak_bytes = 900;
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	usage = usage_absent(1, 4 * S);
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	stream_process(&s, 3, 300, "c", "c");
	for (unsigned i = 0; i < 2; i++) {
		usage = usage_absent(3, i * 5 * S);
		usage.rss_peak_bytes = 900 + i * 100;
		stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	}
	stream_end(&s, 9 * S, 0);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->processes[0].rss_bytes, 120);
	cr_expect_eq(profile->processes[0].rss_peak_bytes, 120, "900 was before the recording");
	for (size_t i = 1; i < profile->processes_count; i++)
		cr_expect_eq(profile->processes[i].rss_peak_bytes,
			     profile->processes[i].pid == 200 ? 48 : 1000, "it began or rose");
	aggregate__free(aggregate);
}

Test(aggregate, threads_of_a_function_are_counted_exactly)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	for (uint32_t i = 0; i < 3000; i++)
		stream_call(&s, 1, 1 + i * 7919 % 1500, 0, 1, 1, 0);
	aggregate = replay(&s);
	cr_expect_eq(row_of(aggregate__finish(aggregate), 0, 1)->threads_count, 1500);
	aggregate__free(aggregate);
}

Test(aggregate, overhead)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 2);
	stream_probe(&s, 1, 1, PERFX_SITE_PUSH, false, 1000);
	stream_probe(&s, 2, 1, PERFX_SITE_BRANCH, true, 2000);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->hits_count, 3000);
	cr_expect_float_eq(profile->overhead_ns, 1000 * 550.0 + 2000 * 520.5, 1e-6);
	/* of what CPU time? */
	cr_expect_lt(profile->overhead_percent, 0);

	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 100 * MS, 100 * MS, 0, 1);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	profile = aggregate__finish(aggregate);
	/* 1.591 ms of 100 ms: the program alone would have taken the others */
	cr_expect_float_eq(profile->overhead_percent, 100 * 1.591 / (100 - 1.591), 1e-6);
	stream_clear(&s);
	aggregate__free(aggregate);
}

/* Function 1 has a probe that was hit so often, at 1 µs each. */
static void probe_hit(struct stream *s, uint64_t hits_count)
{
	stream_plain(s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = 0, .function = 1,
		     .cost_ps = 1000000, .link = PERFX_LINK_MULTI, .site = PERFX_SITE_PUSH,
		     .ret = PERFX_RETURN_EXIT);
	stream_plain(s, PERFX_KIND_HITS, struct perfx_hits, .probe = 0, .hits_count = hits_count);
}

/* Samples and waits cost 4 of 100 ms, and hits 1 ms. */
Test(aggregate, overhead_without_probes)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	probe_hit(&s, 1000);
	for (int i = 0; i < 2; i++)
		stream_plain(&s, PERFX_KIND_BACKGROUND, struct perfx_background,
			     .samples_ns = MS / 2, .waits_ns = 3 * MS / 2);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 100 * MS, 100 * MS, 0, 1);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->samples_cost_ns, MS);
	cr_expect_eq(profile->waits_cost_ns, 3 * MS);
	cr_expect_float_eq(profile->overhead_ns, MS, 1e-6);
	cr_expect_float_eq(profile->overhead_percent, 100. / 99 + 400. / 96, 1e-6);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* A program that is 1.9 times as slow spends 47 % of its time in probes, not 90 %. */
Test(aggregate, slowdown_is_over_the_program_s_own_time)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	probe_hit(&s, 900000);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 1900 * MS, 1900 * MS, 0, 1);
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent, 90, 1e-6);
	/* hits that cost more than all the time there was */
	stream_plain(&s, PERFX_KIND_HITS, struct perfx_hits, .probe = 0, .hits_count = 9000000);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent, 9900, 1e-6);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* Thread 1 has nine tenths of the hits, which cost it 270 of 2,000 ms, in which it never waited for
 * a CPU; a thread of a pool spins meanwhile and is none the faster for it. */
Test(aggregate, slowdown_of_the_thread_that_is_hit)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	probe_hit(&s, 300000);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 2 * S, 3000 * MS, 0, 1);
	for (uint64_t i = 0; i < 10; i++)
		stream_call(&s, 1, i < 9 ? 1 : 2, i * MS, 100, 100, 0);
	for (uint32_t tid = 1; tid <= 2; tid++) {
		stream_thread(&s, 1, tid, "t", 'R', 0, 0, 0);
		stream_thread(&s, 1, tid, "t", 'R', 2 * S, tid == 1 ? 1270 * MS : 1730 * MS, 0);
	}
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent, 27000. / 1730, 1e-6);
	aggregate__free(aggregate);
}

/* Thread 1 has all hits, which cost it 80 ms. It waits for thread 2, as that does for a CPU: of the
 * two seconds the program had one that was its own. */
Test(aggregate, slowdown_of_threads_that_wait_for_one_another)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	probe_hit(&s, 80000);
	stream_plain(&s, PERFX_KIND_BACKGROUND, struct perfx_background, .samples_ns = 10 * MS);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 2 * S, 1000 * MS, 0, 1);
	stream_call(&s, 1, 1, MS, 100, 100, 0);
	for (uint32_t tid = 1; tid <= 2; tid++) {
		stream_thread(&s, 1, tid, "t", 'R', 0, 0, 0);
		stream_thread(&s, 1, tid, "t", 'R', 2 * S, tid == 1 ? 200 * MS : 800 * MS,
			      tid == 1 ? 300 * MS : 700 * MS);
	}
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent,
			   8000. / 920 + 1000. / 990, 1e-6);
	aggregate__free(aggregate);
	stream_clear(&s);
}

static void host_busy(struct stream *s, uint64_t at, uint64_t user_ns, uint64_t busy_ns)
{
	struct perfx_usage usage = usage_absent(1, at);

	usage.cpu_user_ns = user_ns;
	usage.cpu_system_ns = 0;
	usage.host_busy_ns = S + busy_ns;
	usage.host_steal_ns = 0;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_USAGE, usage));
}

/* Both CPUs are busy, one with the program, whose hits cost 1 % of its CPU time. Half of the
 * tracer's own 400 ms come out of the program's 10 s, but are none of its CPU time. */
Test(aggregate, the_wait_for_the_tracer_is_no_cost_of_probes)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	probe_hit(&s, 100000);
	host_busy(&s, 0, 0, 0);
	host_busy(&s, 10 * S, 10 * S, 20 * S);
	stream_call(&s, 1, 1, 9 * S, 100, 100, 0);
	stream_thread(&s, 1, 1, "t", 'R', 0, 0, 0);
	stream_thread(&s, 1, 1, "t", 'R', 10 * S, 10 * S, 0);
	stream_plain(&s, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + 10 * S,
		     .tracer_cpu_ns = 900 * MS, .recording_cpu_ns = 400 * MS);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_float_eq(profile->overhead_percent, 100. / 99, 1e-3);
	cr_expect_float_eq(profile->tracer_wait_percent, 2, 1e-3, "%g",
			   profile->tracer_wait_percent);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* A program that uses a hundredth of a CPU, a third of it for probes, is later by a third of a
 * hundredth at most: not by half. */
Test(aggregate, an_idle_program_is_not_slowed_by_what_it_waits)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	double share = (double)1 / 3 / 100;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	probe_hit(&s, 10000);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 3 * S, 30 * MS, 0, 1);
	stream_call(&s, 1, 1, MS, 100, 100, 0);
	stream_call(&s, 1, 1, 3 * S - 100, 100, 100, 0);
	stream_thread(&s, 1, 1, "t", 'S', 0, 0, 0);
	stream_thread(&s, 1, 1, "t", 'S', 3 * S, 30 * MS, 0);
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent,
			   100 * share / (1 - share), 1e-3);
	aggregate__free(aggregate);
}

/* Hits cost 1 % of the CPU time. The last of the threads, which come and go, was seen for half of
 * its own: that is no slowdown of half. */
Test(aggregate, threads_that_come_and_go_are_slowed_together)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	probe_hit(&s, 100000);
	stream_usage(&s, 1, 0, 0, 0, 1);
	stream_usage(&s, 1, 10 * S, 10 * S, 0, 1);
	stream_call(&s, 1, 2, 9 * S, 100, 100, 0);
	stream_thread(&s, 1, 2, "t", 'R', 9 * S, 0, 0);
	stream_thread(&s, 1, 2, "t", 'R', 9 * S + 200 * MS, 200 * MS, 0);
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_percent, 100. / 99, 1e-3);
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* 100 hits as expensive as on calibration targets, 300 three times as expensive. */
Test(aggregate, cost_of_hits_as_seen_while_tracing)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_plain(&s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = 0, .function = 1,
		     .cost_ps = 500000, .link = PERFX_LINK_MULTI, .site = PERFX_SITE_PUSH,
		     .ret = PERFX_RETURN_EXIT);
	stream_plain(&s, PERFX_KIND_HITS, struct perfx_hits, .probe = 0, .hits_count = 100,
		     .cost_ps = 500000);
	stream_plain(&s, PERFX_KIND_HITS, struct perfx_hits, .probe = 0, .hits_count = 300,
		     .cost_ps = 1500000);
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_ns, 500000, 1e-6);
	aggregate__free(aggregate);
}

Test(aggregate, a_probe_without_cost_takes_its_kinds)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s, 1);
	stream_plain(&s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = 0, .function = 1,
		     .link = PERFX_LINK_MULTI, .site = PERFX_SITE_NOP, .ret = PERFX_RETURN_EXIT);
	stream_plain(&s, PERFX_KIND_HITS, struct perfx_hits, .probe = 0, .hits_count = 10);
	stream_plain(&s, PERFX_KIND_CALIBRATION, struct perfx_calibration, .cost_ps = 1,
		     .link = PERFX_LINK_PERF, .site = PERFX_SITE_NOP, .ret = PERFX_RETURN_EXIT);
	stream_plain(&s, PERFX_KIND_CALIBRATION, struct perfx_calibration, .cost_ps = 300000,
		     .link = PERFX_LINK_MULTI, .site = PERFX_SITE_NOP, .ret = PERFX_RETURN_EXIT);
	aggregate = replay(&s);
	cr_expect_float_eq(aggregate__finish(aggregate)->overhead_ns, 3000, 1e-6);
	aggregate__free(aggregate);
}

Test(aggregate, partial)
{
	static const struct {
		enum perfx_loss_kind loss;
		bool lossy;
	} rows[] = {{PERFX_LOSS_RING_DROPS, true},
		    {PERFX_LOSS_MAP_FULL, true},
		    {PERFX_LOSS_NMISSED, true},
		    {PERFX_LOSS_UNTIMED_CALLS, true},
		    {PERFX_LOSS_UNMATCHED_ENTRIES, false},
		    {PERFX_LOSS_UNMATCHED_RETURNS, false},
		    {PERFX_LOSS_FOREIGN_HITS, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (uint64_t count = 1; count <= 5; count += 4) {
			struct stream s = {0};
			struct aggregate *aggregate;

			begin(&s, 1);
			stream_context(&s, 1, 0, 1, 1);
			for (int j = 0; j < 300; j++)
				stream_call(&s, 1, 1, 0, 1, 1, 0);
			stream_loss(&s, rows[i].loss, count);
			stream_end(&s, 1 * S, 0);
			aggregate = replay(&s);
			cr_expect_eq(aggregate__finish(aggregate)->partial,
				     rows[i].lossy && count == 5 ? PROFILE_PARTIAL_LOSSY : 0,
				     "row %zu, %d lost", i, (int)count);
			aggregate__free(aggregate);
		}
	}
}

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
Test(aggregate, untraced_is_what_no_call_took)
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
Test(aggregate, untraced_is_one_threads)
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
Test(aggregate, untraced_is_the_busiest_threads)
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
Test(aggregate, untraced_is_the_steps_threads)
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
Test(aggregate, untraced_is_not_in_calls_that_run_at_the_end)
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
Test(aggregate, untraced_is_not_in_overflow_calls)
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
Test(aggregate, untraced_is_in_what_was_recorded)
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
Test(aggregate, untraced_on_a_cpu_is_within_bounds)
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
Test(aggregate, untraced_is_not_known_without_times)
{
	struct stream s = {0};

	begin_untraced(&s);
	stream_call(&s, 1, 100, 1 * S, 0, 0, PERFX_SPAN_UNTIMED);
	stream_end(&s, 10 * S, 0);
	cr_expect_eq(untraced_of(&s).tid, 0);
}

Test(aggregate, empty)
{
	struct aggregate *aggregate = aggregate__new();
	const struct profile *profile = aggregate__finish(aggregate);

	cr_assert_not_null(profile);
	cr_expect_eq(profile->processes_count, 0);
	cr_expect_eq(profile->duration_ns, 0);
	cr_expect_eq(profile->partial, PROFILE_PARTIAL_TRUNCATED);
	cr_expect_lt(profile->overhead_percent, 0);
	aggregate__free(aggregate);
	aggregate__free(NULL);
}

/* What is known of where a process runs is its child's too, and over when its cgroup is said anew.
 */
Test(aggregate, places)
{
	const char *const inside[PERFX_PLACES] = {[PERFX_PLACE_CGROUP] = "/docker/1",
						  [PERFX_PLACE_CONTAINER] = "web",
						  [PERFX_PLACE_POD] = ""};
	const char *const outside[PERFX_PLACES] = {
		[PERFX_PLACE_CGROUP] = "/x.service", [PERFX_PLACE_UNIT] = "x.service"};
	const struct profile_process *processes;
	const struct profile *profile;
	struct aggregate *aggregate;
	struct stream s = {0};

	begin(&s, 1);
	stream_place_of(&s, 1, inside);
	stream_plain(&s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + 1,
		     .process = 2, .parent_process = 1, .pid = 2, .ppid = 1);
	stream_place_of(&s, 1, outside);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->processes_count, 2);
	processes = profile->processes;
	cr_expect_str_eq(processes[0].place.of[PERFX_PLACE_CGROUP], "/x.service");
	cr_expect_str_eq(processes[0].place.of[PERFX_PLACE_UNIT], "x.service");
	cr_expect_null(processes[0].place.of[PERFX_PLACE_CONTAINER]);
	cr_expect_str_eq(processes[1].place.of[PERFX_PLACE_CGROUP], "/docker/1");
	cr_expect_str_eq(processes[1].place.of[PERFX_PLACE_CONTAINER], "web");
	cr_expect_null(processes[1].place.of[PERFX_PLACE_POD]);
	aggregate__free(aggregate);
}

/* One step of Keras' fit, or of its evaluation, each 10 ms. */
static void keras_calls(struct stream *s, uint32_t context, uint64_t from_ms, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		stream_call(s, context, 100, (from_ms + 10 * i) * MS, 9 * MS, 9 * MS, 0);
}

/* Functions of one name, of which those in `evaluate` and `predict` are no steps of a training. */
static void keras(struct stream *s, const char *first, const char *second)
{
	const char *methods[] = {first, second};

	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	for (uint32_t i = 1; i <= 2; i++) {
		char name[64];

		snprintf(name, sizeof(name), "multi_step_on_iterator_%u", 500 + i);
		stream_function(s, i, name, "", PERFX_SOURCE_TF);
		stream_stack(s, 1, i, 0, python_frame(16 * i, 0));
		stream_called_context(s, i, 0, i, 1, 0, i);
		stream_python_frame(s, 1, python_frame(16 * i, 0), methods[i - 1],
				    "/venv/keras/src/backend/tensorflow/trainer.py", 10);
	}
}

Test(aggregate, keras_evaluations_are_no_steps)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	keras(&s, "TensorFlowTrainer.evaluate", "TensorFlowTrainer.fit");
	keras_calls(&s, 2, 0, 20);
	/* more often than it trains */
	keras_calls(&s, 1, 200, 60);
	keras_calls(&s, 2, 800, 20);
	aggregate = replay(&s);
	steps = &only_process(aggregate)->steps;
	cr_expect_eq(steps->ends_count, 40);
	cr_expect_eq(steps->function, 2);
	cr_expect_eq(steps->max_ns, 610 * MS);
	aggregate__free(aggregate);
}

Test(aggregate, keras_evaluations_alone_are_steps)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	keras(&s, "TensorFlowTrainer.predict", "TensorFlowTrainer.fit");
	/* so many that a period is looked for meanwhile */
	keras_calls(&s, 1, 0, 2000);
	aggregate = replay(&s);
	steps = &only_process(aggregate)->steps;
	cr_expect_eq(steps->ends_count, 2000);
	cr_expect_eq(steps->max_ns, 10 * MS);
	cr_expect_eq(steps->total_ns, 19999 * MS);
	aggregate__free(aggregate);
}

/* The budget stops timing the function after a period of its calls was found: its calls are steps
 * to the end, as before. */
Test(aggregate, keras_steps_that_are_only_counted)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_steps *steps;

	keras(&s, "TensorFlowTrainer.evaluate", "TensorFlowTrainer.fit");
	keras_calls(&s, 2, 0, 600);
	stream_reduced(&s, 2, 6000 * MS, PERFX_REDUCED_COUNTED, false);
	for (uint64_t i = 600; i < 1000; i++)
		stream_call(&s, 2, 100, 10 * i * MS, 0, 0, PERFX_SPAN_UNTIMED);
	aggregate = replay(&s);
	steps = &only_process(aggregate)->steps;
	cr_expect_eq(steps->found_by, PROFILE_STEPS_BY_CALL);
	cr_expect_eq(steps->ends_count, 1000, "%lu", (unsigned long)steps->ends_count);
	aggregate__free(aggregate);
}

/* That no kind has two is asserted when an aggregate is made. */
Test(aggregate, each_kind_has_a_part)
{
	struct aggregate *aggregate = aggregate__new();

#define EXPECT_PART(kind, name, ...) \
	cr_expect(aggregate->add[PERFX_KIND_##kind], "no part takes a record of kind " #name);
	PERFX_RECORDS(EXPECT_PART)
#undef EXPECT_PART
	aggregate__free(aggregate);
}
