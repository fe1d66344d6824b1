// SPDX-License-Identifier: BSD-2-Clause
#include "attach/rings.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define LANES 5

struct item {
	uint64_t time_ns;
	uint32_t lane, number; /* in its lane */
};

static struct {
	struct item items[20000];
	size_t count;
} taken;

static void take(void *ctx, const void *record, size_t size)
{
	(void)ctx;
	cr_assert_eq(size, sizeof(struct item));
	memcpy(&taken.items[taken.count++], record, size);
}

static void add(struct merge *merge, uint32_t lane, uint32_t number, uint64_t time_ns)
{
	struct item item = {.time_ns = time_ns, .lane = lane, .number = number};

	cr_assert_eq(merge__add(merge, lane, time_ns, &item, sizeof(item)), 0);
}

static void set_up(void)
{
	taken.count = 0;
	srand(7);
}

TestSuite(merge, .init = set_up);

/* Lanes that are filled and emptied piece by piece: all records come out, each once, in order. */
Test(merge, records_come_out_in_order_of_time)
{
	struct merge *merge = merge__new(LANES);
	uint64_t last_ns[LANES] = {0}, now_ns = 0;
	uint32_t counts[LANES] = {0}, seen[LANES] = {0};
	size_t added = 0;

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 100; i++, added++) {
			uint32_t lane = (uint32_t)rand() % LANES;

			last_ns[lane] += (uint64_t)rand() % 10;
			if (last_ns[lane] < now_ns)
				last_ns[lane] = now_ns;
			add(merge, lane, counts[lane]++, last_ns[lane]);
		}
		now_ns += 10;
		merge__drain(merge, now_ns - 1, take, NULL);
		for (size_t i = 0; i < taken.count; i++)
			cr_assert_lt(taken.items[i].time_ns, now_ns);
	}
	merge__drain(merge, UINT64_MAX, take, NULL);
	merge__free(merge);
	cr_assert_eq(taken.count, added);
	for (size_t i = 0; i < taken.count; i++) {
		cr_assert(!i || taken.items[i - 1].time_ns <= taken.items[i].time_ns);
		cr_assert_eq(taken.items[i].number, seen[taken.items[i].lane]++);
	}
}

Test(merge, a_lane_keeps_its_order)
{
	struct merge *merge = merge__new(2);

	add(merge, 0, 0, 10);
	add(merge, 0, 1, 5); /* counts as of 10 */
	add(merge, 1, 0, 7);
	merge__drain(merge, 9, take, NULL);
	cr_assert_eq(taken.count, 1);
	cr_assert_eq(taken.items[0].lane, 1);
	merge__drain(merge, 10, take, NULL);
	cr_assert_eq(taken.count, 3);
	cr_assert_eq(taken.items[1].number, 0);
	cr_assert_eq(taken.items[2].number, 1);
	merge__free(merge);
}

/* A thread that lost its CPU before it looked at the clock has its record before those of others.
 */
Test(merge, a_record_takes_its_place_by_its_time)
{
	struct merge *merge = merge__new(2);
	struct item items[] = {{.time_ns = 10}, {.time_ns = 30}, {.time_ns = 20}, {.time_ns = 20},
			       {.time_ns = 5},	{.time_ns = 30}, {.time_ns = 31}};
	uint32_t count = sizeof(items) / sizeof(items[0]);

	add(merge, 1, 0, 25);
	for (uint32_t i = 0; i < count; i++) {
		items[i].number = i;
		cr_assert_eq(merge__insert(merge, 0, items[i].time_ns, &items[i], sizeof(items[i])),
			     0);
	}
	merge__drain(merge, UINT64_MAX, take, NULL);
	merge__free(merge);
	cr_assert_eq(taken.count, count + 1);
	cr_expect_eq(taken.items[4].time_ns, 25);
	for (size_t i = 1; i < taken.count; i++) {
		cr_expect_leq(taken.items[i - 1].time_ns, taken.items[i].time_ns);
		/* of one time: as they came */
		if (taken.items[i - 1].time_ns == taken.items[i].time_ns)
			cr_expect_lt(taken.items[i - 1].number, taken.items[i].number);
	}
}

Test(merge, what_is_late_goes_out_at_once)
{
	struct merge *merge = merge__new(2);

	add(merge, 0, 0, 100);
	merge__drain(merge, 100, take, NULL);
	add(merge, 1, 0, 50);
	add(merge, 0, 1, 200);
	merge__drain(merge, 100, take, NULL);
	cr_assert_eq(taken.count, 2);
	cr_assert_eq(taken.items[1].lane, 1);
	merge__free(merge);
}

/* Of any size, also none that is a multiple of 8. */
static void take_text(void *ctx, const void *record, size_t size)
{
	char *text = ctx;

	strncat(text, record, size);
}

Test(merge, records_of_different_sizes)
{
	struct merge *merge = merge__new(2);
	char text[64] = "";

	cr_assert_eq(merge__add(merge, 0, 3, "three", 5), 0);
	cr_assert_eq(merge__add(merge, 1, 1, "a record of one ", 16), 0);
	cr_assert_eq(merge__add(merge, 1, 4, "!", 1), 0);
	merge__drain(merge, UINT64_MAX, take_text, text);
	cr_assert_str_eq(text, "a record of one three!");
	merge__free(merge);
}
