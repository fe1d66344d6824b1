// SPDX-License-Identifier: BSD-2-Clause
#include "base/grow.h"

#include <errno.h>
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

void *grow_to(void *array, size_t *capacity, size_t *count, size_t index, size_t item_size)
{
	char *items;

	errno = ENOMEM;
	if (grow_array(array, capacity, index + 1, item_size))
		return NULL;
	if (index >= *count)
		*count = index + 1;
	memcpy(&items, array, sizeof(items));
	return items + index * item_size;
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

void *chunks_add(struct chunks *chunks, size_t item_size)
{
	size_t at = chunks->count >> CHUNKS_SHIFT;

	if (grow_array(&chunks->chunks, &chunks->capacity, at + 1, sizeof(*chunks->chunks)))
		return NULL;
	if (!chunks->chunks[at])
		chunks->chunks[at] = calloc(CHUNKS_ITEMS, item_size);
	if (!chunks->chunks[at])
		return NULL;
	return chunks_at(chunks, chunks->count++, item_size);
}

void chunks_clear(struct chunks *chunks)
{
	for (size_t i = 0; i < chunks->capacity && chunks->chunks[i]; i++)
		free(chunks->chunks[i]);
	free(chunks->chunks);
	*chunks = (struct chunks){0};
}

struct map64_slot {
	uint64_t key;
	uint32_t taken; /* index + 1; 0: free */
};

/* splitmix64's finalizer: keys are dense ids and must spread. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static struct map64_slot *find_slot(const struct map64 *map, uint64_t key)
{
	size_t at = mix(key) & (map->capacity - 1);

	while (map->slots[at].taken && map->slots[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return &map->slots[at];
}

uint32_t map64_get(const struct map64 *map, uint64_t key)
{
	/* a free slot holds 0, which wraps to MAP64_NONE */
	return map->capacity ? find_slot(map, key)->taken - 1 : MAP64_NONE;
}

static int rehash(struct map64 *map)
{
	struct map64 larger = {.capacity = map->capacity ? map->capacity * 2 : 16};

	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->slots[i].taken)
			*find_slot(&larger, map->slots[i].key) = map->slots[i];
	}
	larger.count = map->count;
	free(map->slots);
	*map = larger;
	return 0;
}

int map64_put(struct map64 *map, uint64_t key, uint32_t index)
{
	if (4 * (map->count + 1) > 3 * map->capacity && rehash(map))
		return -ENOMEM;
	*find_slot(map, key) = (struct map64_slot){.key = key, .taken = index + 1};
	map->count++;
	return 0;
}

void map64_remove(struct map64 *map, uint64_t key)
{
	struct map64_slot *slot = map->capacity ? find_slot(map, key) : NULL;
	size_t mask = map->capacity - 1, hole;

	if (!slot || !slot->taken)
		return;
	hole = (size_t)(slot - map->slots);
	/* those behind it whose way from their own place leads over the hole move there */
	for (size_t at = (hole + 1) & mask; map->slots[at].taken; at = (at + 1) & mask) {
		size_t own = mix(map->slots[at].key) & mask;

		if (((at - own) & mask) < ((at - hole) & mask))
			continue;
		map->slots[hole] = map->slots[at];
		hole = at;
	}
	map->slots[hole] = (struct map64_slot){0};
	map->count--;
}

void map64_clear(struct map64 *map)
{
	free(map->slots);
	*map = (struct map64){0};
}

void *map64_item(struct map64 *map, uint64_t key, void *array, size_t *capacity, size_t *count,
		 size_t item_size)
{
	uint32_t at = map64_get(map, key);
	bool is_new = at == MAP64_NONE;
	char *item;

	if (is_new)
		at = (uint32_t)*count;
	errno = ENOMEM;
	if (is_new &&
	    (grow_array(array, capacity, *count + 1, item_size) || map64_put(map, key, at)))
		return NULL;
	memcpy(&item, array, sizeof(item));
	item += at * item_size;
	if (is_new) {
		memset(item, 0, item_size);
		++*count;
	}
	return item;
}

int prefixes_add(struct prefixes *prefixes, const char *text)
{
	int err = grow_array(&prefixes->list, &prefixes->capacity, prefixes->count + 1,
			     sizeof(*prefixes->list));

	if (!err)
		prefixes->list[prefixes->count++] = text;
	return err;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void prefixes_sort(struct prefixes *prefixes)
{
	if (prefixes->count)
		qsort(prefixes->list, prefixes->count, sizeof(*prefixes->list), compare);
}

/* From low to high are those that begin as the name does, up to depth; the shortest stands first.
 */
bool prefixes_match(const struct prefixes *prefixes, const char *name)
{
	const char **list = prefixes->list;
	size_t low = 0, high = prefixes->count;

	for (size_t depth = 0; low < high; depth++) {
		if (!list[low][depth])
			return true;
		while (low < high && list[low][depth] != name[depth])
			low++;
		while (low < high && list[high - 1][depth] != name[depth])
			high--;
	}
	return false;
}

void prefixes_clear(struct prefixes *prefixes)
{
	free(prefixes->list);
	*prefixes = (struct prefixes){0};
}
