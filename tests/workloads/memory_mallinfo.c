/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * glibc's own count beside ours: mallinfo2() counts chunks, which are larger than what was asked
 * for by what malloc_usable_size() tells and a header, of 8 bytes in the heap and of 16 in a
 * mapping of its own. What is freed here is too large for the thread's cache, whose blocks
 * mallinfo2() takes for used ones.
 */
#include <malloc.h>

#include "memory.h"

#define SMALL 3000
#define BIG   20

static uint64_t overhead_bytes;

/* Bytes in use as glibc sees it, in the heap and in mappings. */
static uint64_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void *make(size_t size, size_t header)
{
	void *block = memory_took(malloc(size), size);

	overhead_bytes += malloc_usable_size(block) - size + header;
	return block;
}

static void destroy(void *block, size_t size)
{
	overhead_bytes -= malloc_usable_size(block) - size + 8;
	memory_gave(block, size);
	free(block);
}

static size_t size_of(int i)
{
	return 1200 + 7 * (size_t)(i % 500);
}

static void make_small(void)
{
	static void *blocks[SMALL];

	for (int i = 0; i < SMALL; i++)
		blocks[i] = make(size_of(i), 8);
	for (int i = 0; i < SMALL; i += 2)
		destroy(blocks[i], size_of(i));
}

static void make_big(void)
{
	for (size_t i = 0; i < BIG; i++)
		make(150000 + i * 10000, 16);
}

static uint64_t before_bytes;

static void scenario(void)
{
	if (!before_bytes)
		before_bytes = in_use(); /* stdio has its buffer by now */
	make_small();
	make_big();
}

int main(void)
{
	mallopt(M_MMAP_THRESHOLD, 100000);
	known_main(scenario);
	memory_expect();
	/* a second source for the same number */
	known_expect("mallinfo", "current_bytes", in_use() - before_bytes - overhead_bytes);
	return 0;
}
