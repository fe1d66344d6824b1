/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table from 64-bit keys to indices: open addressing, no removal. All-zero is empty. */
#ifndef PERFX_BASE_MAP64_H
#define PERFX_BASE_MAP64_H

#include <stddef.h>
#include <stdint.h>

#define MAP64_NONE UINT32_MAX

struct map64 {
	struct map64_slot *slots;
	size_t capacity, count;
};

/* The index stored under key, or MAP64_NONE. */
uint32_t map64_get(const struct map64 *map, uint64_t key);
/* Stores an index under a key that is not in the map yet. 0 or -ENOMEM. */
int map64_put(struct map64 *map, uint64_t key, uint32_t index);
void map64_clear(struct map64 *map);

#endif
