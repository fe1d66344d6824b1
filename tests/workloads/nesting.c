/* SPDX-License-Identifier: BSD-2-Clause */
/* Recursion in a C program, deeper than the kernel nests return probes (64), but not deeper than
 * calls are kept. The first time, it prints "half-way" half-way down and waits for "go". */
#include "known.h"

#define DEPTH	 200
#define HALF_WAY 100

static bool waited;

TRACED int deep(int n)
{
	int rest;

	if (n == HALF_WAY && !waited) {
		waited = true;
		known_say("half-way");
		known_require(known_go(), "told to go on");
	}
	rest = n > 1 ? deep(n - 1) : 0;
	KEEP(rest);
	return rest + 1;
}

static void scenario(void)
{
	known_require(deep(DEPTH) == DEPTH, "deep");
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("deep", "calls", runs * DEPTH);
	return 0;
}
