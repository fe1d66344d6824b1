/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUDA driver where there is no GPU: addresses that nobody follows, below 1 GiB in all. */
#include <stddef.h>

#define BASE  0x700000000000ull
#define LIMIT (1ull << 30)

#define OUT_OF_MEMORY 2

static unsigned long long next = BASE;

__attribute__((noipa)) int cuMemAlloc_v2(unsigned long long *device, size_t bytes)
{
	if (bytes > LIMIT)
		return OUT_OF_MEMORY;
	*device = next;
	next += (bytes + 255) & -256ull;
	return 0;
}

__attribute__((noipa)) int cuMemFree_v2(unsigned long long device)
{
	(void)device;
	return 0;
}
