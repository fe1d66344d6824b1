// SPDX-License-Identifier: BSD-2-Clause
#include "proc/glibc_heap.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * struct malloc_state, of 64-bit glibc. What precedes the fastbins differs by version, so all is
 * counted from the bins:
 *
 *	fastbinsY[10] top last_remainder | bins[254] binmap[2] next next_free attached system_mem
 */
#define WORD	      8u
#define BINS	      127u
#define BINS_BYTES    (BINS * 2 * WORD)
#define FASTBINS      10u
#define FASTBINS_AT   (-12 * (int)WORD)
#define TOP_AT	      (-2 * (int)WORD)
#define NEXT_AT	      (BINS_BYTES + 16)
#define SYSTEM_MEM_AT (NEXT_AT + 3 * WORD)
/* From the struct's start to its bins, newest first: with have_fastchunks (2.27), without. */
static const uint64_t bins_at[] = {112, 104};

/* struct malloc_chunk; the low bits of its size are flags. */
#define CHUNK_LEAST 32u
#define FLAGS	    7ull
#define IS_MAPPED   2ull

/* struct heap_info: arena, previous heap, size, … */
#define HEAP_MAX_BYTES (64ull << 20)

/* More are not walked: a reading takes at most some 100 ms. */
#define ARENAS_MAX 1024
#define HEAPS_MAX  4096
#define CHUNKS_MAX 200000
#define DATA_MAX   (1u << 20)

struct chunk {
	uint64_t previous_size, size, next, back;
};

/* A reading. */
struct walk {
	struct heap_reader reader;
	struct heap *heap;
	size_t chunks_count;
};

static int read_bytes(struct walk *walk, uint64_t address, void *to, size_t size)
{
	return heap_reader_copy(&walk->reader, address, to, size);
}

static uint64_t word_at(struct walk *walk, uint64_t address)
{
	uint64_t word = 0;

	return address % WORD || read_bytes(walk, address, &word, sizeof(word)) ? 0 : word;
}

/* A circular list of free chunks; its header counts as a chunk. */
static int walk_bin(struct walk *walk, uint64_t header)
{
	struct chunk chunk;
	uint64_t at = word_at(walk, header + 2 * WORD), back = header;

	while (at != header) {
		uint64_t size;

		if (walk->chunks_count++ >= CHUNKS_MAX)
			return -E2BIG;
		if (at % 16 || read_bytes(walk, at, &chunk, sizeof(chunk)))
			return -EAGAIN;
		size = chunk.size & ~FLAGS;
		if (chunk.back != back || size < CHUNK_LEAST || size > walk->heap->held_bytes)
			return -EAGAIN; /* it changes meanwhile */
		if (heap_add_free(walk->heap, at, size))
			return -ENOMEM;
		back = at;
		at = chunk.next;
	}
	return 0;
}

/* The chunks of a list. Since 2.32 a pointer is stored as (its own address >> 12) XOR the pointer.
 */
static int64_t count_fast(struct walk *walk, uint64_t at, uint64_t size, bool encoded)
{
	int64_t count = 0;

	for (; at; count++) {
		uint64_t from = at + 2 * WORD;

		if (walk->chunks_count++ >= CHUNKS_MAX)
			return -E2BIG;
		if (at % 16 || (word_at(walk, at + WORD) & ~FLAGS) != size)
			return -EAGAIN;
		at = word_at(walk, from) ^ (encoded ? from >> 12 : 0);
	}
	return count;
}

static int walk_fastbins(struct walk *walk, uint64_t bins)
{
	for (unsigned i = 0; i < FASTBINS; i++) {
		uint64_t size = (i + 2) * 16;
		uint64_t first = word_at(walk, bins + FASTBINS_AT + i * WORD);
		int64_t count = count_fast(walk, first, size, true);

		if (count == -EAGAIN)
			count = count_fast(walk, first, size, false);
		if (count < 0)
			return (int)count;
		walk->heap->free_bytes += (uint64_t)count * size;
		walk->heap->scattered_bytes += (uint64_t)count * size;
	}
	return 0;
}

