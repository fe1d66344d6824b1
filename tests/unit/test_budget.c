// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <criterion/criterion.h>
#include <math.h>

/* A program that spends half of its time in probes is twice as slow. */
Test(budget, slowdown_is_over_the_program_s_own_time)
{
	cr_expect_float_eq(budget_slowdown_percent(0, 1e9), 0, 1e-9);
	cr_expect_float_eq(budget_slowdown_percent(2e7, 1.02e9), 2, 1e-9);
	cr_expect_float_eq(budget_slowdown_percent(5e8, 1e9), 100, 1e-9);
	cr_expect_eq(budget_slowdown_percent(1e9, 1e9), HUGE_VAL);
}

/* --- what is reduced --- */

static struct expenses expenses_of(double detail, double flops, double phases, double steps)
{
	struct expenses expenses = {0};

	expenses_add(&expenses, WORTH_DETAIL, (struct expense){.index = 1, .ns = detail});
	expenses_add(&expenses, WORTH_FLOPS, (struct expense){.index = 2, .ns = flops});
	expenses_add(&expenses, WORTH_PHASES, (struct expense){.index = 3, .ns = phases});
	expenses_add(&expenses, WORTH_STEPS, (struct expense){.index = 4, .ns = steps});
	return expenses;
}

static size_t chosen(struct expenses expenses, double allowed_ns)
{
	const struct expense *expense = budget_choose(
		&expenses, allowed_ns, (struct budget_least){.ns = 1, .steps_ns = 40});

	return expense ? expense->index : 0;
}

Test(budget, allowed_cost_is_not_reduced)
{
	cr_expect_eq(chosen(expenses_of(20, 20, 10, 0), 50), 0);
}

Test(budget, least_worth_first)
{
	cr_expect_eq(chosen(expenses_of(20, 90, 10, 0), 101), 1,
		     "though it is not the most expensive");
	cr_expect_eq(chosen(expenses_of(20, 90, 10, 0), 20), 2, "the first alone is not enough");
	cr_expect_eq(chosen(expenses_of(20, 20, 90, 0), 20), 3);
}

Test(budget, most_expensive_of_one_worth)
{
	struct expenses expenses = expenses_of(20, 0, 0, 0);

	expenses_add(&expenses, WORTH_DETAIL, (struct expense){.index = 7, .ns = 30});
	expenses_add(&expenses, WORTH_DETAIL, (struct expense){.index = 8, .ns = 10});
	cr_expect_float_eq(expenses.all_ns, 60, 1e-9);
	cr_expect_eq(chosen(expenses, 50), 7);
}

Test(budget, steps_are_kept)
{
	cr_expect_eq(chosen(expenses_of(20, 20, 10, 39), 5), 3, "the others are all too little");
	cr_expect_eq(chosen(expenses_of(0.5, 0.5, 0.5, 39), 5), 0, "and too cheap");
	cr_expect_eq(chosen(expenses_of(20, 20, 10, 41), 5), 4, "too many calls for steps");
}
