/* SPDX-License-Identifier: BSD-2-Clause */
/* A library of turns.c: its work is in its own function. */
#include "known.h"

#ifndef TURN
#define TURN turn_a
#endif

TRACED uint64_t TURN(uint64_t spin_ns)
{
	uint64_t begin_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = begin_ns;

	while (now_ns - begin_ns < spin_ns) {
		for (int i = 0; i < 100000; i++)
			KEEP(i);
		now_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	}
	return now_ns - begin_ns;
}
