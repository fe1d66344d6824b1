/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled by test_perfx_h.c with every compiler and linker it finds. Each marked function has
 * "mark_…" in its symbol, and the same in its name unless PERFX_TRACK_AS says otherwise. */
#if defined(WITHOUT)
#define PERFX_TRACK()	     __asm__ __volatile__("")
#define PERFX_TRACK_AS(name) __asm__ __volatile__("")
#define MARKED		     __attribute__((noinline, noclone))
#else
#include "perfx.h"
#define MARKED
#endif

MARKED static int mark_static(int x)
{
	PERFX_TRACK();
	return x * 3 + 1;
}

MARKED static int mark_once(const int *values, int count)
{
	int sum = 0;

	PERFX_TRACK();
	for (int i = 0; i < count; i++)
		sum += values[i] > 3 ? values[i] : -1;
	return sum;
}

int mark_global(int x);
MARKED int mark_global(int x)
{
	PERFX_TRACK();
	return x ? mark_static(x) - mark_static(x - 1) : 2;
}

/* What the assembler and printf-like asm templates could stumble over. */
int mark_named(int x);
MARKED int mark_named(int x)
{
	PERFX_TRACK_AS("mark_named 100% {a|b} \"q\" \\n");
	return x ^ 5;
}

int dead(int x);
MARKED int dead(int x)
{
	PERFX_TRACK_AS("nobody calls this");
	return x + 77;
}

int main(int argc, char **argv)
{
	int values[] = {argc, 4, 5, 6};

	(void)argv;
	return mark_global(argc) + mark_named(argc) + mark_once(values, 4);
}
