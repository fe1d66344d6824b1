/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peak is in the middle: while `holds_at_peak` has its 40 MB, after `holds_before` freed its 30
 * MB, and before `holds_after`. The allocated total is larger.
 */
#include "memory.h"

#define BLOCKS 40
#define MB     1000000

static void *held[BLOCKS];

TRACED void hold(int first, int count)
{
	for (int i = first; i < first + count; i++)
		held[i] = memory_took(malloc(MB), MB);
}

TRACED void release(int first, int count)
{
	for (int i = first; i < first + count; i++) {
		memory_gave(held[i], MB);
		free(held[i]);
	}
}

TRACED void holds_before(void)
{
	hold(0, 30);
	release(0, 20);
}

TRACED void *holds_at_peak(void)
{
	void *block = memory_took(malloc(40 * MB), 40 * MB);

	KEEP(block);
	return block;
}

TRACED void *holds_after(void)
{
	void *block = memory_took(malloc(20 * MB), 20 * MB);

	KEEP(block);
	return block;
}

static void scenario(void)
{
	void *block;

	holds_before();
	block = holds_at_peak();
	memory_gave(block, 40 * MB);
	free(block);
	block = holds_after();
	memory_gave(block, 20 * MB);
	free(block);
	release(20, 10);
}

int main(void)
{
	known_main(scenario);
	memory_expect();
	known_expect("holds_at_peak", "live_at_peak_bytes", 40 * MB);
	known_expect("hold", "live_at_peak_bytes", 10 * MB);
	known_expect("holds_after", "live_at_peak_bytes", 0);
	known_expect("holds_after", "live_bytes", 0);
	return 0;
}
