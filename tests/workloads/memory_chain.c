/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Callers: main → scenario → chain_outer → chain_middle → chain_inner → malloc, and a second path
 * there. Built twice: memory_chain with the compiler's defaults, memory_chain-fp with frame
 * pointers.
 */
#include "memory.h"

TRACED void *chain_inner(size_t size)
{
	void *block = memory_took(malloc(size), size);

	KEEP(block);
	return block;
}

TRACED void *chain_middle(size_t size)
{
	void *block = chain_inner(size);

	KEEP(block);
	return block;
}

TRACED void chain_outer(int count)
{
	for (int i = 0; i < count; i++)
		chain_middle(100);
}

TRACED void other_outer(int count)
{
	for (int i = 0; i < count; i++)
		chain_middle(10000);
}

static void scenario(void)
{
	chain_outer(300);
	other_outer(7);
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	memory_expect();
	known_expect("chain_inner", "allocs", runs * 307);
	known_expect("chain_inner", "live_bytes", runs * (30000 + 70000));
	/* only if the stack is complete */
	known_expect("chain_outer", "whole_live_bytes", runs * 30000);
	known_expect("other_outer", "whole_live_bytes", runs * 70000);
	known_expect("main", "whole_live_bytes", runs * 100000);
	return 0;
}
