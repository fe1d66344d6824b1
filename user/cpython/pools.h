/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small objects of CPython (up to 512 bytes each), as its allocator keeps them: in pools of 16 KiB
 * (4 KiB before 3.10), which are parts of arenas. Pools are found by their headers, so that no
 * symbol and no version is needed (Objects/obmalloc.c, 3.6 to 3.14; not free-threaded builds).
 */
#ifndef PERFX_CPYTHON_POOLS_H
#define PERFX_CPYTHON_POOLS_H

#include "proc/heap.h"

#include <stdint.h>

struct python_pools {
	uint64_t pools_count, pools_bytes;
	uint64_t blocks_count, blocks_bytes; /* in use: sys.getallocatedblocks() */
	struct heap_ranges ranges;	     /* of pools, in order of address */
};

/* Adds the pools in an anonymous mapping. Reads only resident pages. 0 or -errno. */
int python_pools_add(struct python_pools *pools, struct pages *pages, uint64_t start, uint64_t end);
void python_pools_clear(struct python_pools *pools);

#endif
