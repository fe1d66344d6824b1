// SPDX-License-Identifier: BSD-2-Clause
/* Live blocks by address: buckets of chained blocks out of one pool. A table that grows makes a new
 * array of heads and relinks; blocks stay where they are. */
#include "aggregate/aggregate.h"
#include "aggregate/memory.h"

#include <errno.h>
#include <stdlib.h>

#define HEADS_MIN 16

uint32_t block_new(struct block_pool *pool)
{
	uint32_t index = pool->free_head;

	if (index) {
		pool->free_head = block_at(pool, index)->next;
	} else {
		if (pool->chunks.count > (pool->max ? pool->max : AGGREGATE_BLOCKS_MAX)) {
			errno = ENOSPC;
			return 0;
		}
		/* the first one is index 0: none */
		if (!pool->chunks.count && !chunks_add(&pool->chunks, sizeof(struct block)))
			return 0;
		if (!chunks_add(&pool->chunks, sizeof(struct block)))
			return 0;
		index = (uint32_t)pool->chunks.count - 1;
	}
	pool->count++;
	return index;
}

void block_release(struct block_pool *pool, uint32_t index)
{
	block_at(pool, index)->next = pool->free_head;
	pool->free_head = index;
	pool->count--;
}

/* Fibonacci hashing (Knuth, volume 3, 6.4): addresses are multiples of 16 or of pages. */
static size_t bucket_of(const struct block_table *table, uint64_t address)
{
	uint64_t mixed = address * 0x9e3779b97f4a7c15ULL;

	return (mixed ^ mixed >> 32) & (table->heads_count - 1);
}

static int table_grow(struct block_pool *pool, struct block_table *table)
{
	struct block_table larger = {
		.heads_count = table->heads_count ? 2 * table->heads_count : HEADS_MIN,
		.count = table->count,
	};

	larger.heads = calloc(larger.heads_count, sizeof(*larger.heads));
	if (!larger.heads)
		return -ENOMEM;
	for (size_t i = 0; i < table->heads_count; i++) {
		uint32_t index = table->heads[i];

		while (index) {
			struct block *block = block_at(pool, index);
			uint32_t *head = &larger.heads[bucket_of(&larger, block->address)];
			uint32_t next = block->next;

			block->next = *head;
			*head = index;
			index = next;
		}
	}
	free(table->heads);
	*table = larger;
	return 0;
}

int block_insert(struct block_pool *pool, struct block_table *table, uint32_t index)
{
	struct block *block = block_at(pool, index);
	uint32_t *head;

	/* at most three blocks for four heads: most searches end at the first */
	if (4 * table->count >= 3 * table->heads_count && table_grow(pool, table))
		return -ENOMEM;
	head = &table->heads[bucket_of(table, block->address)];
	block->next = *head;
	*head = index;
	table->count++;
	return 0;
}

uint32_t block_take(struct block_pool *pool, struct block_table *table, uint64_t address)
{
	uint32_t *link, index;

	if (!table->count)
		return 0;
	link = &table->heads[bucket_of(table, address)];
	while ((index = *link)) {
		struct block *block = block_at(pool, index);

		if (block->address == address) {
			*link = block->next;
			table->count--;
			return index;
		}
		link = &block->next;
	}
	return 0;
}

void block_table_clear(struct block_pool *pool, struct block_table *table)
{
	for (size_t i = 0; i < table->heads_count; i++) {
		uint32_t index = table->heads[i];

		while (index) {
			uint32_t next = block_at(pool, index)->next;

			block_release(pool, index);
			index = next;
		}
	}
	free(table->heads);
	*table = (struct block_table){0};
}
