// SPDX-License-Identifier: BSD-2-Clause
#include "base/grow.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384

int grow_array(void *array, size_t *capacity, size_t needed, size_t item_size)
{
	size_t room = *capacity ? *capacity : 8;
	char *items;

	if (needed <= *capacity)
		return 0;
	/* so large that it cannot be meant, and doubling would wrap */
	if (needed > SIZE_MAX / 4 / item_size)
		return -ENOMEM;
	while (room < needed)
		room *= 2;
	memcpy(&items, array, sizeof(items));
	items = reallocarray(items, room, item_size);
	if (!items)
		return -ENOMEM;
	memset(items + *capacity * item_size, 0, (room - *capacity) * item_size);
	memcpy(array, &items, sizeof(items));
	*capacity = room;
	return 0;
}

struct pool_block {
	struct pool_block *next;
	size_t used, size;
	char bytes[];
};

static struct pool_block *block_with_room(struct pool *pool, size_t size)
{
	struct pool_block *block = pool->blocks;
	size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;

	if (block && block->size - block->used >= size)
		return block;
	block = malloc(sizeof(*block) + room);
	if (!block)
		return NULL;
	*block = (struct pool_block){.next = pool->blocks, .size = room};
	pool->blocks = block;
	return block;
}

const char *pool_add(struct pool *pool, const char *text)
{
	size_t size = strlen(text) + 1;
	struct pool_block *block = block_with_room(pool, size);
	char *copy;

	if (!block)
		return NULL;
	copy = block->bytes + block->used;
	memcpy(copy, text, size);
	block->used += size;
	return copy;
}

void pool_clear(struct pool *pool)
{
	while (pool->blocks) {
		struct pool_block *next = pool->blocks->next;

		free(pool->blocks);
		pool->blocks = next;
	}
}
