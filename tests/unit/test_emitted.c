// SPDX-License-Identifier: BSD-2-Clause
#include "base/emitted.h"

#include <criterion/criterion.h>

static int take(struct emitted *emitted, uint64_t key, uint64_t first, uint64_t second,
		uint64_t difference[2])
{
	difference[0] = first;
	difference[1] = second;
	return emitted_advance(emitted, key, difference);
}

Test(emitted, differences_by_key)
{
	struct emitted emitted = {.width = 2};
	uint64_t d[2];

	cr_assert_eq(take(&emitted, 7, 3, 40, d), 1);
	cr_assert(d[0] == 3 && d[1] == 40, "the first time all of it");
	cr_assert_eq(take(&emitted, UINT64_MAX, 1, 0, d), 1);
	cr_assert(d[0] == 1 && d[1] == 0, "keys do not mix");
	cr_assert_eq(take(&emitted, 7, 3, 45, d), 1);
	cr_assert(d[0] == 0 && d[1] == 5);
	cr_assert_eq(take(&emitted, 7, 3, 45, d), 0);
	emitted_clear(&emitted);
}

Test(emitted, what_was_not_emitted_comes_the_next_time)
{
	struct emitted emitted = {.width = 1};
	uint64_t sum = 5;

	cr_assert(emitted_subtract(&emitted, 1, &sum));
	cr_assert_eq(sum, 5);
	sum = 8;
	cr_assert(emitted_subtract(&emitted, 1, &sum));
	cr_assert_eq(sum, 8);
	cr_assert_eq(emitted_add(&emitted, 1, &sum), 0);
	sum = 9;
	cr_assert_eq(emitted_advance(&emitted, 1, &sum), 1);
	cr_assert_eq(sum, 1);
	emitted_clear(&emitted);
}

Test(emitted, a_sum_that_shrinks_wraps)
{
	struct emitted emitted = {.width = 1};
	uint64_t sum = 5;

	cr_assert_eq(emitted_advance(&emitted, 0, &sum), 1);
	sum = 3;
	cr_assert_eq(emitted_advance(&emitted, 0, &sum), 1);
	cr_assert_eq((int64_t)sum, -2);
	sum = 3;
	cr_assert_eq(emitted_advance(&emitted, 0, &sum), 0);
	emitted_clear(&emitted);
}

static bool is_the_key(const void *ctx, uint64_t key)
{
	return key == *(const uint64_t *)ctx;
}

/* The kernel's sums of a process that has ended are removed, and its index is given again. */
Test(emitted, a_key_that_was_forgotten_begins_at_0)
{
	struct emitted emitted = {.width = 2};
	const uint64_t gone = 7;
	uint64_t d[2];

	take(&emitted, 7, 30, 40, d);
	take(&emitted, 8, 30, 40, d);
	emitted_forget(&emitted, is_the_key, &gone);
	cr_assert_eq(take(&emitted, 7, 3, 0, d), 1);
	cr_assert(d[0] == 3 && d[1] == 0);
	cr_assert_eq(take(&emitted, 8, 31, 40, d), 1);
	cr_assert(d[0] == 1 && d[1] == 0);
	emitted_clear(&emitted);
}

Test(emitted, many_keys)
{
	struct emitted emitted = {.width = 3};

	for (uint64_t round = 1; round <= 3; round++)
		for (uint64_t key = 0; key < 5000; key++) {
			uint64_t sums[3] = {key * round, round, 1};

			cr_assert_eq(emitted_advance(&emitted, key << 32, sums), 1);
			cr_assert(sums[0] == key && sums[1] == 1 && sums[2] == (round == 1));
		}
	emitted_clear(&emitted);
}
