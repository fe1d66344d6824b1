/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sixteen functions that allocate known amounts in blocks of every size, for estimates from
 * samples: from 32 kB to 32 MB. Half of each is freed again at once. Each calls malloc at one
 * place.
 */
#include "memory.h"

/* name, bytes a block, blocks a run */
#define SITES(do)                                                                                                       \
	do                                                                                                              \
	(site_a, 16, 2000) do(site_b, 16, 20000) do(site_c, 48, 20000) do(site_d, 100, 5000) do(site_e, 100, 20000) do( \
		site_f, 700,                                                                                            \
		1000) do(site_g, 700,                                                                                   \
			 10000) do(site_h, 4096,                                                                        \
				   200) do(site_i, 4096,                                                                \
					   4000) do(site_j, 20000,                                                      \
						    40) do(site_k, 20000,                                               \
							   1000) do(site_l, 65536,                                      \
								    100) do(site_m, 100000,                             \
									    100) do(site_n,                             \
										    300000,                             \
										    50) do(site_o,                      \
											   1000000,                     \
											   32) do(site_p,               \
												  1000,                 \
												  64)

#define DEFINE(name, bytes, count)                             \
	TRACED void name(void)                                 \
	{                                                      \
		for (int i = 0; i < (count); i++) {            \
			char *block = malloc(bytes);           \
                                                               \
			blocks[i] = memory_took(block, bytes); \
			if (i % 2)                             \
				destroy(&blocks[i], bytes);    \
		}                                              \
		for (int i = 0; i < (count); i++)              \
			destroy(&blocks[i], bytes);            \
	}

static void *blocks[20000];

static void destroy(void **block, size_t size)
{
	if (!*block)
		return;
	memory_gave(*block, size);
	free(*block);
	*block = NULL;
}

SITES(DEFINE)

static void scenario(void)
{
#define RUN(name, bytes, count) name();
	SITES(RUN)
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	memory_expect();
#define EXPECT(name, bytes, count)                              \
	known_expect(#name, "allocs", runs *(uint64_t)(count)); \
	known_expect(#name, "allocated_bytes", runs *(uint64_t)(bytes) * (uint64_t)(count));
	SITES(EXPECT)
	return 0;
}
