// SPDX-License-Identifier: BSD-2-Clause
#include "base/map64.h"

#include <errno.h>
#include <stdlib.h>

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

static struct map64_slot *find(const struct map64 *map, uint64_t key)
{
	size_t at = mix(key) & (map->capacity - 1);

	while (map->slots[at].taken && map->slots[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return &map->slots[at];
}

uint32_t map64_get(const struct map64 *map, uint64_t key)
{
	/* a free slot holds 0, which wraps to MAP64_NONE */
	return map->capacity ? find(map, key)->taken - 1 : MAP64_NONE;
}

static int rehash(struct map64 *map)
{
	struct map64 larger = {.capacity = map->capacity ? map->capacity * 2 : 16};

	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->slots[i].taken)
			*find(&larger, map->slots[i].key) = map->slots[i];
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
	*find(map, key) = (struct map64_slot){.key = key, .taken = index + 1};
	map->count++;
	return 0;
}

void map64_clear(struct map64 *map)
{
	free(map->slots);
	*map = (struct map64){0};
}
