// SPDX-License-Identifier: BSD-2-Clause
#include "proc/page_map_heap.h"

#include "base/order.h"
#include "base/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_BITS 48
#define LEAF_BITS    18
#define LEAF_WORDS   (1u << LEAF_BITS)
#define WORDS	     512u /* of a page of 4 KiB */
#define LEAF_PAGES   (LEAF_WORDS / WORDS)
#define PAGE	     4096ull

/* More is not read: a reading takes at most some 100 ms. */
#define DATA_MAX       (32ull << 20) /* bytes of a library's data */
#define CANDIDATES_MAX 256
#define EXTENTS_MAX    (1u << 20)
#define WRONG_MAX      16 /* and one of a hundred: entries that change meanwhile */

enum extent_state { EXTENT_USED, EXTENT_FREE, EXTENT_GIVEN_BACK };

/* Pages that belong together: many small blocks, a large one, or none. */
struct extent {
	uint64_t start, bytes, free_bytes; /* free_bytes: of one in use */
	enum extent_state state;
	unsigned arena;
};

struct walk;

/* What differs between the two. */
struct layout {
	unsigned page_shift;
	const char *library;
	/* Reads the extent that an entry of a leaf leads to. False: it is none, or of another
	 * layout. */
	bool (*read)(struct walk *walk, uint64_t entry, struct extent *extent);
	uint64_t own_bytes; /* its own data lie in pieces of this size */
	/* of jemalloc: shifts of fields in e_bits */
	unsigned state_shift, state_bits, index_shift;
};

/* The data of a library: what is resident of it; the rest is 0. */
struct data {
	uint64_t start, *words;
	size_t count;
};

struct walk {
	struct pages *pages;
	struct heap_reader reader;
	const struct maps *maps;
	const struct layout *layout;
	struct heap *heap;
	struct data data;
	const int32_t *class_bytes; /* of tcmalloc */
	uint64_t root, next;	    /* addresses: of the root; of what follows the last extent */
	struct heap_ranges own;
	size_t extents_count, wrong_count;
	uint8_t arenas[4096];
};

/* jemalloc's extents: struct edata_s, since 5.3; struct extent_s, 5.2. */
#define JE_POINTER   ((1ull << ADDRESS_BITS) - 64)
#define JE_SLAB	     (1ull << 12) /* of e_bits; in an entry: 1 */
#define JE_FREE_BITS 10
#define JE_CLASSES   235

/* sz_index2size(), with a quantum of 16 bytes and four classes for each doubling. */
static uint64_t je_class_bytes(unsigned index)
{
	unsigned group, step;

	if (!index)
		return 8;
	group = (index - 1) / 4;
	step = (index - 1) % 4 + 1;
	return group ? (64ull << (group - 1)) + ((uint64_t)step << (group + 3)) : step * 16ull;
}

static uint64_t field(uint64_t bits, unsigned shift, unsigned width)
{
	return bits >> shift & ((1ull << width) - 1);
}

static bool je_read(struct walk *walk, uint64_t entry, struct extent *extent)
{
	const struct layout *layout = walk->layout;
	struct {
		uint64_t bits, address, size;
	} known;
	uint64_t index, state, free_count, block;

	if (heap_reader_copy(&walk->reader, entry & JE_POINTER, &known, sizeof(known)))
		return false;
	state = field(known.bits, layout->state_shift, layout->state_bits);
	index = field(known.bits, layout->index_shift, 8);
	free_count = field(known.bits, layout->index_shift + 8, JE_FREE_BITS);
	*extent = (struct extent){.start = known.address & ~(PAGE - 1),
				  .bytes = known.size & ~(PAGE - 1),
				  .state = state == 0	? EXTENT_USED
					   : state == 3 ? EXTENT_GIVEN_BACK
							: EXTENT_FREE,
				  .arena = known.bits & 0xfff};
	if (!extent->bytes || state > 5)
		return false;
	if (state)
		return true;
	block = index < JE_CLASSES ? je_class_bytes((unsigned)index) : 0;
	if (!block || index != entry >> ADDRESS_BITS || !(known.bits & JE_SLAB) != !(entry & 1))
		return false;
	if (!(entry & 1))
		return block <= extent->bytes;
	extent->free_bytes = free_count * block;
	return extent->bytes % block == 0 && extent->free_bytes <= extent->bytes;
}

