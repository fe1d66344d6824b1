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

static struct background since_nothing(uint64_t events, uint64_t runs, uint64_t ns)
{
	return (struct background){.events_count = events, .runs = {runs, ns}};
}

static uint64_t ns_of(enum tracer_background which, struct background after)
{
	struct background before = {0};
	struct accounted_runs traced = background_of_traced(which, &before, &after);

	cr_expect_eq(traced.count, after.events_count);
	return traced.ns;
}

/* 100 waits, 200 runs of 500 ns, which cost the caches a fifth of it; a tracepoint takes 60 ns
 * itself. */
Test(background, waits_of_traced_threads)
{
	cr_expect_eq(ns_of(TRACER_SWITCHES, since_nothing(100, 200, 100000)), 132000);
	cr_expect_eq(ns_of(TRACER_SWITCHES, since_nothing(0, 0, 0)), 0);
}

/* 800 more runs for threads of other programs, 100 ns each. */
Test(background, others_waits_are_none)
{
	cr_expect_eq(ns_of(TRACER_SWITCHES, since_nothing(100, 1000, 180000)), 132000);
	/* on a slow machine they take longer: a traced one takes three times the mean at most */
	cr_expect_eq(ns_of(TRACER_SWITCHES, since_nothing(1, 10000, 3000000)), 2160 + 120);
}

/* A stack is walked for a traced thread alone, whatever other programs do. It costs the thread's
 * caches 0.4 of its time. */
Test(background, samples_of_traced_threads)
{
	cr_expect_eq(ns_of(TRACER_SAMPLES, since_nothing(5, 905, 5 * 20000 + 900 * 100)),
		     5 * (28000 + 1500));
}

static struct calibration two_sites(void)
{
	return (struct calibration){
		.hit_ns = {[PERFX_SITE_PUSH] = 1000, [PERFX_SITE_STEPPED] = 10000},
		.run_times = {.ns = {[PROGRAM_HIT] = 200}}};
}

/* On a cheap site and on one that is single-stepped, with programs that take 500 ns instead of
 * 200 ns in the traced process. The disturbance is the same. */
Test(hit_costs, a_hit_disturbs_by_more_than_it_takes)
{
	struct calibration calibration = two_sites();
	struct hit_costs costs = {.calibration = &calibration};
	struct plan_function function = {.role = PLAN_CALLS};

	cr_expect_float_eq(hit_costs_entry_ns(&costs, &function, SITE_PUSH, PERFX_RETURN_EXIT),
			   2700, 1e-6);
	costs.run_times.ns[PROGRAM_HIT] = 500;
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 3000, 1e-6);
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_STEPPED), 12000, 1e-6);
	cr_expect_eq(hit_costs_exit_ns(&costs, &function, SITE_BRANCH), 0, "not measured");
}

/* A program that takes ten times what it takes in a loop finds cold caches, and so does all else.
 */
Test(hit_costs, a_hit_disturbs_by_more_where_caches_are_cold)
{
	struct calibration calibration = two_sites();
	struct hit_costs costs = {.calibration = &calibration,
				  .run_times = {.ns = {[PROGRAM_HIT] = 2000}}};
	struct plan_function function = {.role = PLAN_CALLS};

	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 6800, 1e-6);
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_STEPPED), 15800, 1e-6);
}

/* An allocation of a program that is in its loop, beside other work, and one whose stack is walked
 * for 9 us: that is no cold cache, which a plain hit's time shows. */
Test(hit_costs, an_allocation_disturbs_by_what_it_takes_longer)
{
	struct calibration calibration = two_sites();
	struct hit_costs costs = {.calibration = &calibration};
	struct plan_function function = {.role = PLAN_ALLOC_PROBE};
	double *ns = costs.run_times.ns;

	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 1000 + 1700, 1e-6,
			   "nothing is known yet");
	ns[PROGRAM_HIT] = 2000;
	ns[PROGRAM_MEMORY_HIT] = 100;
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 900, 1e-6);
	ns[PROGRAM_MEMORY_HIT] = 400;
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 1200 + 1.3 * 200, 1e-6);
	ns[PROGRAM_MEMORY_HIT] = 9000;
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 9800 + 1.3 * 1800,
			   1e-6);
	ns[PROGRAM_HIT] = 0;
	cr_expect_float_eq(hit_costs_exit_ns(&costs, &function, SITE_PUSH), 9800 + 1700, 1e-6);
}

/* Ticks until an account is complete: it takes two. */
static int ticks_until_account(struct hit_costs *costs, int closing)
{
	for (int tick = 1; tick < 100; tick++) {
		if (hit_costs_wait(costs, tick <= closing))
			continue;
		if (costs->ticks_count++ % 10 == 1)
			return tick;
	}
	return 0;
}

/* Hits through closed gates take a fifteenth of others' time: an account with them would leave all
 * others out. */
Test(hit_costs, an_account_waits_until_links_are_gone)
{
	struct hit_costs none = {0}, closing = {.ticks_count = 10}, amid = {.ticks_count = 11},
			 always = {.ticks_count = 10};

	cr_expect_eq(ticks_until_account(&none, 0), 2);
	cr_expect_eq(ticks_until_account(&closing, 4), 6);
	cr_expect_eq(ticks_until_account(&amid, 1), 3, "the account in progress is none");
	cr_expect_eq(ticks_until_account(&always, 100), 12, "links that take long to go");
	cr_expect_eq(always.waited_count, 0);
}
