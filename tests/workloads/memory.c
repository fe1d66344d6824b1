/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A leaker: each run leaks exactly 30,000 bytes through each of eight allocators, each in a
 * function of its own, and makes ten blocks that live for a moment. `memory heap` leaves mmap out.
 */
#include <malloc.h>
#include <sys/mman.h>

#include "memory.h"

#define LEAK 30000

TRACED void leak_malloc(void)
{
	for (int i = 0; i < LEAK / 1000; i++)
		memory_took(malloc(1000), 1000);
}

TRACED void leak_calloc(void)
{
	for (int i = 0; i < LEAK / 1000; i++)
		memory_took(calloc(8, 125), 1000);
}

TRACED void leak_realloc(void)
{
	for (int i = 0; i < LEAK / 1500; i++) {
		char *block = memory_took(realloc(NULL, 500), 500);

		memory_gave(block, 500);
		memory_took(realloc(block, 1500), 1500);
	}
}

TRACED void leak_reallocarray(void)
{
	for (int i = 0; i < LEAK / 2000; i++)
		memory_took(reallocarray(NULL, 20, 100), 2000);
}

TRACED void leak_posix_memalign(void)
{
	void *block;

	for (int i = 0; i < LEAK / 3000; i++) {
		known_require(!posix_memalign(&block, 64, 3000), "posix_memalign");
		memory_took(block, 3000);
	}
}

TRACED void leak_aligned_alloc(void)
{
	for (int i = 0; i < LEAK / 1200; i++)
		memory_took(aligned_alloc(16, 1200), 1200);
}

TRACED void leak_memalign(void)
{
	for (int i = 0; i < LEAK / 5000; i++)
		memory_took(memalign(4096, 5000), 5000);
}

TRACED void leak_mmap(void)
{
	void *pages = mmap(NULL, LEAK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	known_require(pages != MAP_FAILED, "mmap");
	memory_took(pages, LEAK);
}

TRACED void only_temporary(void)
{
	for (int i = 0; i < 10; i++) {
		char *block = memory_took(malloc(100), 100);

		memory_gave(block, 100);
		free(block);
	}
}

static const struct {
	const char *name;
	void (*leak)(void);
	uint64_t allocs, frees;
} leaks[] = {
	{"leak_malloc", leak_malloc, 30, 0},
	{"leak_calloc", leak_calloc, 30, 0},
	{"leak_realloc", leak_realloc, 40, 20},
	{"leak_reallocarray", leak_reallocarray, 15, 0},
	{"leak_posix_memalign", leak_posix_memalign, 10, 0},
	{"leak_aligned_alloc", leak_aligned_alloc, 25, 0},
	{"leak_memalign", leak_memalign, 6, 0},
	{"leak_mmap", leak_mmap, 1, 0},
};
static size_t leaks_count = sizeof(leaks) / sizeof(leaks[0]);

static void scenario(void)
{
	for (size_t i = 0; i < leaks_count; i++)
		leaks[i].leak();
	only_temporary();
}

static void expect_sites(uint64_t runs)
{
	for (size_t i = 0; i < leaks_count; i++) {
		known_expect(leaks[i].name, "allocs", runs * leaks[i].allocs);
		known_expect(leaks[i].name, "frees", runs * leaks[i].frees);
		known_expect(leaks[i].name, "live_bytes", runs * LEAK);
	}
	known_expect("leak_realloc", "allocated_bytes", runs * (LEAK + LEAK / 3));
	known_expect("only_temporary", "allocs", runs * 10);
	known_expect("only_temporary", "frees", runs * 10);
	known_expect("only_temporary", "allocated_bytes", runs * 1000);
	known_expect("only_temporary", "live_bytes", 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "heap"))
		leaks_count--;
	expect_sites(known_main(scenario));
	memory_expect();
	return 0;
}
