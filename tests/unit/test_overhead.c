// SPDX-License-Identifier: BSD-2-Clause
/* What the probes cost the program. */
#include "aggregate/state.h"
#include "functions_fixture.h"

#include <criterion/criterion.h>

Test(overhead, overhead)
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
Test(overhead, overhead_without_probes)
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
Test(overhead, slowdown_is_over_the_program_s_own_time)
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
Test(overhead, slowdown_of_the_thread_that_is_hit)
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
Test(overhead, slowdown_of_threads_that_wait_for_one_another)
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
Test(overhead, the_wait_for_the_tracer_is_no_cost_of_probes)
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
Test(overhead, an_idle_program_is_not_slowed_by_what_it_waits)
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
Test(overhead, threads_that_come_and_go_are_slowed_together)
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
Test(overhead, cost_of_hits_as_seen_while_tracing)
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

Test(overhead, a_probe_without_cost_takes_its_kinds)
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
