/* SPDX-License-Identifier: BSD-2-Clause */
/* Two recordings to compare: paces FACTOR MIB. A call of `paced` spins FACTOR times as long as one
 * of `steady`, and `filled` holds a block of that many MiB. The program has its own clock. */
#include "known.h"

#include <time.h>

#define CALLS	200
#define LONG_NS 300000

static uint64_t factor = 1, mib = 1;
static uint64_t paced_ns, steady_ns;

static void spin(uint64_t length_ns)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);

	while (known_clock_ns(CLOCK_MONOTONIC) - start_ns < length_ns)
		;
}

TRACED void paced(uint64_t length_ns)
{
	spin(length_ns);
}

TRACED void steady(uint64_t length_ns)
{
	spin(length_ns);
}

TRACED void filled(uint64_t bytes)
{
	char *block = malloc(bytes);

	known_require(block != NULL, "malloc");
	memset(block, 1, bytes);
	KEEP(block);
	free(block);
}

static void scenario(void)
{
	for (int i = 0; i < CALLS; i++) {
		uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC), between_ns;

		paced(factor * LONG_NS);
		between_ns = known_clock_ns(CLOCK_MONOTONIC);
		steady(LONG_NS);
		paced_ns += between_ns - start_ns;
		steady_ns += known_clock_ns(CLOCK_MONOTONIC) - between_ns;
	}
	for (int i = 0; i < 10; i++)
		filled(mib << 20);
}

int main(int argc, char **argv)
{
	uint64_t runs;

	if (argc > 2) {
		factor = strtoull(argv[1], NULL, 10);
		mib = strtoull(argv[2], NULL, 10);
	}
	runs = known_main(scenario);
	known_expect("paced", "calls", runs * CALLS);
	known_expect("steady", "calls", runs * CALLS);
	known_expect("filled", "calls", runs * 10);
	known_expect("paced", "own_ns", paced_ns);
	known_expect("steady", "own_ns", steady_ns);
	return 0;
}
