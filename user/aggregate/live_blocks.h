/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an aggregate holds of memory at a point of the stream, so that another aggregate can go on
 * from there.
 */
#ifndef PERFX_AGGREGATE_LIVE_BLOCKS_H
#define PERFX_AGGREGATE_LIVE_BLOCKS_H

#include "aggregate/aggregate.h"

#include <stddef.h>
#include <stdint.h>

/* A live block: a heap block, a mapping, or the rest of a partly unmapped one. */
struct live_block {
	uint32_t process;
	enum perfx_domain domain;
	uint64_t address, size_bytes, time_ns;
	uint32_t stack, context;
	uint16_t allocator;
	bool mapped;
	uint32_t mode;	      /* sampled under the domain's mode of this number, from 1; 0: exact */
	uint32_t realloc_tid; /* this thread is reallocating it; 0: none */
};

/* In no order, except that blocks under reallocation come before the other blocks of their domain.
 * The callback's first value that is not 0 ends it and is returned. */
int aggregate__each_live_block(const struct aggregate *aggregate,
			       int (*each)(void *ctx, const struct live_block *live), void *ctx);

/* What is known of how right a process's account is: PERFX_BEFORE_, 0: it is exact, or there is
 * none. */
unsigned aggregate__doubts(const struct aggregate *aggregate, uint32_t process,
			   enum perfx_domain domain);

/* Releases the blocks of an ended process. */
void aggregate__forget_memory(struct aggregate *aggregate, uint32_t process);

/* At most so many blocks from now on; AGGREGATE_BLOCKS_MAX unless set. */
void aggregate__limit_blocks(struct aggregate *aggregate, uint32_t blocks_max);

#endif
