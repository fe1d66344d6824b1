// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include <criterion/criterion.h>

static void compute(struct step_costs *costs, uint32_t process, uint32_t tid, uint64_t end_ns,
		    uint64_t flops)
{
	const struct perfx_span span = {.start_ns = end_ns - 1,
					.duration_ns = 1,
					.process = process,
					.tid = tid,
					.cost_state = PERFX_COST_COUNTED,
					.dtype = PERFX_DTYPE_F32,
					.flops = flops};

	cr_assert_eq(step_costs_add(costs, &span), 0);
}

Test(step_costs, since_a_time)
{
	struct step_costs costs = {0};
	struct step_tally tally;

	compute(&costs, 1, 10, 100, 1);
	compute(&costs, 2, 20, 150, 1000);
	compute(&costs, 1, 11, 200, 2);
	compute(&costs, 1, 10, 300, 4);
	cr_expect_eq(step_costs_sum(&costs, 1).flops, 7);
	cr_expect_eq(step_costs_sum(&costs, 1).counted_count, 3);
	cr_expect_eq(step_costs_sum(&costs, 3).flops, 0);
	cr_assert(step_costs_since(&costs, 1, 10, 100, &tally));
	cr_expect_eq(tally.flops, 6);
	cr_expect_eq(tally.thread_flops, 4);
	cr_expect_eq(tally.dtypes[PERFX_DTYPE_F32], 6);
	cr_assert(step_costs_since(&costs, 3, 10, 100, &tally));
	cr_expect_eq(tally.flops, 0);

	step_costs_forget_calls(&costs, 1, 300);
	cr_expect_not(step_costs_since(&costs, 1, 10, 299, &tally));
	cr_expect(step_costs_since(&costs, 1, 10, 300, &tally));
	cr_expect_eq(step_costs_sum(&costs, 1).flops, 7);
	step_costs_clear(&costs);
}

/* Only so many calls are kept: then it is not known what was computed since a time. */
Test(step_costs, too_many_calls)
{
	struct step_costs costs = {0};
	struct step_tally tally;

	for (uint64_t i = 1; i <= 20000; i++)
		compute(&costs, 1, 10, i, 1);
	cr_expect_eq(step_costs_sum(&costs, 1).flops, 20000);
	cr_expect_not(step_costs_since(&costs, 1, 10, 5, &tally));
	step_costs_clear(&costs);
}

/* The earliest limit of each kind holds. */
Test(step_costs, limits)
{
	struct step_costs costs = {0};

	cr_assert_eq(step_costs_limit(&costs, 1, &(struct step_limits){.times_ns = 50}), 0);
	compute(&costs, 1, 10, 100, 1);
	cr_assert_eq(step_costs_limit(&costs, 1, &(struct step_limits){.costs_ns = 150}), 0);
	compute(&costs, 1, 10, 140, 2); /* it ended before, and comes late */
	compute(&costs, 1, 10, 200, 4);
	cr_assert_eq(step_costs_limit(&costs, 1,
				      &(struct step_limits){.times_ns = 300, .costs_ns = 300}),
		     0);
	cr_expect_eq(step_costs_limits(&costs, 1).times_ns, 50);
	cr_expect_eq(step_costs_limits(&costs, 1).costs_ns, 150);
	cr_expect_eq(step_costs_limits(&costs, 1).waits_ns, 0);
	cr_expect_eq(step_costs_limited_flops(&costs, 1), 3);

	step_costs_limit_later(&costs, &(struct step_limits){.costs_ns = 400});
	compute(&costs, 2, 20, 500, 1);
	cr_expect_eq(step_costs_limits(&costs, 1).costs_ns, 150);
	cr_expect_eq(step_costs_limits(&costs, 2).costs_ns, 400);
	cr_expect_eq(step_costs_limits(&costs, 3).costs_ns, 400);
	step_costs_clear(&costs);
}

static bool is_first(void *ctx, uint32_t process)
{
	(void)ctx;
	return process == 1;
}

Test(step_costs, go_on)
{
	struct step_costs before = {0}, costs = {0};
	struct step_tally tally;

	compute(&before, 1, 10, 100, 1);
	compute(&before, 2, 20, 100, 2);
	cr_assert_eq(step_costs_limit(&before, 1, &(struct step_limits){.costs_ns = 150}), 0);
	cr_assert_eq(step_costs_continue(&costs, &before, 110, is_first, NULL), 0);
	cr_expect_eq(step_costs_sum(&costs, 1).flops, 1);
	cr_expect_eq(step_costs_sum(&costs, 2).flops, 0);
	cr_expect_eq(step_costs_limits(&costs, 1).costs_ns, 150);
	cr_assert(step_costs_since(&costs, 1, 10, 0, &tally));
	cr_expect_eq(tally.flops, 1);
	step_costs_clear(&before);
	step_costs_clear(&costs);
}
