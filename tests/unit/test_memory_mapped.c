// SPDX-License-Identifier: BSD-2-Clause
/* Mappings: parts of them go, others come over them. */
#include "memory_fixture.h"

#include <stdlib.h>

#define PAGE 0x1000ULL

Test(memory_mapped, munmap_of_parts)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 16 * PAGE, MAPPED);
	freed(&t, 0x14000, 4 * PAGE, UNMAP); /* a hole: two parts live on */
	expect_outcome(&t, .allocs = 1, .bytes = 16 * PAGE, .frees = 1, .count = 2,
		       .live = 12 * PAGE, .peak = 16 * PAGE);

	t = story_begin();
	allocated(&t, 0x10000, 16 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP); /* the front */
	freed(&t, 0x1f000, 4 * PAGE, UNMAP); /* the end and beyond */
	freed(&t, 0x30000, PAGE, UNMAP);     /* nothing known: not counted */
	expect_outcome(&t, .allocs = 1, .bytes = 16 * PAGE, .frees = 2, .count = 1,
		       .live = 11 * PAGE, .peak = 16 * PAGE);
}

Test(memory_mapped, munmap_over_several)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 2 * PAGE, MAPPED);
	allocated(&t, 0x12000, 2 * PAGE, MAPPED);
	allocated(&t, 0x20000, 2 * PAGE, MAPPED);
	/* half of the first, the second, half of the third: one free */
	freed(&t, 0x11000, 16 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 3, .bytes = 6 * PAGE, .frees = 1, .count = 2, .live = 2 * PAGE,
		       .peak = 6 * PAGE);
}

Test(memory_mapped, neighbours_are_not_touched)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, PAGE, MAPPED);
	allocated(&t, 0x11000, PAGE, MAPPED);
	allocated(&t, 0x12000, PAGE, MAPPED);
	freed(&t, 0x11000, PAGE, UNMAP);
	freed(&t, 0x11000, PAGE, UNMAP);
	expect_outcome(&t, .allocs = 3, .bytes = 3 * PAGE, .frees = 1, .count = 2, .live = 2 * PAGE,
		       .peak = 3 * PAGE);
}

Test(memory_mapped, a_fixed_mapping_frees_what_lay_there)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	allocated(&t, 0x12000, 4 * PAGE, MAPPED);
	expect_outcome(&t, .allocs = 2, .bytes = 8 * PAGE, .frees = 1, .count = 2, .live = 6 * PAGE,
		       .peak = 6 * PAGE);
}

Test(memory_mapped, heap_blocks_and_mappings_are_apart)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	allocated(&t, 0x10000, 16, 0);
	freed(&t, 0x10000, 0, 0);
	freed(&t, 0x11000, 0, 0); /* no block, but inside of a mapping */
	expect_outcome(&t, .allocs = 2, .bytes = 4 * PAGE + 16, .frees = 1, .unknown = 1,
		       .temporary = 1, .count = 1, .live = 4 * PAGE, .peak = 4 * PAGE + 16);
}

Test(memory_mapped, mremap)
{
	struct story t = story_begin();

	/* it moves and grows */
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x50000, 8 * PAGE, RESIZED | MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 2, .bytes = 12 * PAGE, .frees = 1, .temporary = 1, .count = 1,
		       .live = 8 * PAGE, .peak = 8 * PAGE);
	/* it fails */
	t = story_begin();
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, REALLOC_BEGIN | UNMAP);
	freed(&t, 0x10000, 0, RESTORED);
	freed(&t, 0x13000, PAGE, UNMAP);
	expect_outcome(&t, .allocs = 1, .bytes = 4 * PAGE, .frees = 1, .count = 1, .live = 3 * PAGE,
		       .peak = 4 * PAGE);
	/* of a part, and of what is not known */
	t = story_begin();
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x12000, PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x50000, PAGE, RESIZED | MAPPED);
	freed(&t, 0x90000, PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x60000, PAGE, RESIZED | MAPPED);
	expect_outcome(&t, .allocs = 3, .bytes = 6 * PAGE, .frees = 1, .unknown = 1, .count = 4,
		       .live = 5 * PAGE, .peak = 5 * PAGE);
}

Test(memory_mapped, temporary_is_all_of_it)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP); /* temporary */
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, PAGE, UNMAP); /* a part */
	freed(&t, 0x11000, 3 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 2, .bytes = 8 * PAGE, .frees = 3, .temporary = 1,
		       .peak = 4 * PAGE);
}

/* Against a page table: random mmap, munmap and mremap in a small space. */
Test(memory_mapped, agrees_with_pages)
{
	enum { PAGES = 64 };
	struct story t = story_begin();
	uint64_t live = 0, peak = 0;
	bool pages[PAGES] = {false};
	struct aggregate *aggregate;

	srand(11);
	for (int i = 0; i < 20000; i++) {
		unsigned from = (unsigned)rand() % PAGES;
		unsigned count = 1 + (unsigned)rand() % 12;
		bool map = rand() % 2;

		if (from + count > PAGES)
			count = PAGES - from;
		for (unsigned p = from; p < from + count; p++) {
			live += map && !pages[p] ? PAGE : 0;
			live -= !map && pages[p] ? PAGE : 0;
			pages[p] = map;
		}
		peak = live > peak ? live : peak;
		t.place.stack = 1 + (unsigned)rand() % 5;
		if (map)
			allocated(&t, 0x100000 + from * PAGE, count * PAGE, MAPPED);
		else
			freed(&t, 0x100000 + from * PAGE, count * PAGE, UNMAP);
	}
	aggregate = story_aggregate(&t);
	cr_expect_eq(host_memory(aggregate)->current_bytes, live);
	cr_expect_eq(host_memory(aggregate)->peak_bytes, peak);
	aggregate__free(aggregate);
}
