/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What allocators may answer, and what it means for the book.
 *
 *	memory_realloc resize	grows (moves), shrinks, of NULL
 *	memory_realloc failing	too much asked of each: the old block stays
 *	memory_realloc zero	blocks of size 0; realloc to size 0; free of NULL
 *	memory_realloc before	blocks from before "ready" are freed and resized
 */
#include <errno.h>
#include <malloc.h>

#include "memory.h"

#define OLD 12

static volatile size_t too_much = (size_t)1 << 62, nothing;
static void *old_blocks[OLD];

TRACED void *resize(void *block, size_t size, size_t new_size)
{
	void *found;

	if (block)
		memory_gave(block, size);
	found = realloc(block, new_size);
	return memory_took(found, new_size);
}

TRACED void drop(void *block, size_t size)
{
	memory_gave(block, size);
	free(block);
}

static void resizes(void)
{
	char *blocks[8];

	for (int i = 0; i < 8; i++)
		blocks[i] = resize(NULL, 0, 100);
	for (size_t size = 100; size <= 1000000;
	     size *= 10) /* another block is in the way, so it moves */
		for (int i = 0; i < 8; i++)
			blocks[i] = resize(blocks[i], size, size * 10);
	for (int i = 0; i < 8; i++)
		blocks[i] = resize(blocks[i], 10000000, 64);
	for (int i = 0; i < 4; i++)
		drop(blocks[i], 64);
}

static void failing(void)
{
	char *block = memory_took(malloc(5000), 5000);
	void *other = NULL;

	memory_took(malloc(24), 24);
	known_require(!realloc(block, too_much), "realloc");
	known_require(!reallocarray(block, too_much, 8), "reallocarray");
	known_require(!malloc(too_much), "malloc");
	known_require(!calloc(too_much, 16), "calloc: the product wraps");
	known_require(!calloc(too_much, 1), "calloc");
	known_require(!aligned_alloc(64, too_much), "aligned_alloc");
	known_require(posix_memalign(&other, 64, too_much) == ENOMEM, "posix_memalign");
	known_require(posix_memalign(&other, 3, 64) == EINVAL, "posix_memalign");
	block[4999] = 1;
	drop(block, 5000);
}

static void zero(void)
{
	for (int i = 0; i < 5; i++)
		memory_took(malloc(nothing), 0);
	memory_took(calloc(nothing, 8), 0);
	memory_took(malloc(32), 32);
	/* glibc frees and returns NULL; others may return a block of size 0 */
	for (int i = 0; i < 5; i++) {
		void *block = memory_took(malloc(700), 700);

		memory_took(malloc(40), 40);
		resize(block, 700, nothing);
		memory_took(malloc(40), 40);
	}
	for (int i = 0; i < 5; i++)
		free(NULL);
}

static void before(void)
{
	for (int i = 0; i < OLD && old_blocks[0]; i++) {
		memory_took(malloc(48), 48);
		memory_gave_unknown();
		if (i % 2)
			memory_took(realloc(old_blocks[i], 9000), 9000);
		else
			free(old_blocks[i]);
		memory_took(malloc(48), 48);
	}
	old_blocks[0] = NULL;
}

static const struct memory_scenario scenarios[] = {
	{"resize", resizes}, {"failing", failing}, {"zero", zero}, {"before", before}, {NULL, NULL},
};

int main(int argc, char **argv)
{
	void (*scenario)(void) = memory_find(scenarios, argc > 1 ? argv[1] : NULL);

	for (int i = 0; i < OLD; i++)
		old_blocks[i] = malloc(300);
	known_main(scenario);
	memory_expect();
	return 0;
}