/* tcmalloc's struct Span. */
static bool tc_read(struct walk *walk, uint64_t entry, struct extent *extent)
{
	struct {
		uint64_t start, length, next, previous, objects;
		uint16_t used_count;
		uint8_t class, flags; /* 2 bits: where it is */
	} span;
	unsigned place;

	if (entry % 8 || heap_reader_copy(&walk->reader, entry, &span, sizeof(span)))
		return false;
	place = span.flags & 3;
	*extent = (struct extent){.start = span.start << walk->layout->page_shift,
				  .bytes = span.length << walk->layout->page_shift,
				  .state = place};
	if (span.start >> 35 || !span.length || span.length >> 35 || place > EXTENT_GIVEN_BACK)
		return false;
	if (place || !span.class)
		return true;
	if (span.class >= 128 || !walk->class_bytes || walk->class_bytes[span.class] <= 0 ||
	    (uint64_t)span.used_count * walk->class_bytes[span.class] > extent->bytes)
		return false;
	extent->free_bytes =
		extent->bytes - (uint64_t)span.used_count * walk->class_bytes[span.class];
	return true;
}

/* Sizes of blocks, in order; the last is 256 KiB. NULL: they are not there. */
static const int32_t *find_class_bytes(const struct data *data)
{
	const int32_t *sizes = (const int32_t *)data->words;
	size_t count = data->count * 2;

	for (size_t i = 0; i + 128 <= count; i++) {
		size_t n = 2;

		if (sizes[i] || sizes[i + 1] != 8 || sizes[i + 2] != 16)
			continue;
		while (n < 127 && sizes[i + n + 1] > sizes[i + n])
			n++;
		if (n > 40 && sizes[i + n] == 256 << 10)
			return &sizes[i];
	}
	return NULL;
}

/* The allocator's own data, for instance the description of an extent. */
static int note_own(struct walk *walk, uint64_t address, uint64_t bytes)
{
	uint64_t mask = walk->layout->own_bytes - 1, start = address & ~mask;
	uint64_t end = (address + bytes + mask) & ~mask;
	const struct heap_range *last = walk->own.list + walk->own.count - 1;

	if (walk->own.count && last->start <= start && end <= last->end)
		return 0;
	return heap_ranges_add(&walk->own, start, end);
}

static int add_extent(struct walk *walk, const struct extent *extent)
{
	struct heap *heap = walk->heap;
	uint64_t end = extent->start + extent->bytes;

	if (++walk->extents_count > EXTENTS_MAX)
		return -E2BIG;
	if (!walk->arenas[extent->arena]) {
		walk->arenas[extent->arena] = 1;
		heap->arenas_count++;
	}
	if (extent->state == EXTENT_GIVEN_BACK)
		return heap_ranges_add(&heap->free, extent->start, end);
	heap->held_bytes += extent->bytes;
	if (extent->state == EXTENT_USED) {
		heap->free_bytes += extent->free_bytes;
		heap->scattered_bytes += extent->free_bytes;
		return heap_ranges_add(&heap->ranges, extent->start, end);
	}
	heap->free_bytes += extent->bytes;
	return heap_ranges_add(&heap->free, extent->start, end);
}

/* Calls back for each word of a leaf that is not 0, with the number of its page, until that returns
 * something else than 0. */