/* The heaps of an arena that is not the main one, from its last to its first. */
static int add_heaps(struct walk *walk, uint64_t arena, uint64_t top)
{
	struct {
		uint64_t arena, previous, size;
	} heap;

	for (uint64_t at = top & ~(HEAP_MAX_BYTES - 1); at; at = heap.previous) {
		if (walk->heap->ranges.count >= HEAPS_MAX)
			return -E2BIG;
		if (at % HEAP_MAX_BYTES || read_bytes(walk, at, &heap, sizeof(heap)) ||
		    heap.arena != arena || heap.size > HEAP_MAX_BYTES)
			return -EAGAIN;
		if (LIST_ADD_TO(&walk->heap->ranges, (struct heap_range){at, at + heap.size}))
			return -ENOMEM;
	}
	return 0;
}

static int walk_arena(struct walk *walk, uint64_t arena, uint64_t bins, bool is_main)
{
	uint64_t top = word_at(walk, bins + TOP_AT), top_size;
	int err = 0;

	walk->heap->held_bytes += word_at(walk, bins + SYSTEM_MEM_AT);
	walk->heap->arenas_count++;
	/* before its first allocation the main arena's top is a bin */
	if (!word_at(walk, bins + SYSTEM_MEM_AT))
		return 0;
	top_size = word_at(walk, top + WORD) & ~FLAGS;
	if (top_size > walk->heap->held_bytes)
		return -EAGAIN;
	walk->heap->top_bytes += top_size;
	err = heap_add_free(walk->heap, top, top_size) ?: walk_fastbins(walk, bins);
	for (unsigned i = 0; i < BINS && !err; i++)
		err = walk_bin(walk, bins + i * 2 * WORD - 2 * WORD);
	return err ?: is_main ? err : add_heaps(walk, arena, top);
}

static int walk_ring(struct walk *walk, uint64_t first, uint64_t bins)
{
	uint64_t arena = first;
	int err = 0;

	walk->reader.page = 0; /* what was read before may have changed */
	walk->chunks_count = 0;
	do {
		if (walk->heap->arenas_count >= ARENAS_MAX)
			return -E2BIG;
		err = walk_arena(walk, arena, arena + bins, arena == first);
		arena = word_at(walk, arena + bins + NEXT_AT);
	} while (!err && arena && arena != first);
	if (!err && !arena)
		err = -EAGAIN;
	heap_sort(walk->heap);
	return err;
}

/* How many words of a struct's bins point at their own header, as in an empty bin; 0: it is none,
 * because another word is no pair of pointers to chunks. */
static unsigned count_empty_bins(const uint64_t *words, uint64_t address)
{
	unsigned empty = 0;

	for (unsigned i = 0; i < BINS; i++) {
		uint64_t header = address + i * 2 * WORD - 2 * WORD;

		if (words[2 * i] == header && words[2 * i + 1] == header)
			empty++;
		else if (!words[2 * i] || !words[2 * i + 1] || words[2 * i] % 16 ||
			 words[2 * i + 1] % 16)
			return 0;
	}
	return empty;
}

/* Does the ring of arenas come back? */
static bool is_ring(struct walk *walk, uint64_t first, uint64_t bins)
{
	uint64_t arena = first;

	for (unsigned i = 0; i < ARENAS_MAX && arena; i++) {
		arena = word_at(walk, arena + bins + NEXT_AT);
		if (arena == first)
			return true;
	}
	return false;
}

/* Bins of an arena with little memory are empty mostly. */
#define EMPTY_BINS_LEAST 24

/*
 * The end of struct malloc_par up to its sbrk_base, which is where [heap] begins:
 *	int hp_flags (2.35), n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold;
 *	size_t mmapped_mem, max_mmapped_mem; char *sbrk_base
 * The size of an int in the middle is padding behind them since 2.35.
 */
static bool read_mapped_at(const uint64_t *sbrk_base, bool has_flags, struct heap *heap)
{
	const uint32_t *ints = (const uint32_t *)(sbrk_base - (has_flags ? 5 : 4)) + has_flags;
	uint64_t bytes = sbrk_base[-2];

	if (ints[0] > ints[2] || ints[3] > 1 || bytes > sbrk_base[-1] || bytes % 4096 ||
	    !ints[0] != !bytes || ints[0] * 4096ull > bytes)
		return false;
	heap->mapped_count = ints[0];
	heap->mapped_bytes = bytes;
	return true;
}

static void read_mapped(const uint64_t *words, size_t count, const struct maps *maps,
			struct heap *heap)
{
	uint64_t begin = 0;

