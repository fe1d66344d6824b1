/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that are called at a known rate by the clock, TICKS times and TOCKS times a second,
 * whatever the load of the machine, until standard input is closed. */
#include "known.h"

#include <poll.h>
#include <time.h>

#define TICKS 400
#define TOCKS 100

TRACED void tick(uint64_t number)
{
	KEEP(number);
}

TRACED void tock(uint64_t number)
{
	KEEP(number);
}

static bool is_closed(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 1) > 0;
}

int main(void)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC), ticks = 0, tocks = 0;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!is_closed()) {
		uint64_t ns = known_clock_ns(CLOCK_MONOTONIC) - start_ns;

		while (ticks < ns / (1000000000 / TICKS))
			tick(ticks++);
		while (tocks < ns / (1000000000 / TOCKS))
			tock(tocks++);
	}
	known_expect("tick", "a_second", TICKS);
	known_expect("tock", "a_second", TOCKS);
	return 0;
}