static int each_entry(struct walk *walk, uint64_t leaf, uint64_t first_page,
		      int (*handle)(struct walk *walk, uint64_t page, uint64_t entry))
{
	uint64_t start = leaf & ~(PAGE - 1), words[WORDS];
	bool resident[LEAF_PAGES + 1];
	int err = pages__are_resident(walk->pages, start, LEAF_PAGES + 1, resident);

	for (size_t i = 0; !err && i < LEAF_PAGES + 1; i++) {
		uint64_t at = start + i * PAGE;

		if (!resident[i] || pages__read(walk->pages, at, words, sizeof(words)))
			continue;
		for (size_t k = 0; k < WORDS && !err; k++, at += 8)
			if (words[k] && at >= leaf && at < leaf + LEAF_WORDS * 8ull)
				err = handle(walk, first_page + (at - leaf) / 8, words[k]);
	}
	return err;
}

/* An entry leads to an extent that begins at its page: 1. Another one of it says nothing. */
static int try_entry(struct walk *walk, uint64_t index, uint64_t entry)
{
	unsigned shift = walk->layout->page_shift;
	const struct mapping *mapping;
	struct extent extent;

	if (!walk->layout->read(walk, entry, &extent) ||
	    (extent.start >> shift) % LEAF_WORDS != index || extent.state != EXTENT_USED ||
	    !(mapping = maps__find(walk->maps, extent.start)) || !mapping->writable ||
	    mapping->inode)
		return ++walk->wrong_count > 4 ? -ENOENT : 0;
	walk->root = extent.start >> shift >> LEAF_BITS;
	return 1;
}

static int add_entry(struct walk *walk, uint64_t page, uint64_t entry)
{
	uint64_t address = page << walk->layout->page_shift;
	struct extent extent;

	if (address < walk->next)
		return 0; /* another page of the last extent */
	if (!walk->layout->read(walk, entry, &extent) || extent.start != address) {
		return ++walk->wrong_count > WRONG_MAX + walk->extents_count / 100 ? -ENOENT : 0;
	}
	walk->next = extent.start + extent.bytes;
	return note_own(walk, entry & JE_POINTER, 8) ?: add_extent(walk, &extent);
}

/* Could a word of the data be a root's? Of a root, most words are 0, as most of the address space
 * is not used. */
static bool is_candidate(const struct walk *walk, size_t i)
{
	const struct data *data = &walk->data;
	const struct mapping *to;
	size_t first = i > WORDS / 2 ? i - WORDS / 2 : 0, used = 0;

	if (!data->words[i] || data->words[i] % 8 ||
	    !(to = maps__find(walk->maps, data->words[i])) || !to->writable || to->inode ||
	    to->end - data->words[i] < LEAF_WORDS * 8ull)
		return false;
	for (size_t k = first; k < first + WORDS && k < data->count; k++)
		used += data->words[k] != 0;
	return used < WORDS / 2;
}

static int find_root(struct walk *walk)
{
	const struct data *data = &walk->data;
	size_t tried = 0;

	for (size_t i = 0; i < data->count && tried < CANDIDATES_MAX; i++) {
		if (!is_candidate(walk, i))
			continue;
		tried++;
		walk->wrong_count = 0;
		if (each_entry(walk, data->words[i], 0, try_entry) != 1)
			continue;
		walk->root = data->start + i * 8 - 8 * walk->root;
		if (walk->root >= data->start)
			return 0;
	}
	return -ENOENT;
}

/* Reads all; -ENOENT, if too many entries contradict the layout. */
static int walk_root(struct walk *walk)
{
	const struct data *data = &walk->data;
	size_t first = (walk->root - data->start) / 8;
	size_t words = 1ull << (ADDRESS_BITS - walk->layout->page_shift - LEAF_BITS);
	int err = 0;

	walk->wrong_count = 0;
	for (size_t i = 0; i < words && first + i < data->count && !err; i++)
		if (data->words[first + i])
			err = note_own(walk, data->words[first + i], LEAF_WORDS * 8ull)
				      ?: each_entry(walk, data->words[first + i],
						    (uint64_t)i << LEAF_BITS, add_entry);
	if (!err && !walk->extents_count)
		err = -ENOENT;
	for (size_t i = 0; i < walk->own.count && !err; i++)
		err = heap_ranges_add(&walk->heap->ranges, walk->own.list[i].start,
				      walk->own.list[i].end);
	walk->heap->exact = !walk->wrong_count;
	heap_sort(walk->heap);
	return err;
}

