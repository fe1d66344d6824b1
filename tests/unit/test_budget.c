// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <criterion/criterion.h>
#include <math.h>

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
	const struct expense *expense =
		budget_choose(&expenses, allowed_ns, (struct budget_least){{1, 1, 1, 25, 20, 40}});

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

Test(budget, little_is_not_given_up_for_an_excess_that_stays)
{
	struct expenses kept = expenses_of(3, 0, 0, 39), chosen_by_user = expenses_of(3, 0, 0, 0);

	cr_expect_eq(chosen(kept, 5), 0, "3 of 37 too much");
	cr_expect_eq(chosen(kept, 2), 1, "too much by itself");
	cr_expect_eq(chosen(expenses_of(4, 0, 0, 39), 5), 1, "a tenth of it");
	chosen_by_user.all_ns += 40;
	cr_expect_eq(chosen(chosen_by_user, 5), 0);
}

/* For what surely ends a step more is allowed than for what may. */
Test(budget, ends_of_steps_are_kept_longest)
{
	struct expenses expenses = expenses_of(0.5, 0.5, 0.5, 39);
	struct budget_least least = {{1, 1, 1, 25, 20, 40, 80}};

	expenses_add(&expenses, WORTH_STEP_ENDS, (struct expense){.index = 8, .ns = 79});
	cr_expect_null(budget_choose(&expenses, 5, least));
	expenses = expenses_of(0.5, 0.5, 0.5, 39);
	expenses_add(&expenses, WORTH_STEP_ENDS, (struct expense){.index = 8, .ns = 81});
	cr_expect_eq(budget_choose(&expenses, 5, least)->index, 8);
}

/* Where threads wait is the base of the report: not for a small saving. */
Test(budget, waits_are_kept_while_they_are_cheap)
{
	struct expenses expenses = expenses_of(0.5, 0.5, 0.5, 39);

	expenses_add(&expenses, WORTH_WAITS, (struct expense){.index = 5, .ns = 19});
	cr_expect_eq(chosen(expenses, 5), 0);
	expenses_add(&expenses, WORTH_WAITS, (struct expense){.index = 6, .ns = 21});
	cr_expect_eq(chosen(expenses, 5), 6);
}

/* Memory that grows is the headline: operators' times and FLOPs go first. */
Test(budget, where_memory_grows_is_kept)
{
	struct expenses expenses = expenses_of(20, 20, 10, 0);

	expenses_add(&expenses, WORTH_GROWTH, (struct expense){.index = 5, .ns = 30});
	cr_expect_eq(chosen(expenses, 60), 1);
	cr_expect_eq(chosen(expenses, 40), 2);
	cr_expect_eq(chosen(expenses, 29), 5, "all of the others together are not enough");
	expenses = expenses_of(20, 20, 10, 0);
	expenses_add(&expenses, WORTH_GROWTH, (struct expense){.index = 5, .ns = 24});
	cr_expect_eq(chosen(expenses, 20), 3, "it costs too little to be given up");
}

/* Until it is known whether memory grows, nothing goes for what it costs. */
Test(budget, a_deferred_cost_takes_nothing)
{
	struct expenses expenses = expenses_of(20, 20, 10, 0);

	expenses.all_ns += 30;
	expenses.deferred_ns += 30;
	cr_expect_eq(chosen(expenses, 50), 0);
	cr_expect_eq(chosen(expenses, 49), 1);
}

#define MS 1e6

/* A program on one CPU, whose probes cost so many ns in each ns of its own, by worth. */
struct simulated {
	double rates[WORTHS];
	double share; /* of the time that it has the CPU for */
};

/* What tracing took of the program's CPU time, in percent of the rest. */
static double slowdown(struct simulated program, double seconds)
{
	double spent_ns = 0, busy_ns = 0, window_ns[WORTHS] = {0}, kept = 0;
	struct pace pace;

	pace_begin(&pace, 5);
	for (double ns = 0; ns < seconds * 1e9; ns += 50 * MS) {
		double rate = 0, own_ns, used_ns = 50 * MS * program.share, allowed_ns;
		struct expenses expenses = {0};
		const struct expense *expense;
		double tick_ns = 0;

		for (int i = 0; i < WORTHS; i++)
			rate += program.rates[i];
		own_ns = used_ns / (1 + rate);
		for (int i = 0; i < WORTHS; i++) {
			window_ns[i] = kept * window_ns[i] + own_ns * program.rates[i];
			tick_ns += own_ns * program.rates[i];
			expenses_add(&expenses, (enum worth)i,
				     (struct expense){.index = (size_t)i, .ns = window_ns[i]});
		}
		busy_ns += used_ns;
		spent_ns += tick_ns;
		pace_add(&pace, kept, (uint64_t)(50 * MS), used_ns, tick_ns);
		kept = exp(-0.05);
		allowed_ns = pace_allowed_ns(&pace, seconds * 1e9 - ns);
		expense = budget_choose(
			&expenses, allowed_ns,
			(struct budget_least){.ns = {[WORTH_STEPS] = 0.04 * used_ns}});
		if (!expense || allowed_ns == HUGE_VAL)
			continue;
		program.rates[expense->index] = 0;
		window_ns[expense->index] = 0;
		kept = 0;
	}
	return 100 * spent_ns / (busy_ns - spent_ns);
}

