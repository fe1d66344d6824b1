// SPDX-License-Identifier: BSD-2-Clause
/* Perf events of calls: sums by function and process, and what is compared with an estimate. */
#include "analyze/roofline.h"
#include "replay_fixture.h"

#include <criterion/criterion.h>

enum { STEP = 1, GEMM, OTHER };

/* Contexts: step; gemm in step and by itself; other. */
static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	stream_function(s, STEP, "step", "/bin/a", PERFX_SOURCE_PERFX);
	stream_function(s, GEMM, "gemm", "/bin/a", PERFX_SOURCE_BLAS);
	stream_function(s, OTHER, "other", "/bin/a", PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, STEP, 1);
	stream_context(s, 2, 1, GEMM, 1);
	stream_context(s, 3, 0, GEMM, 1);
	stream_context(s, 4, 0, OTHER, 1);
	stream_perf_counter(s, 0, "cycles", "cycles", PERFX_PERF_COUNTER_PLAIN);
	stream_perf_counter(s, 2, "flops", "operations", PERFX_PERF_COUNTER_FLOPS);
}

static void call_counters(struct stream *s, uint32_t context, uint64_t calls, uint64_t missed,
			  uint64_t flops, uint64_t estimated)
{
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters, .context = context,
		     .calls_count = calls, .missed_count = missed, .values = {10 * calls, 0, flops},
		     .flops = estimated, .counted_flops = estimated ? flops : 0);
}

static const struct profile_row *row_of(const struct profile *profile, uint32_t function)
{
	const struct profile_process *p = &profile->processes[0];

	for (size_t i = 0; i < p->rows_count; i++)
		if (p->rows[i].function == function)
			return &p->rows[i];
	cr_assert_fail("no row of function %u", function);
	abort();
}

static void expect_flops(struct flops_check flops, uint64_t estimated, uint64_t counted)
{
	cr_expect(flops.known);
	cr_expect_eq(flops.estimated, estimated);
	cr_expect_eq(flops.counted, counted);
}

Test(perf_counters, sums)
{
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 1000, 100};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *p;

	begin(&s);
	stream_compute(&s, 2, 100, 0, 1 * MS, 1 * MS, cost);
	stream_call(&s, 1, 100, 0, 2 * MS, 1 * MS, 0);
	/* this one's calls found no room in the ring: their row comes with the sums */
	call_counters(&s, 3, 2, 1, 2100, 2000);
	call_counters(&s, 2, 1, 0, 1010, 1000);
	call_counters(&s, 1, 1, 0, 1500, 0);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 3,
		     .calls_count = 3, .total_ns = 3 * MS, .self_ns = 3 * MS, .flops = 3000,
		     .counted_count = 3);
	stream_plain(&s, PERFX_KIND_PROCESS_COUNTERS, struct perfx_process_counters, .process = 1,
		     .threads_count = 2, .values = {500, 0, 5000}, .enabled_ns = 100,
		     .running_ns = 25);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	p = aggregate__finish(a);
	cr_assert_not_null(p);
	cr_expect_eq(p->losses[PERFX_LOSS_UNDECODED], 0);
	cr_expect_eq(row_of(p, GEMM)->calls_count, 4);
	cr_expect_eq(row_of(p, GEMM)->perf->calls_count, 3);
	cr_expect_eq(row_of(p, GEMM)->perf->missed_count, 1);
	cr_expect_eq(row_of(p, GEMM)->perf->values[0], 30);
	cr_expect_null(p->perf_counters[1].name);
	cr_expect_str_eq(p->perf_counters[2].name, "flops");
	expect_flops(flops_check_of_row(p, row_of(p, GEMM)), 3000, 3110);
	/* no cost of its own, but all its calls were counted */
	expect_flops(flops_check_of_row(p, row_of(p, STEP)), 1000, 1500);
	expect_flops(flops_check_of_process(p, &p->processes[0]), 4000, 5000);
	cr_expect_float_eq(perf_share(&p->processes[0].perf), 0.25, 1e-9);
	aggregate__free(a);
}

/* Not of the same work: nothing is compared. */
Test(perf_counters, missed)
{
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 1000, 100};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *p;

	begin(&s);
	stream_compute(&s, 2, 100, 0, 1 * MS, 1 * MS, cost);
	for (int i = 0; i < 2; i++)
		stream_call(&s, 1, 100, 0, 2 * MS, 1 * MS, 0);
	stream_call(&s, 4, 100, 0, 1 * MS, 1 * MS, 0);
	call_counters(&s, 1, 1, 1, 1500, 0);
	call_counters(&s, 4, 1, 0, 77, 0);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	p = aggregate__finish(a);
	cr_expect_not(flops_check_of_row(p, row_of(p, STEP)).known);
	cr_expect_not(flops_check_of_row(p, row_of(p, OTHER)).known);
	cr_expect_not(flops_check_of_row(p, row_of(p, GEMM)).known);
	cr_expect_not(flops_check_of_process(p, &p->processes[0]).known);
	cr_expect_eq(perf_share(&p->processes[0].perf), 1);
	aggregate__free(a);
}

Test(perf_counters, records_that_belong_nowhere)
{
	struct stream s = {0};
	struct aggregate *a;

	begin(&s);
	call_counters(&s, 0, 1, 0, 1, 0);
	call_counters(&s, 63, 1, 0, 1, 0);
	stream_plain(&s, PERFX_KIND_PROCESS_COUNTERS, struct perfx_process_counters, .process = 0);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	cr_expect_eq(aggregate__finish(a)->losses[PERFX_LOSS_UNDECODED], 3);
	aggregate__free(a);
}
