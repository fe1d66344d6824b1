// SPDX-License-Identifier: BSD-2-Clause
#include "session/step_watch.h"

#include <criterion/criterion.h>

static struct trigger parsed(const char *text)
{
	struct trigger trigger;

	cr_assert_eq(trigger_parse(text, &trigger), 0, "%s", text);
	return trigger;
}

Test(trigger, a_multiple_or_a_time)
{
	cr_assert_eq(parsed("step>2x").times, 2);
	cr_assert_eq(parsed("step>1.5x").times, 1.5);
	cr_assert_eq(parsed("step>250ms").ns, 250000000);
	cr_assert_eq(parsed("step>2").ns, 2000000000);
	cr_assert_eq(parsed("step>2x").ns, 0);
	cr_assert_eq(parsed("step>2s").times, 0);
	cr_assert_eq(parsed("stall>60s").stall_ns, 60000000000);
	cr_assert_eq(parsed("stall>60s").ns, 0);
}

Test(trigger, what_is_none)
{
	static const char *const wrong[] = {"",		 "step",     "step>",	  "step>x",
					    "step>0x",	 "step>-2x", "step>0.5x", "step>nanx",
					    "step>infx", "step>2y",  "step>0",	  "step<2x",
					    "slow>2x",	 "step> 2x", "step>1e9x", "stall>2x",
					    "stall>0",	 "stall>"};
	struct trigger trigger;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_neq(trigger_parse(wrong[i], &trigger), 0, "%s", wrong[i]);
}

Test(trigger, a_multiple_of_the_median_of_ten_at_least)
{
	struct trigger trigger = parsed("step>2x");
	struct slow_step step = {.duration_ns = 201, .median_ns = 100};

	cr_assert(trigger_fires(&trigger, &step, TRIGGER_STEPS_MIN));
	cr_assert_not(trigger_fires(&trigger, &step, TRIGGER_STEPS_MIN - 1));
	step.duration_ns = 200;
	cr_assert_not(trigger_fires(&trigger, &step, TRIGGER_STEPS_MIN));
}

Test(trigger, a_time_from_the_first_step_on)
{
	struct trigger trigger = parsed("step>250ms");
	struct slow_step step = {.duration_ns = 250000001};

	cr_assert(trigger_fires(&trigger, &step, 1));
	step.duration_ns--;
	cr_assert_not(trigger_fires(&trigger, &step, 1));
}
