// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/pools.h"

#include "base/order.h"

#include <stdbool.h>
#include <stdlib.h>

/* Of CPython, 48 bytes. */
struct pool_header {
	uint64_t used_count; /* 32 bits and padding */
	uint64_t free_block, next, previous;
	uint32_t arena, size_class;
	uint32_t next_offset, last_offset; /* of blocks that were never used; of the last block */
};

#define SIZE_CLASSES 32u
#define ALIGNMENT    16u
#define OLD_BYTES    4096u
#define POOL_BYTES   16384u

/* Addresses examined at once. Of those only every fourth pool is asked for first: most memory has
 * none. */
#define WINDOW_BYTES	(1u << 20)
#define PROBE_BYTES	(4 * POOL_BYTES)
#define WINDOWS_SCANNED 8 /* small mappings are examined wholly */
#define HEADERS_MAX	(WINDOW_BYTES / OLD_BYTES)

static uint32_t block_bytes(const struct pool_header *pool)
{
	return (pool->size_class + 1) * ALIGNMENT;
}

/* 0: it is no header. */
static uint32_t pool_bytes(const struct pool_header *pool)
{
	uint32_t size, bytes;

	if (pool->size_class >= SIZE_CLASSES || (pool->used_count && !pool->next))
		return 0;
	size = block_bytes(pool);
	bytes = pool->last_offset + size;
	if ((bytes != OLD_BYTES && bytes != POOL_BYTES) ||
	    pool->next_offset < sizeof(*pool) + size || pool->next_offset > bytes ||
	    (uint32_t)pool->used_count > (bytes - sizeof(*pool)) / size)
		return 0;
	return bytes;
}

/* Reads the headers of pools at every `step` bytes, of which the pages are resident. */
static size_t read_headers(struct pages *pages, uint64_t start, uint64_t end, uint32_t step,
			   struct pool_header *headers, uint64_t *addresses)
{
	bool resident[HEADERS_MAX];
	size_t count = 0;

	if (pages__are_resident(pages, start, (end - start) / OLD_BYTES, resident))
		return 0;
	for (uint64_t at = (start + step - 1) / step * step; at + OLD_BYTES <= end; at += step)
		if (resident[(at - start) / OLD_BYTES] &&
		    !pages__read(pages, at, &headers[count], sizeof(*headers)))
			addresses[count++] = at;
	return count;
}

static int add_pool(struct python_pools *pools, const struct pool_header *pool, uint64_t address)
{
	uint64_t bytes = pool_bytes(pool);

	pools->pools_count++;
	pools->pools_bytes += bytes;
	pools->blocks_count += (uint32_t)pool->used_count;
	pools->blocks_bytes += (uint32_t)pool->used_count * (uint64_t)block_bytes(pool);
	return heap_ranges_add(&pools->ranges, address, address + bytes);
}

int python_pools_add(struct python_pools *pools, struct pages *pages, uint64_t start, uint64_t end)
{
	struct pool_header headers[HEADERS_MAX];
	uint64_t addresses[HEADERS_MAX];
	uint32_t step = start + WINDOWS_SCANNED * WINDOW_BYTES >= end ? POOL_BYTES : 0;
	int err = 0;

	for (uint64_t next; start < end && !err; start = next) {
		size_t count;

		next = min_u64(end, (start / WINDOW_BYTES + 1) * WINDOW_BYTES);
		/* the next one of an arena may have few pools yet */
		count = read_headers(pages, start, next, step ?: PROBE_BYTES, headers, addresses);
		step = 0;
		for (size_t i = 0; i < count && !step; i++)
			step = pool_bytes(&headers[i]);
		if (!step)
			continue;
		count = read_headers(pages, start, next, step, headers, addresses);
		for (size_t i = 0; i < count && !err; i++)
			if (pool_bytes(&headers[i]) == step)
				err = add_pool(pools, &headers[i], addresses[i]);
	}
	return err;
}

void python_pools_clear(struct python_pools *pools)
{
	free(pools->ranges.list);
	*pools = (struct python_pools){0};
}
