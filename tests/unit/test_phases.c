// SPDX-License-Identifier: BSD-2-Clause
#include "base/phases.h"

#include <criterion/criterion.h>

Test(phases, each_ends_where_the_next_begins)
{
	struct phases phases = {
		.list = {{"features", 1000000}, {"plan", 96400000}, {"load", 406400000}},
		.count = 3,
	};
	char text[128] = "";

	phases_format(&phases, 646400000, text, sizeof(text));
	cr_assert_str_eq(text, "ready in 645 ms: features 95, plan 310, load 240");
}

Test(phases, of_too_many_the_last_goes_on)
{
	struct phases phases = {0};

	for (int i = 0; i < PHASES_MAX; i++)
		phases_begin(&phases, "one");
	phases_begin(&phases, "one too many");
	cr_assert_eq(phases.count, PHASES_MAX);
	cr_assert_str_eq(phases.list[PHASES_MAX - 1].name, "one");
}