	for (size_t i = 0; i < maps__count(maps) && !begin; i++)
		if (!strcmp(maps__at(maps, i)->path, "[heap]"))
			begin = maps__at(maps, i)->start;
	for (size_t i = 5; i < count && begin; i++)
		if (words[i] >= begin && words[i] < begin + 16 &&
		    (read_mapped_at(words + i, true, heap) ||
		     read_mapped_at(words + i, false, heap)))
			return;
}

/* Finds the main arena in a mapping of libc's data. 0; -ENOENT. */
static int find_arena(struct walk *walk, const struct mapping *data, const struct maps *maps,
		      uint64_t *arena, uint64_t *bins)
{
	size_t size = min_u64(data->end - data->start, DATA_MAX), count = size / WORD;
	uint64_t *words = malloc(size);
	int err = words ? pages__read(walk->reader.pages, data->start, words, size) : -ENOMEM;

	for (size_t i = 16; !err && i + 2 * (size_t)BINS < count; i++) {
		uint64_t address = data->start + i * WORD;

		if (count_empty_bins(words + i, address) < EMPTY_BINS_LEAST)
			continue;
		for (size_t k = 0; k < sizeof(bins_at) / sizeof(*bins_at); k++) {
			*arena = address - bins_at[k];
			*bins = bins_at[k];
			if (!is_ring(walk, *arena, *bins))
				continue;
			read_mapped(words, count, maps, walk->heap);
			free(words);
			return 0;
		}
	}
	free(words);
	return err ?: -ENOENT;
}

static bool is_libc(const char *path)
{
	const char *base = base_name(path);

	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2.", 7);
}

/* The data of libc or, in a static program, of the executable, with what follows it. */
static int find_main_arena(struct walk *walk, const struct maps *maps, uint64_t *arena,
			   uint64_t *bins)
{
	const char *executable = maps__count(maps) ? maps__at(maps, 0)->path : "";
	bool has_libc = false;
	int err = -ENOENT;

	for (size_t i = 0; i < maps__count(maps); i++)
		has_libc |= is_libc(maps__at(maps, i)->path);
	for (size_t i = 0; i < maps__count(maps) && err == -ENOENT; i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->writable && !mapping->shared &&
		    (has_libc ? is_libc(mapping->path) : !strcmp(mapping->path, executable)))
			err = find_arena(walk, mapping, maps, arena, bins);
	}
	return err;
}

static void forget(struct heap *heap)
{
	heap->arenas_count = 0;
	heap->held_bytes = heap->free_bytes = heap->top_bytes = heap->scattered_bytes = 0;
	heap->ranges.count = heap->free.count = 0;
}

/* A list that changes is read again so often, and all of the heap as well. */
#define READINGS_MAX 5

int glibc_heap_read(const struct pages *pages, const struct maps *maps, struct heap *heap)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	uint64_t arena = 0, bins = 0, before = UINT64_MAX;
	int err;

	*heap = (struct heap){.mapped_bytes = UINT64_MAX, .mapped_count = UINT64_MAX};
	if (!walk)
		return -ENOMEM;
	walk->reader.pages = pages;
	walk->heap = heap;
	err = find_main_arena(walk, maps, &arena, &bins);
	for (int i = 0; !err && i < READINGS_MAX && !heap->exact; i++) {
		forget(heap);
		err = walk_ring(walk, arena, bins);
		if (err == -EAGAIN && i + 1 < READINGS_MAX) {
			err = 0;
			continue;
		}
		if (err)
			break;
		heap->exact =
			max_u64(before, heap->free_bytes) - min_u64(before, heap->free_bytes) <=
			heap->held_bytes / 100;
		before = heap->free_bytes;
	}
	free(walk);
	if (err)
		heap_clear(heap);
	return err;
}

uint64_t glibc_mapped_block(const struct pages *pages, uint64_t address, uint64_t end)
{
	uint64_t words[2], size; /* previous size: 0, or what aligns the block */

	if (address + sizeof(words) > end || pages__read(pages, address, words, sizeof(words)))
		return 0;
	size = words[1] & ~FLAGS;
	return (words[1] & FLAGS) == IS_MAPPED && words[0] < 4096 && !(words[0] % 16) && size &&
			       (size + words[0]) % 4096 == 0 && size + words[0] <= end - address
		       ? size + words[0]
		       : 0;
}
