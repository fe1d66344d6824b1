/* SPDX-License-Identifier: BSD-2-Clause */
/* late.c at other addresses: an instruction's start in one is the middle of one in the other. */
__attribute__((used, noinline)) int late_first(int x)
{
	__asm__ volatile(".fill 23, 1, 0x90" : "+r"(x));
	return x;
}

#include "late.c"
