// SPDX-License-Identifier: BSD-2-Clause
#include "proc/growth.h"

#include <criterion/criterion.h>
#include <math.h>

#define MIB (1 << 20)
#define MS  1000000u

/* A training whose steps take 24 ms and 16 MiB, which they free, as it is seen each 20 ms. */
static uint64_t memory_at(uint64_t ms, double kept_mib_per_s)
{
	double step = fabs(fmod((double)ms, 24) - 12) / 12;

	return (uint64_t)((100 + 16 * step + kept_mib_per_s * (double)ms / 1000) * MIB);
}

static enum growth watch(struct growth_watch *watch, uint64_t from_ms, uint64_t to_ms,
			 double kept_mib_per_s)
{
	for (uint64_t ms = from_ms; ms < to_ms; ms += 20)
		growth_add(watch, ms * MS, memory_at(ms, kept_mib_per_s));
	return watch->growth;
}

Test(growth, a_tensor_each_step)
{
	static const double rates[] = {20, 40, 400};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct growth_watch kept = {0};

		cr_expect_eq(watch(&kept, 0, 60, rates[i]), GROWTH_POSSIBLE, "not known yet");
		cr_expect_neq(watch(&kept, 60, 500, rates[i]), GROWTH_NONE);
		cr_expect_eq(watch(&kept, 500, 1280, rates[i]), GROWTH_STEADY, "%g", rates[i]);
		cr_expect_eq(watch(&kept, 1280, 9000, rates[i]), GROWTH_STEADY, "%g", rates[i]);
	}
}

/* Steps of 118 ms, of which few samples see the 8 ms in which all is freed. Had it ended once, the
 * allocations would be gone. */
Test(growth, of_long_steps_does_not_end)
{
	struct growth_watch kept = {0};
	bool was_steady = false;

	for (uint64_t ms = 0; ms < 60000; ms += 50) {
		uint64_t more = ms % 118 < 8 ? 0 : 12 * MIB;

		growth_add(&kept, ms * MS, 100 * (uint64_t)MIB + ms * 8 * MIB / 1000 + more);
		cr_expect(!was_steady || kept.growth == GROWTH_STEADY, "%lu ms", ms);
		was_steady = kept.growth == GROWTH_STEADY;
	}
	cr_expect(was_steady);
}

Test(growth, what_comes_and_goes_is_none)
{
	struct growth_watch steps = {0};

	cr_expect_eq(watch(&steps, 0, 200, 0), GROWTH_NONE, "soon known");
	for (uint64_t ms = 200; ms < 9000; ms += 100)
		cr_expect_eq(watch(&steps, ms, ms + 100, 0), GROWTH_NONE, "%lu ms", ms);
}

/* Caches that fill in the first steps: 40 MiB in 0.4 s. */
Test(growth, what_levels_off_is_none)
{
	struct growth_watch warm = {0};

	for (uint64_t ms = 0; ms < 1600; ms += 20) {
		growth_add(&warm, ms * MS, memory_at(ms, 0) + (ms < 400 ? ms : 400) * MIB / 10);
		cr_expect_neq(warm.growth, GROWTH_STEADY, "%lu ms", ms);
	}
	cr_expect_eq(warm.growth, GROWTH_NONE);
}

/* 50 MiB at once. */
Test(growth, one_block_is_none)
{
	struct growth_watch block = {0};

	for (uint64_t ms = 0; ms < 3000; ms += 50) {
		growth_add(&block, ms * MS, (ms < 700 ? 100u : 150u) * (uint64_t)MIB);
		cr_expect_neq(block.growth, GROWTH_STEADY, "%lu ms", ms);
	}
	cr_expect_eq(block.growth, GROWTH_NONE);
}

Test(growth, ends_when_it_stops)
{
	struct growth_watch stops = {0};
	uint64_t grown = 4000 * 40 / 1000 * (uint64_t)MIB;

	cr_expect_eq(watch(&stops, 0, 4000, 40), GROWTH_STEADY);
	for (uint64_t ms = 4000; ms < 8000; ms += 20)
		growth_add(&stops, ms * MS, memory_at(ms, 0) + grown);
	cr_expect_eq(stops.growth, GROWTH_NONE);
}
