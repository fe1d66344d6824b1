// SPDX-License-Identifier: BSD-2-Clause
#include "proc/mimalloc_heap.h"

#include "base/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES  (32ull << 20)
#define SEGMENT_SLICES 512u
#define SLICE_BYTES    65536u
#define SEGMENTS_MAX   8192
#define HUGE_BLOCK     (2ull << 30) /* stands for all that are larger */

/* mi_slice_t of 2.0 to 2.1.2 up to the size of blocks. With encoded lists it has two more words. */
struct slice {
	uint32_t count, offset;
	uint8_t flags;
	uint16_t capacity, reserved;
	uint8_t full, zero;
	uint64_t free;
	uint32_t used, block_bytes;
	uint64_t local_free, thread_free, heap, next, previous, padding;
};
static const size_t slice_sizes[] = {80, 96};

/*
 * The end of mi_segment_t's header. What precedes it differs by version.
 *
 *	commit_mask[8] abandoned_next next abandoned abandoned_visits used cookie
 *	segment_slices segment_info_slices kind slice_entries thread_id | slices[]
 */
struct segment_end {
	uint64_t commit_mask[8], abandoned_next, next, abandoned, visits, used, cookie;
	uint64_t slices, info_slices, kind, entries, thread_id;
};

/* A header with its slices lies in its first slice. */
struct walk {
	struct heap *heap;
	uint64_t secret; /* a cookie XOR the address of its segment */
	size_t segments_count;
	uint8_t bytes[SLICE_BYTES];
};

static const struct segment_end *find_end(const struct walk *walk, uint64_t room)
{
	for (size_t at = 8; at + sizeof(struct segment_end) <= 768; at += 8) {
		const struct segment_end *end = (const void *)(walk->bytes + at);

		if (end->slices >= SEGMENT_SLICES && end->slices * SLICE_BYTES <= room &&
		    end->info_slices == 1 && end->kind <= 1 &&
		    end->entries == min_u64(end->slices, SEGMENT_SLICES) &&
		    end->used <= SEGMENT_SLICES && end->abandoned <= end->used)
			return end;
	}
	return NULL;
}

static bool fits(const struct slice *slice)
{
	uint64_t bytes = (uint64_t)slice->count * SLICE_BYTES;

	if (!slice->block_bytes)
		return true; /* free */
	return slice->used <= slice->capacity && slice->capacity <= slice->reserved &&
	       (slice->block_bytes == HUGE_BLOCK ||
		(uint64_t)slice->reserved * slice->block_bytes <= bytes);
}

static const struct slice *slice_at(const struct segment_end *end, size_t index, size_t size)
{
	return (const void *)((const uint8_t *)(end + 1) + index * size);
}

/* Do the slices fill the segment? */
static bool is_filled(const struct segment_end *end, size_t size)
{
	uint64_t i = end->info_slices, used = 0;

	while (i < end->entries) {
		const struct slice *slice = slice_at(end, i, size);

		if (!slice->count || slice->offset || !fits(slice))
			return false;
		used += slice->block_bytes > 0;
		i += slice->count;
	}
	return i == end->slices && used == end->used;
}

static bool is_committed(const struct segment_end *end, size_t slice)
{
	return end->kind || end->commit_mask[slice / 64] >> slice % 64 & 1;
}

static int add_slice(struct heap *heap, const struct segment_end *end, const struct slice *slice,
		     size_t index, uint64_t address)
{
	uint64_t bytes = (uint64_t)slice->count * SLICE_BYTES;

	if (slice->block_bytes) {
		uint64_t unused = (uint64_t)(slice->capacity - slice->used) * slice->block_bytes;

		/* blocks that were never used are behind the capacity */
		heap->held_bytes += slice->block_bytes == HUGE_BLOCK
					    ? bytes
					    : (uint64_t)slice->capacity * slice->block_bytes;
		heap->free_bytes += unused;
		heap->scattered_bytes += unused;
		return 0;
	}
	for (size_t i = index; i < index + slice->count; i++)
		if (is_committed(end, i)) {
			heap->held_bytes += SLICE_BYTES;
			heap->free_bytes += SLICE_BYTES;
		}
	return heap_ranges_add(&heap->free, address, address + bytes);
}

static int add_segment(struct walk *walk, uint64_t address, const struct segment_end *end,
		       size_t size)
{
	struct heap *heap = walk->heap;
	int err = heap_ranges_add(&heap->ranges, address, address + end->slices * SLICE_BYTES);

	heap->held_bytes += SLICE_BYTES; /* its header */
	for (uint64_t i = end->info_slices; i < end->entries && !err;) {
		const struct slice *slice = slice_at(end, i, size);

		err = add_slice(heap, end, slice, i, address + i * SLICE_BYTES);
		i += slice->count;
	}
	return err;
}

/* A segment that begins here: its length; 0: none does. -errno. */
static int64_t read_segment(struct walk *walk, struct pages *pages, uint64_t address, uint64_t room)
{
	const struct segment_end *end;
	bool resident;

	if (pages__are_resident(pages, address, 1, &resident) || !resident ||
	    pages__read(pages, address, walk->bytes, 4096) || !(end = find_end(walk, room)) ||
	    (walk->segments_count && (end->cookie ^ address) != walk->secret) ||
	    pages__read(pages, address, walk->bytes, sizeof(walk->bytes)))
		return 0;
	for (size_t i = 0; i < sizeof(slice_sizes) / sizeof(*slice_sizes); i++)
		if (is_filled(end, slice_sizes[i])) {
			walk->secret = end->cookie ^ address;
			walk->segments_count++;
			return add_segment(walk, address, end, slice_sizes[i])
				       ?: (int64_t)(end->slices * SLICE_BYTES);
		}
	walk->heap->exact = false;
	return 0;
}

int mimalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int64_t length = 0;

	*heap = (struct heap){
		.exact = true, .mapped_bytes = UINT64_MAX, .mapped_count = UINT64_MAX};
	if (!walk)
		return -ENOMEM;
	walk->heap = heap;
	for (size_t i = 0; i < maps__count(maps) && length >= 0; i++) {
		const struct mapping *mapping = maps__at(maps, i);
		uint64_t at = (mapping->start + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);

		if (!mapping->writable || mapping->shared || mapping->inode)
			continue;
		for (; at + SEGMENT_BYTES <= mapping->end && length >= 0 &&
		       walk->segments_count < SEGMENTS_MAX;
		     at += max_u64((uint64_t)length, SEGMENT_BYTES) & ~(SEGMENT_BYTES - 1))
			length = read_segment(walk, pages, at, mapping->end - at);
	}
	heap_sort(heap);
	if (length >= 0 && !walk->segments_count)
		length = -ENOENT;
	free(walk);
	if (length < 0)
		heap_clear(heap);
	return length < 0 ? (int)length : 0;
}
