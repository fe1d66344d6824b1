/* SPDX-License-Identifier: BSD-2-Clause */
/* Containers that grow: arrays, string pools, chunks, hash maps, sets of prefixes. All-zero is an
 * empty one of each. */
#ifndef PERFX_BASE_GROW_H
#define PERFX_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Makes room for `needed` items in an array that malloc gave (or NULL). `array` is the address of
 * the pointer; new items are zero. 0 or -ENOMEM, and then the array is as it was. */
int grow_array(void *array, size_t *capacity, size_t needed, size_t item_size);
/* The same for one item more than x->list_count, by x->list_capacity: GROW_BY_ONE(x->list). */
#define GROW_BY_ONE(list) grow_array(&(list), &list##_capacity, list##_count + 1, sizeof(*(list)))
/* Adds an item to x->list likewise, or to the list of a struct with the members list, capacity and
 * count. 0 or -ENOMEM. */
#define LIST_ADD(list, ...) (GROW_BY_ONE(list) ?: ((list)[list##_count++] = (__VA_ARGS__), 0))
#define LIST_ADD_TO(of, ...)                                                            \
	(grow_array(&(of)->list, &(of)->capacity, (of)->count + 1, sizeof(*(of)->list)) \
		 ?: ((of)->list[(of)->count++] = (__VA_ARGS__), 0))

/* Walks over x->list by a pointer to each item: FOR_EACH(item, x->list) …; or over the list of
 * such a struct. The list must stay where it is. */
#define FOR_EACH(item, list) \
	for (typeof(*(list)) *item = (list); item && item < (list) + list##_count; item++)
#define FOR_EACH_OF(item, of) \
	for (typeof(*(of).list) *item = (of).list; item && item < (of).list + (of).count; item++)

/* Drops the first items of such a struct's list. */
#define LIST_DROP_FROM(of, dropped)                 \
	memmove((of)->list, (of)->list + (dropped), \
		((of)->count -= (dropped)) * sizeof(*(of)->list))

/* The item at an index of x->list, which grows as far; new items are zero. NULL with errno ENOMEM.
 */
void *grow_to(void *array, size_t *capacity, size_t *count, size_t index, size_t item_size);
#define GROW_TO(list, index) \
	grow_to(&(list), &list##_capacity, &list##_count, (index), sizeof(*(list)))

/* Strings that live and die together: one allocation for many. */
struct pool {
	struct pool_block *blocks;
};

/* A copy that lives until pool_clear; NULL when memory is out. */
const char *pool_add(struct pool *pool, const char *text);
void pool_clear(struct pool *pool);

#define CHUNKS_SHIFT 9
#define CHUNKS_ITEMS (1u << CHUNKS_SHIFT) /* of a chunk */

struct chunks {
	char **chunks;
	size_t capacity; /* of chunks[] */
	size_t count;	 /* items */
};

/* The item at an index below count; item_size as it was added with. */
static inline void *chunks_at(const struct chunks *chunks, size_t index, size_t item_size)
{
	return chunks->chunks[index >> CHUNKS_SHIFT] + (index & (CHUNKS_ITEMS - 1)) * item_size;
}

/* A new item, all zero, at index count - 1; its size is the same for all. NULL: memory is out. */
void *chunks_add(struct chunks *chunks, size_t item_size);
void chunks_clear(struct chunks *chunks);

#define MAP64_NONE UINT32_MAX

struct map64 {
	struct map64_slot *slots;
	size_t capacity, count;
};

/* The index stored under key, or MAP64_NONE. */
uint32_t map64_get(const struct map64 *map, uint64_t key);
/* Stores an index under a key that is not in the map yet. 0 or -ENOMEM. */
int map64_put(struct map64 *map, uint64_t key, uint32_t index);
/* A key that is not in the map is fine. */
void map64_remove(struct map64 *map, uint64_t key);
void map64_clear(struct map64 *map);

/* The item of x->list whose index the map has under a key; a new key has a new item at the end, all
 * zero. NULL with errno ENOMEM. */
void *map64_item(struct map64 *map, uint64_t key, void *array, size_t *capacity, size_t *count,
		 size_t item_size);
#define MAP64_ITEM(map, key, list) \
	map64_item(&(map), (key), &(list), &list##_capacity, &list##_count, sizeof(*(list)))
/* The same in a struct with the members ids, list, capacity and count. */
#define MAP64_ITEM_OF(of, key)                                                    \
	map64_item(&(of)->ids, (key), &(of)->list, &(of)->capacity, &(of)->count, \
		   sizeof(*(of)->list))

/* The item of x->list whose index the map has under a key; NULL: none. */
#define MAP64_FIND(map, key, list)                                 \
	({                                                         \
		uint32_t map64_at = map64_get(&(map), (key));      \
		map64_at == MAP64_NONE ? NULL : &(list)[map64_at]; \
	})
#define MAP64_FIND_OF(of, key) MAP64_FIND((of)->ids, (key), (of)->list)
/* A key of two numbers of 32 bits. */
#define MAP64_PAIR(high, low) ((uint64_t)(high) << 32 | (low))

struct prefixes {
	const char **list;
	size_t count, capacity;
};

/* The text is borrowed. 0 or -ENOMEM. */
int prefixes_add(struct prefixes *prefixes, const char *text);
/* After the last was added, before the first question. */
void prefixes_sort(struct prefixes *prefixes);
bool prefixes_match(const struct prefixes *prefixes, const char *name);
void prefixes_clear(struct prefixes *prefixes);

#endif
