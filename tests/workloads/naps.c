/* SPDX-License-Identifier: BSD-2-Clause */
/* Long calls: each spins so long that a probe's cost does not show in its mean. The program has its
 * own clock beside the tracer's. */
#include "known.h"

#include <time.h>

#define CALLS  2000
#define NAP_NS 200000

static uint64_t own_ns;

TRACED uint64_t nap(uint64_t length_ns)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC), spun_ns;

	do
		spun_ns = known_clock_ns(CLOCK_MONOTONIC) - start_ns;
	while (spun_ns < length_ns);
	return spun_ns;
}

static void scenario(void)
{
	for (int i = 0; i < CALLS; i++) {
		uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);

		known_require(nap(NAP_NS) >= NAP_NS, "nap");
		own_ns += known_clock_ns(CLOCK_MONOTONIC) - start_ns;
	}
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("nap", "calls", runs * CALLS);
	known_expect("nap", "own_ns", own_ns);
	return 0;
}
