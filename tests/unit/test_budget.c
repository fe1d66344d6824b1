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
