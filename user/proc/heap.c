// SPDX-License-Identifier: BSD-2-Clause
#include "proc/heap.h"

#include "base/grow.h"
#include "base/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int heap_ranges_add(struct heap_ranges *ranges, uint64_t start, uint64_t end)
{
	if (!ranges->count || ranges->list[ranges->count - 1].end != start)
		return LIST_ADD_TO(ranges, (struct heap_range){start, end});
	ranges->list[ranges->count - 1].end = end;
	return 0;
}

void heap_clear(struct heap *heap)
{
	free(heap->ranges.list);
	free(heap->free.list);
	*heap = (struct heap){0};
}

/* Only whole pages can be given back. */
int heap_add_free(struct heap *heap, uint64_t start, uint64_t bytes)
{
	uint64_t first = (start + 4095) & ~4095ull, end = (start + bytes) & ~4095ull;

	heap->free_bytes += bytes;
	if (bytes < HEAP_CHUNK_BYTES) {
		heap->scattered_bytes += bytes;
		return 0;
	}
	heap->scattered_bytes += bytes - (end - first);
	return heap_ranges_add(&heap->free, first, end);
}

ORDER(by_address, struct heap_range, ASCENDING(a->start, b->start))

static void sort(struct heap_ranges *ranges)
{
	struct heap_range *list = ranges->list;
	size_t count = 0;

	SORT_ITEMS(list, ranges->count, by_address);
	for (size_t i = 0; i < ranges->count; i++)
		if (count && list[i].start <= list[count - 1].end)
			list[count - 1].end = max_u64(list[count - 1].end, list[i].end);
		else
			list[count++] = list[i];
	ranges->count = count;
}

void heap_sort(struct heap *heap)
{
	sort(&heap->ranges);
	sort(&heap->free);
}

int heap_reader_copy(struct heap_reader *reader, uint64_t address, void *to, size_t size)
{
	uint64_t page = address & ~4095ull;

	if (address + size > page + sizeof(reader->bytes))
		return pages__read(reader->pages, address, to, size);
	if (page != reader->page) {
		reader->page = 0;
		if (pages__read(reader->pages, page, reader->bytes, sizeof(reader->bytes)))
			return -EFAULT;
		reader->page = page;
	}
	memcpy(to, reader->bytes + (address - page), size);
	return 0;
}
