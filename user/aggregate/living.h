/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an aggregate holds of memory at a point of the stream, so that somebody else can go on from
 * there.
 */
#ifndef PERFX_AGGREGATE_LIVING_H
#define PERFX_AGGREGATE_LIVING_H

#include "aggregate/aggregate.h"

#include <stddef.h>
#include <stdint.h>

/* What was allocated and not freed: a block, a mapping, or what is left of one. */
struct living {
	uint32_t process;
	enum perfx_domain domain;
	uint64_t address, size_bytes, time_ns;
	uint32_t stack, context;
	uint16_t allocator;
	bool mapped;
	uint32_t mode;	    /* sampled under the domain's mode of this number, from 1; 0: exact */
	uint32_t aside_tid; /* this thread is reallocating it; 0: nobody */
};

/* In no order, but that what a thread reallocates comes before what else there is of its ledger.
 * The callback's first value that is not 0 ends it and is returned. */
int aggregate__each_living(const struct aggregate *aggregate,
			   int (*each)(void *ctx, const struct living *living), void *ctx);

/* What is known of how right a process's account is: PERFX_BEFORE_, 0: it is exact, or there is
 * none. */
unsigned aggregate__doubts(const struct aggregate *aggregate, uint32_t process,
			   enum perfx_domain domain);

/* A process that is no more: its blocks are given back. */
void aggregate__forget_memory(struct aggregate *aggregate, uint32_t process);

/* At most so many blocks from now on; AGGREGATE_BLOCKS_MAX unless told. */
void aggregate__limit_blocks(struct aggregate *aggregate, uint32_t blocks_max);

#endif
