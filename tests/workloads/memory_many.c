/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory_many [N]: each odd run makes N blocks (a million) that stay, each even run frees them. It
 * pauses in between so that the reader keeps up; `memory_many N fast` does not.
 */
#include <time.h>

#include "memory.h"

static size_t count = 1000000;
static void **blocks;
static bool full, fast;

static size_t size_of(size_t i)
{
	return 16 + i % 100;
}

static void rest(size_t i)
{
	if (i % 1000 == 0 && !fast)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

TRACED void fill(void)
{
	for (size_t i = 0; i < count; i++) {
		blocks[i] = memory_took(malloc(size_of(i)), size_of(i));
		rest(i);
	}
}

TRACED void empty(void)
{
	for (size_t i = 0; i < count; i++) {
		memory_gave(blocks[i], size_of(i));
		free(blocks[i]);
		rest(i);
	}
}

static void scenario(void)
{
	if (full)
		empty();
	else
		fill();
	full = !full;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		count = strtoull(argv[1], NULL, 10);
	fast = argc > 2;
	blocks = calloc(count, sizeof(*blocks));
	memset(blocks, 1, count * sizeof(*blocks));
	known_main(scenario);
	memory_expect();
	known_expect("fill", "allocs", memory.allocs);
	known_expect("fill", "live_bytes", memory.current_bytes);
	return 0;
}
