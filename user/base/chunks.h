/* SPDX-License-Identifier: BSD-2-Clause */
/* Items that stay where they are while more are added: an array of chunks. */
#ifndef PERFX_BASE_CHUNKS_H
#define PERFX_BASE_CHUNKS_H

#include <stddef.h>

#define CHUNKS_SHIFT 9
#define CHUNKS_ITEMS (1u << CHUNKS_SHIFT) /* of a chunk */

/* All-zero is empty. */
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

#endif
