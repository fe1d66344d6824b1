/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings: pages from the kernel, which may be unmapped in parts. A call that unmaps known pages
 * is a free; one that unmaps unknown pages is not, because allocators, thread stacks and files use
 * the same calls.
 *
 *	memory_map partial	munmap of head, tail, middle, across two, with a hole
 *	memory_map fixed	a mapping over another
 *	memory_map remap	mremap that grows, shrinks, moves, fails
 *	memory_map failing	calls that the kernel refuses
 *	memory_map before	mappings from before "ready" go
 */
#include <sys/mman.h>

#include "memory.h"

#define PAGE 4096

static char *old_mapping;

static char *map_at(char *where, size_t pages)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
	void *found = mmap(where, pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);

	known_require(found != MAP_FAILED && (!where || found == where), "mmap");
	return memory_took(found, pages * PAGE);
}

/* That many pages are unmapped, by a call that unmaps existing pages. */
static void lose(size_t pages)
{
	memory.current_bytes -= pages * PAGE;
	memory.frees += pages > 0;
	memory.last = 0;
}

static void unmap(char *from, size_t pages, size_t live_pages)
{
	lose(live_pages);
	known_require(!munmap(from, pages * PAGE), "munmap");
}

static void partial(void)
{
	char *a = map_at(NULL, 8), *b;

	unmap(a, 1, 1);
	unmap(a + 7 * PAGE, 1, 1);
	unmap(a + 3 * PAGE, 2, 2);
	unmap(a + 3 * PAGE, 2, 0); /* nothing is there: no error */
	unmap(a, 8, 4);

	/* two that touch, and one call that unmaps across both */
	a = map_at(NULL, 8);
	lose(4);
	b = map_at(a + 4 * PAGE, 4); /* unmaps the upper half of a */
	unmap(a + 2 * PAGE, 4, 4);
	unmap(b + 2 * PAGE, 2, 2);

	/* a partial page counts as a whole one */
	b = map_at(NULL, 4);
	memory_gave(b, 4 * PAGE);
	known_require(!munmap(b, 3 * PAGE + 1), "munmap");
	/* a's two lower pages stay */
}

static void fixed(void)
{
	char *a = map_at(NULL, 8), *b;

	lose(2);
	b = map_at(a + 3 * PAGE, 2); /* into the middle: six pages of a are left */
	lose(2);
	map_at(b, 2); /* exactly over it: b is gone */
	lose(8);
	map_at(a, 8); /* over everything */
}

static char *remap(char *block, size_t pages, size_t new_pages, int flags, char *where)
{
	void *found;

	memory_gave(block, pages * PAGE);
	if (where)
		lose(new_pages); /* what was there */
	found = mremap(block, pages * PAGE, new_pages * PAGE, flags, where);
	known_require(found != MAP_FAILED, "mremap");
	return memory_took(found, new_pages * PAGE);
}

static void remaps(void)
{
	char *place = map_at(NULL, 64), *block = map_at(NULL, 4), *moved;

	block = remap(block, 4, 16, MREMAP_MAYMOVE, NULL);
	block = remap(block, 16, 2, 0, NULL);
	/* onto a part of another mapping, which loses it */
	moved = remap(block, 2, 8, MREMAP_MAYMOVE | MREMAP_FIXED, place + 8 * PAGE);
	known_require(moved == place + 8 * PAGE, "mremap");
	block = mremap(moved, 8 * PAGE, 0, MREMAP_MAYMOVE); /* refused: everything stays */
	known_require(block == MAP_FAILED, "mremap to size 0");
	memory.last = 0;
}

static void failing(void)
{
	char *block = map_at(NULL, 4);
	volatile size_t nothing = 0;

	known_require(munmap(block + 1, PAGE) != 0, "munmap of half a page");
	known_require(munmap(block, nothing) != 0, "munmap of nothing");
	known_require(mmap(NULL, nothing, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			      MAP_FAILED,
		      "mmap of nothing");
	memory.last = 0;
	map_at(NULL, 2);
}

static void before(void)
{
	map_at(NULL, 3);
	if (!old_mapping)
		return;
	memory.last = 0;
	known_require(!munmap(old_mapping, 16 * PAGE), "munmap");
	old_mapping = NULL;
}

static const struct memory_scenario scenarios[] = {
	{"partial", partial}, {"fixed", fixed},	  {"remap", remaps},
	{"failing", failing}, {"before", before}, {NULL, NULL},
};

int main(int argc, char **argv)
{
	void (*scenario)(void) = memory_find(scenarios, argc > 1 ? argv[1] : NULL);

	old_mapping = mmap(NULL, 16 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	known_main(scenario);
	memory_expect();
	return 0;
}