/* What is resident of a library's data, from mapping i on, and of the anonymous mapping behind. */
static int read_data(struct walk *walk, size_t i)
{
	const struct mapping *mapping = maps__at(walk->maps, i);
	uint64_t end = mapping->end;
	bool resident[PAGES_ASKED_MAX];

	for (i++; i < maps__count(walk->maps); i++) {
		const struct mapping *next = maps__at(walk->maps, i);

		if (next->start != end || next->path[0] || !next->writable)
			break;
		end = next->end;
	}
	end = min_u64(end, mapping->start + DATA_MAX);
	walk->data = (struct data){.start = mapping->start,
				   .words = calloc(1, end - mapping->start),
				   .count = (end - mapping->start) / 8};
	if (!walk->data.words)
		return -ENOMEM;
	for (uint64_t at = mapping->start; at < end; at += PAGES_ASKED_MAX * PAGE) {
		size_t count = min_u64(PAGES_ASKED_MAX, (end - at) / PAGE);

		if (pages__are_resident(walk->pages, at, count, resident))
			continue;
		for (size_t k = 0; k < count; k++)
			if (resident[k])
				pages__read(walk->pages, at + k * PAGE,
					    walk->data.words + (at + k * PAGE - mapping->start) / 8,
					    PAGE);
	}
	return 0;
}

static int read_heap(struct walk *walk, const struct layout *layout, struct heap *heap)
{
	int err;

	*heap = (struct heap){.mapped_bytes = UINT64_MAX, .mapped_count = UINT64_MAX};
	walk->layout = layout;
	walk->heap = heap;
	walk->reader = (struct heap_reader){.pages = walk->pages};
	walk->next = walk->extents_count = walk->own.count = 0;
	memset(walk->arenas, 0, sizeof(walk->arenas));
	err = find_root(walk) ?: walk_root(walk);
	if (err)
		heap_clear(heap);
	return err;
}

static int find_heap(struct pages *pages, const struct maps *maps, const struct layout *layouts,
		     size_t layouts_count, struct heap *heap)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int err = walk ? -ENOENT : -ENOMEM;

	for (size_t i = 0; err == -ENOENT && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (!mapping->writable || mapping->shared ||
		    fnmatch(layouts->library, base_name(mapping->path), 0))
			continue;
		walk->pages = pages;
		walk->maps = maps;
		err = read_data(walk, i) ?: -ENOENT;
		walk->class_bytes = find_class_bytes(&walk->data);
		for (size_t k = 0; k < layouts_count && err == -ENOENT; k++)
			err = read_heap(walk, &layouts[k], heap);
		free(walk->data.words);
	}
	if (walk)
		free(walk->own.list);
	free(walk);
	return err;
}

int jemalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap)
{
	static const struct layout layouts[] = {
		{.library = "libjemalloc*",
		 .page_shift = 12,
		 .own_bytes = 2 << 20,
		 .read = je_read,
		 .state_shift = 17,
		 .state_bits = 3,
		 .index_shift = 20},
		{.library = "libjemalloc*",
		 .page_shift = 12,
		 .own_bytes = 2 << 20,
		 .read = je_read,
		 .state_shift = 16,
		 .state_bits = 2,
		 .index_shift = 18},
	};

	return find_heap(pages, maps, layouts, sizeof(layouts) / sizeof(*layouts), heap);
}

int tcmalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap)
{
	static const struct layout layout = {
		.library = "libtcmalloc*", .page_shift = 13, .own_bytes = PAGE, .read = tc_read};

	return find_heap(pages, maps, &layout, 1, heap);
}
