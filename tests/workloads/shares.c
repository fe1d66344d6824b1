/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three functions that take 60, 30 and 10 % of the CPU time, a second of it with each "go".
 * shares leaf: each computes itself; shares called: in a function that all three call; shares
 * periodic: as leaf, in rounds that begin each 1/499 s, by the clock. Further key of "expect":
 *	cpu_ns          the function's share, by the thread's own clock
 */
#include "known.h"

#include <time.h>

#define ROUND_NS 1000000000u
#define PART	 100000 /* of a function with 10 %: about 50 µs */

enum { SIXTY, THIRTY, TEN, FUNCTIONS };

static uint64_t cpu_ns[FUNCTIONS];

static inline __attribute__((always_inline)) void spin(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		KEEP(i);
}

/* A variable on the stack, so that it has a frame despite compiler options. */
TRACED void spin_called(uint64_t count)
{
	volatile uint64_t left = count;

	spin(left);
	left = 0;
}

/* Work after the call prevents a tail call. */
#define SHARE(name, parts)                                      \
	TRACED uint64_t name##_leaf(void)                       \
	{                                                       \
		spin((parts) * (uint64_t)PART);                 \
		return known_clock_ns(CLOCK_THREAD_CPUTIME_ID); \
	}                                                       \
	TRACED uint64_t name##_caller(void)                     \
	{                                                       \
		spin_called((parts) * (uint64_t)PART);          \
		return known_clock_ns(CLOCK_THREAD_CPUTIME_ID); \
	}
#define PART_OF_ROUND(name)                                      \
	TRACED uint64_t name##_part(uint64_t end_ns)             \
	{                                                        \
		while (known_clock_ns(CLOCK_MONOTONIC) < end_ns) \
			spin(1000);                              \
		return known_clock_ns(CLOCK_THREAD_CPUTIME_ID);  \
	}
SHARE(sixty, 6)
SHARE(thirty, 3)
SHARE(ten, 1)
PART_OF_ROUND(sixty)
PART_OF_ROUND(thirty)
PART_OF_ROUND(ten)

static uint64_t (*const leaves[FUNCTIONS])(void) = {sixty_leaf, thirty_leaf, ten_leaf};
static uint64_t (*const callers[FUNCTIONS])(void) = {sixty_caller, thirty_caller, ten_caller};
static uint64_t (*const parts[FUNCTIONS])(uint64_t) = {sixty_part, thirty_part, ten_part};
static const char *const leaf_names[FUNCTIONS] = {"sixty_leaf", "thirty_leaf", "ten_leaf"};
static const char *const caller_names[FUNCTIONS] = {"sixty_caller", "thirty_caller", "ten_caller"};
static const char *const part_names[FUNCTIONS] = {"sixty_part", "thirty_part", "ten_part"};

static void run(uint64_t (*const functions[FUNCTIONS])(void))
{
	uint64_t begin_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID), before_ns = begin_ns;

	while (before_ns - begin_ns < ROUND_NS) {
		for (int i = 0; i < FUNCTIONS; i++) {
			uint64_t after_ns = functions[i]();

			cpu_ns[i] += after_ns - before_ns;
			before_ns = after_ns;
		}
	}
}

static void run_leaves(void)
{
	run(leaves);
}

static void run_callers(void)
{
	run(callers);
}

/* A round each 1/499 s, so that samples can have the same interval; all runs are in phase. */
static void run_rounds(void)
{
	const uint64_t period_ns = 1000000000 / 499;
	const uint64_t tenths[FUNCTIONS] = {6, 9, 10};
	uint64_t begin_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID), before_ns = begin_ns;

	while (before_ns - begin_ns < ROUND_NS) {
		uint64_t round_ns = known_clock_ns(CLOCK_MONOTONIC) / period_ns * period_ns;

		for (int i = 0; i < FUNCTIONS; i++) {
			uint64_t end_ns = round_ns + period_ns * tenths[i] / 10;
			uint64_t after_ns = parts[i](end_ns);

			cpu_ns[i] += after_ns - before_ns;
			before_ns = after_ns;
		}
	}
}

static void expect(const char *const names[FUNCTIONS])
{
	for (int i = 0; i < FUNCTIONS; i++)
		known_expect(names[i], "cpu_ns", cpu_ns[i]);
}

static void expect_leaves(uint64_t runs)
{
	(void)runs;
	expect(leaf_names);
}

static void expect_callers(uint64_t runs)
{
	(void)runs;
	expect(caller_names);
}

static void expect_parts(uint64_t runs)
{
	(void)runs;
	expect(part_names);
}

int main(int argc, char **argv)
{
	static const struct known_case cases[] = {{"leaf", run_leaves, expect_leaves},
						  {"called", run_callers, expect_callers},
						  {"periodic", run_rounds, expect_parts}};

	return known_cases_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
