// SPDX-License-Identifier: BSD-2-Clause
#include "base/chunks.h"

#include "base/grow.h"

#include <stdlib.h>

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
