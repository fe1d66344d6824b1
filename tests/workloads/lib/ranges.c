/* SPDX-License-Identifier: BSD-2-Clause */
/* Traced functions that call their argument, so that the work inside each is told apart. */
#include "known.h"

#include <perfx.h>

#define RANGE(n)                             \
	void range_##n(void (*body)(void));  \
	void range_##n(void (*body)(void))   \
	{                                    \
		PERFX_TRACK_AS("range " #n); \
		body();                      \
		__asm__ __volatile__("");    \
	}
#define RANGES(n)   \
	RANGE(n##0) \
	RANGE(n##1) \
	RANGE(n##2) \
	RANGE(n##3) RANGE(n##4) RANGE(n##5) RANGE(n##6) RANGE(n##7) RANGE(n##8) RANGE(n##9)

RANGES(1)
RANGES(2)
RANGES(3)
RANGES(4)
RANGES(5)
RANGES(6)
RANGES(7)
RANGES(8)
RANGES(9)
RANGES(10)
RANGES(11)
RANGES(12)
RANGES(13)
RANGES(14)
RANGES(15)
