// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"
#include "functions_fixture.h"

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

/* Two threads: the gaps are those of each alone, and the process has no steps. */
Test(aggregate, inferences_and_the_gaps_between_them)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_process *process;
	const struct profile_row *row;

	stream_host(&s);
	stream_process(&s, 1, 100, "serve", "serve");
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("run", "libx", "b1d"),
		   .function = 1, .source = PERFX_SOURCE_SYMBOL, .flags = PERFX_FUNCTION_INFERENCE);
	stream_context(&s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 20; i++) {
		stream_call(&s, 1, 100, 10 * i * MS, 4 * MS, 4 * MS, 0);
		stream_call(&s, 1, 101, (10 * i + 3) * MS, 2 * MS, 2 * MS, 0);
	}
	aggregate = replay(&s);
	process = only_process(aggregate);
	row = &process->rows[0];
	cr_expect(profile_is_inference(&aggregate->profile, row));
	cr_expect_eq(row->calls_count, 40);
	cr_expect_eq(row->gaps.count, 38);
	cr_expect_eq(row->gaps.total_ns, 19 * (6 + 8) * MS);
	cr_expect_eq(row->gaps.max_ns, 8 * MS);
	cr_expect_eq(process->steps.repeating_threads, 2);
	cr_expect_eq(process->steps.ends_count, 0);
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
