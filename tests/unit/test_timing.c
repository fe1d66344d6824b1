// SPDX-License-Identifier: BSD-2-Clause
/* Functions whose calls nest too deep for return probes, and what else may time them. */
#include "plan/plan.h"

#include <criterion/criterion.h>

static struct plan_function by_return(enum exits_state state)
{
	return (struct plan_function){
		.name = "f", .ret = PERFX_RETURN_PROBE, .site = {.exits_state = state}};
}

static bool prefers_exits(struct plan_function *function, enum return_mode mode)
{
	struct plan plan = {
		.functions = function, .functions_count = 1, .options = {.return_mode = mode}};

	return plan__prefer_exits(&plan, 0);
}

Test(timing, known_exits_take_over)
{
	struct plan_function function = by_return(EXITS_KNOWN);

	cr_expect(prefers_exits(&function, RETURN_AUTO));
	cr_expect_eq(function.ret, PERFX_RETURN_EXIT);
	cr_expect_str_eq(function.ret_why, "its calls nest too deeply for return probes");
	cr_expect_not(prefers_exits(&function, RETURN_AUTO), "once");
}

Test(timing, exits_that_are_not_known_do_not)
{
	struct plan_function function = by_return(EXITS_UNKNOWN);

	cr_expect_not(prefers_exits(&function, RETURN_AUTO));
	cr_expect_eq(function.ret, PERFX_RETURN_PROBE);
}

Test(timing, return_probes_that_were_asked_for_stay)
{
	struct plan_function function = by_return(EXITS_KNOWN);

	cr_expect_not(prefers_exits(&function, RETURN_PROBE));
	cr_expect_eq(function.ret, PERFX_RETURN_PROBE);
}

Test(timing, exits_that_cannot_be_probed_are_not_tried_again)
{
	struct plan_function function = by_return(EXITS_KNOWN);
	struct plan plan = {.functions = &function, .functions_count = 1};

	plan.options.return_mode = RETURN_AUTO;
	cr_assert(plan__prefer_exits(&plan, 0));
	plan__doubt_exits(&plan, 0, "an exit cannot be probed");
	cr_expect_eq(function.ret, PERFX_RETURN_PROBE);
	cr_expect_str_eq(function.ret_why, "an exit cannot be probed");
	cr_expect_not(plan__prefer_exits(&plan, 0));
}
