/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tensors whose memory is reused in a known way, too often to record their frees by default.
 *
 * A batch of blocks is at one of four places and freed as a whole. The next batch there has other
 * bounds but overlaps each block. If frees are inferred from reuse, four batches and the kept
 * blocks are live at the end.
 */
#include "memory.h"

#include <time.h>

#define PLACES	    4
#define BATCHES	    200 /* a run; a multiple of PLACES */
#define BLOCKS	    10
#define BLOCK_BYTES 4096
#define KEPT_BYTES  (64 << 10)
#define BETWEEN_NS  25000 /* blocks: what a program computes with them */

void _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block, size_t size_bytes);
void _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(void *reporter, void *block);

static char arena[PLACES][(BLOCKS + 1) * BLOCK_BYTES];
static uint64_t batches;

static void compute(void)
{
	uint64_t end_ns = known_clock_ns(CLOCK_MONOTONIC) + BETWEEN_NS;

	while (known_clock_ns(CLOCK_MONOTONIC) < end_ns)
		;
}

TRACED void batch_goes(void)
{
	char *at = arena[batches % PLACES] + batches / PLACES % 2 * (BLOCK_BYTES / 2);

	for (size_t i = 0; i < BLOCKS; i++) {
		memory_took(at + i * BLOCK_BYTES, BLOCK_BYTES);
		_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(NULL, at + i * BLOCK_BYTES, BLOCK_BYTES);
		compute();
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		memory_gave(at + i * BLOCK_BYTES, BLOCK_BYTES);
		_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(NULL, at + i * BLOCK_BYTES);
	}
	batches++;
}

TRACED void one_is_kept(void)
{
	void *block = malloc(KEPT_BYTES);

	known_require(block, "memory");
	memset(block, 1, KEPT_BYTES);
	memory_took(block, KEPT_BYTES);
	_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(NULL, block, KEPT_BYTES);
	KEEP(block); /* no tail call */
}

static void scenario(void)
{
	for (int i = 0; i < BATCHES; i++)
		batch_goes();
	one_is_kept();
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	memory_expect();
	known_expect("memory", "last_count", (uint64_t)PLACES * BLOCKS);
	known_expect("memory", "last_bytes", (uint64_t)PLACES * BLOCKS * BLOCK_BYTES);
	known_expect("memory", "kept_count", runs);
	return 0;
}
