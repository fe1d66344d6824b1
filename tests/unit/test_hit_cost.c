// SPDX-License-Identifier: BSD-2-Clause
#include "attach/hit_cost.h"

#include <criterion/criterion.h>

static bool add(struct run_accounts *accounts, uint64_t count, uint64_t mean_ns)
{
	return run_accounts_add(accounts, (struct accounted_runs){count, count * mean_ns});
}

Test(run_accounts, mean_of_all_runs)
{
	struct run_accounts accounts = {0};

	cr_expect_eq(run_accounts_ns(&accounts), 0);
	cr_expect(add(&accounts, 100, 1000));
	cr_expect_float_eq(run_accounts_ns(&accounts), 1000, 1e-9);
	cr_expect(add(&accounts, 300, 2000));
	cr_expect_float_eq(run_accounts_ns(&accounts), 1750, 1e-9);
}

/* The first run of a thread makes its state: a few runs with one of these say nothing. */
Test(run_accounts, a_few_runs_are_none)
{
	struct run_accounts accounts = {0};

	cr_expect_not(add(&accounts, 49, 400000));
	cr_expect_eq(run_accounts_ns(&accounts), 0);
	cr_expect(add(&accounts, 50, 1000));
	cr_expect_float_eq(run_accounts_ns(&accounts), 1000, 1e-9);
}

/* Whichever came first: the host had the CPU for some milliseconds in one of them. */
Test(run_accounts, without_those_far_above)
{
	struct run_accounts accounts = {0};

	add(&accounts, 1000, 9000);
	cr_expect_float_eq(run_accounts_ns(&accounts), 9000, 1e-9);
	add(&accounts, 1000, 1000);
	cr_expect_float_eq(run_accounts_ns(&accounts), 1000, 1e-9);
	add(&accounts, 1000, 3000);
	cr_expect_float_eq(run_accounts_ns(&accounts), 2000, 1e-9);
	add(&accounts, 1000, 3001);
	cr_expect_float_eq(run_accounts_ns(&accounts), 2000, 1e-9);
}

/* What hits cost changes: the last ones count. */
Test(run_accounts, the_last_ones)
{
	struct run_accounts accounts = {0};

	for (int i = 0; i < 40; i++)
		add(&accounts, 100, 1000);
	for (int i = 0; i < RUN_ACCOUNTS; i++)
		add(&accounts, 100, 5000);
	cr_expect_float_eq(run_accounts_ns(&accounts), 5000, 1e-9);
}