Test(budget, five_percent_of_the_whole_recording)
{
	static const struct simulated programs[] = {
		/* a small MLP: twice as slow with all probes, of which tensors are most */
		{{0.60, 0.20, 0.10, 0, 0.01, 0.02}, 1},
		/* one whose parts are each within the limit, and not together */
		{{0.03, 0.03, 0.03, 0, 0.01, 0.01}, 1},
		/* threads that hand over a lock all the time */
		{{0, 0, 0, 0, 0.35, 0}, 1},
		/* one that has a third of a CPU */
		{{0.60, 0.20, 0.10, 0, 0.01, 0.02}, 0.33},
		/* one that costs nearly nothing */
		{{0.01, 0.01, 0.01, 0, 0.01, 0}, 1},
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		double seconds = 4 / programs[i].share;
		double percent = slowdown(programs[i], seconds);

		cr_expect_leq(percent, 5, "program %zu: %g %%", i, percent);
	}
	cr_expect_float_eq(slowdown(programs[4], 4), 4, 1e-6, "within the limit nothing goes");
}

/* A server that uses a hundredth of a CPU, half of that for probes, keeps them all: they take
 * 3 ms of each second. */
Test(budget, a_program_that_hardly_runs_keeps_its_probes)
{
	struct simulated server = {.rates = {0.5}, .share = 0.01};

	cr_expect_float_eq(slowdown(server, 10), 50, 1e-6);
}

/* On a busy machine the programs that a hit runs wait for a CPU, which is no time of the CPU: a
 * cost that is more than all the CPU time is not believed, and leaves no debt for what it is more.
 */
Test(budget, no_cost_is_more_than_the_cpu_time)
{
	struct pace pace, all;

	pace_begin(&pace, 5);
	pace_begin(&all, 5);
	pace_add(&pace, 0, (uint64_t)(250 * MS), 100 * MS, 500 * MS);
	pace_add(&all, 0, (uint64_t)(250 * MS), 100 * MS, 100 * MS);
	cr_expect_float_eq(pace.credit_ns, all.credit_ns, 1);
	cr_expect_float_eq(pace_allowed_ns(&pace, 10e9), pace_allowed_ns(&all, 10e9), 1);
}

/* A burst at the beginning is paid back over the rest of the recording, and one that comes later is
 * paid from what was saved. */
Test(budget, credit)
{
	struct pace pace;

	pace_begin(&pace, 5);
	cr_expect_eq(pace_allowed_ns(&pace, 10e9), HUGE_VAL);
	pace_add(&pace, 0, (uint64_t)(50 * MS), 50 * MS, 6 * MS);
	cr_expect_eq(pace_allowed_ns(&pace, 10e9), HUGE_VAL, "from the advance");
	pace_add(&pace, 1, (uint64_t)(50 * MS), 50 * MS, 48 * MS);
	/* of 100 ms: 4.31 are aimed at, and 49.69 of debt are paid back */
	cr_expect_float_eq(pace_allowed_ns(&pace, 10e9), (4.3062 - 0.4969) * MS, 100);
	cr_expect_float_eq(pace_allowed_ns(&pace, HUGE_VAL), (4.3062 - 0.4969) * MS, 100);
	cr_expect_float_eq(pace_allowed_ns(&pace, 4e9), (4.3062 - 1.2424) * MS, 100);
	cr_expect_float_eq(pace_allowed_ns(&pace, 0), 4.3062 / 2 * MS, 100, "half of it stays");
	for (int i = 0; i < 100; i++)
		pace_add(&pace, 0.9, (uint64_t)(50 * MS), 50 * MS, 0);
	pace_add(&pace, 0.9, (uint64_t)(50 * MS), 50 * MS, 50 * MS);
	cr_expect_eq(pace_allowed_ns(&pace, 10e9), HUGE_VAL, "from what was saved");
}
