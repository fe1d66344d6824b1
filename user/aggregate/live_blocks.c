// SPDX-License-Identifier: BSD-2-Clause
/* Live memory: heap blocks by address, mappings, and walks over both. */
#include "aggregate/memory.h"

#include "aggregate/process.h"
#include "decode/pack.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

/* A table that grows makes a new array of heads and relinks; blocks stay where they are. */
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

uint32_t block_remove(struct block_pool *pool, struct block_table *table, uint64_t address)
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

/*
 * Mappings: intervals of which parts may go. They lie in a tree of tsearch(3), in the order of
 * their addresses; since none overlaps another, a comparison that calls overlapping ones equal
 * orders them, and a search finds one that overlaps what is searched for.
 */

static int by_address(const void *left, const void *right)
{
	const struct mapping *a = left, *b = right;

	if (a->to <= b->from)
		return -1;
	return a->from >= b->to;
}

static struct mapping *mapping_overlapping(const struct mapping_tree *tree, uint64_t from,
					   uint64_t to)
{
	const struct mapping key = {.from = from, .to = to};
	struct mapping *const *node = tfind(&key, &tree->root, by_address);

	return node ? *node : NULL;
}

int mapped_add(struct memory *memory, struct mapping_tree *tree, const struct mapping *mapping)
{
	struct mapping *copy;

	if (memory->mappings_count >= AGGREGATE_MAPPINGS_MAX)
		return -ENOSPC;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *mapping;
	copy->rests = 0;
	copy->next = NULL;
	if (!tsearch(copy, &tree->root, by_address)) {
		free(copy);
		return -ENOMEM;
	}
	memory->mappings_count++;
	return 0;
}

/* The part [from, to) of a mapping stays behind. */
static int leave(struct memory *memory, struct mapping_tree *tree, struct mapping *mapping,
		 uint64_t from, uint64_t to)
{
	struct mapping rest = *mapping;
	int err;

	rest.from = from;
	rest.to = to;
	err = mapped_add(memory, tree, &rest);
	if (!err)
		mapping->rests++;
	return err;
}

/* Cuts a mapping to [from, to); the parts outside stay. Without room for these the mapping goes as
 * a whole. */
static int cut(struct memory *memory, struct mapping_tree *tree, struct mapping *mapping,
	       uint64_t from, uint64_t to)
{
	int err = mapping->from < from ? leave(memory, tree, mapping, mapping->from, from) : 0;

	if (err)
		return err;
	mapping->from = max_u64(mapping->from, from);
	err = mapping->to > to ? leave(memory, tree, mapping, to, mapping->to) : 0;
	if (!err)
		mapping->to = min_u64(mapping->to, to);
	return err;
}

int mapped_remove(struct memory *memory, struct mapping_tree *tree, uint64_t from, uint64_t to,
		  struct mapping **list)
{
	struct mapping *mapping;
	int err = 0;

	*list = NULL;
	while ((mapping = mapping_overlapping(tree, from, to))) {
		int cut_err;

		tdelete(mapping, &tree->root, by_address);
		mapping->next = *list;
		*list = mapping;
		cut_err = cut(memory, tree, mapping, from, to);
		err = err ?: cut_err;
		if (err == -ENOMEM)
			break;
	}
	return err;
}

struct mapping *mapped_remove_whole(struct mapping_tree *tree, uint64_t from, uint64_t to)
{
	struct mapping *mapping, *list = NULL;

	while ((mapping = mapping_overlapping(tree, from, to))) {
		tdelete(mapping, &tree->root, by_address);
		mapping->next = list;
		list = mapping;
	}
	return list;
}

struct mapping *mapping_release(struct memory *memory, struct mapping *mapping)
{
	struct mapping *next = mapping->next;

	memory->mappings_count--;
	free(mapping);
	return next;
}

void mapped_clear(struct memory *memory, struct mapping_tree *tree)
{
	while (tree->root) {
		struct mapping *mapping = *(struct mapping **)tree->root;

		tdelete(mapping, &tree->root, by_address);
		mapping_release(memory, mapping);
	}
}

/* A live block: a heap block, a mapping, or the rest of a partly unmapped one. */
struct live {
	uint64_t address, size_bytes, time_ns;
	uint64_t units; /* weight of a mapping; 0: a heap block */
	uint32_t hotspot;
	uint32_t mode; /* its domain's mode of this number, from 1, sampled it; 0: exact */
	uint32_t tid;  /* of the thread that is reallocating it; 0: none */
};

/* A walk over the live blocks of a domain of a process. */
struct live_walk {
	const struct domain_stats *stats;
	void (*each)(void *ctx, const struct live *live);
	void *ctx;
	uint32_t tid;
};

static void walk_block(const struct live_walk *walk, uint32_t index)
{
	const struct block *block = block_at(&walk->stats->memory->blocks, index);

	walk->each(walk->ctx, &(struct live){.address = block->address,
					     .size_bytes = block->size_bytes,
					     .time_ns = block->time_ns,
					     .hotspot = block->hotspot,
					     .mode = block->rate,
					     .tid = walk->tid});
}

/* The rate of a sampled mapping is not kept: the domain's last one, which seldom changes. */
static void walk_mapping(const struct live_walk *walk, const struct mapping *mapping)
{
	bool sampled = mapping->units != MEMORY_UNIT;

	walk->each(walk->ctx,
		   &(struct live){.address = mapping->from,
				  .size_bytes = mapping->to - mapping->from,
				  .time_ns = mapping->time_ns,
				  .units = mapping->units,
				  .hotspot = mapping->hotspot,
				  .mode = sampled ? walk->stats->recorded->sampling_mode : 0,
				  .tid = walk->tid});
}

/* twalk calls three times for an inner node: in between is in order */
static void walk_node(const void *node, VISIT order, void *walk)
{
	if (order == postorder || order == leaf)
		walk_mapping(walk, *(struct mapping *const *)node);
}

/* The block that a thread is reallocating is live. */
static void walk_realloc(struct live_walk *walk, const struct memory_thread *thread)
{
	walk->tid = thread->tid;
	if (thread->pending_realloc == REALLOC_BLOCK)
		walk_block(walk, thread->realloc_block);
	if (thread->pending_realloc == REALLOC_MAPPINGS)
		for (struct mapping *m = thread->realloc_mappings; m; m = m->next)
			walk_mapping(walk, m);
	walk->tid = 0;
}

static void walk_others(struct live_walk *walk)
{
	const struct block_table *blocks = &walk->stats->blocks;

	for (size_t i = 0; i < blocks->heads_count; i++)
		for (uint32_t index = blocks->heads[i]; index;) {
			walk_block(walk, index);
			index = block_at(&walk->stats->memory->blocks, index)->next;
		}
	twalk_r(walk->stats->mappings.root, walk_node, walk);
}

struct ages {
	struct domain_stats *stats;
	uint64_t old_ns;
	struct kept *kept;
};

static void add_age(void *ctx, const struct live *live)
{
	const struct ages *ages = ctx;
	const struct domain_stats *stats = ages->stats;
	struct hotspot *hotspot = hotspot_at(stats->memory, live->hotspot);
	uint64_t sample_bytes =
		live->mode ? stats->recorded->modes[live->mode - 1].sample_bytes : 0;
	uint64_t bytes = live->units ? live->size_bytes * live->units
				     : memory_weigh(live->size_bytes, sample_bytes).bytes;

	hotspot->oldest_ns = min_u64(hotspot->oldest_ns, live->time_ns);
	if (live->time_ns < ages->old_ns)
		hotspot->old_bytes += bytes;
	if (ages->kept) {
		uint32_t window = alloc_window_at(stats->memory, live->time_ns);

		ages->kept[hotspot->place].alloc_windows[window] += bytes;
	}
}

void live_ages(struct domain_stats *stats, uint64_t old_ns, struct kept *kept)
{
	struct ages ages = {stats, old_ns, kept};
	struct live_walk walk = {.stats = stats, .each = add_age, .ctx = &ages};

	if (stats->retired)
		return;
	for (struct hotspot *hotspot = stats->hotspots; hotspot; hotspot = hotspot->next) {
		hotspot->oldest_ns = UINT64_MAX;
		hotspot->old_bytes = 0;
	}
	FOR_EACH (thread, stats->threads)
		walk_realloc(&walk, thread);
	walk_others(&walk);
}

/* How often, in allocations that found no room, ended processes are looked for. */
#define RETIRE_EVERY 65536

bool memory_retire(struct aggregate *a)
{
	struct memory *memory = a->memory;
	uint32_t before = memory->blocks.count;

	if (memory->dropped_count++ % RETIRE_EVERY)
		return false;
	FOR_EACH (slot, memory->stats) {
		struct domain_stats *stats = *slot;
		const struct process *proc = stats ? process_find(a, stats->process) : NULL;
		uint64_t from_ns;

		if (!proc || !proc->closed || stats->retired)
			continue;
		/* old: before the middle of the time that the process was open */
		from_ns = max_u64(proc->from_ns, capture_start_ns(a, 0));
		live_ages(stats, from_ns + sub_capped(proc->to_ns, from_ns) / 2, NULL);
		stats->retired = true;
		block_table_clear(&memory->blocks, &stats->blocks);
		mapped_clear(memory, &stats->mappings);
	}
	return memory->blocks.count < before;
}

/*
 * A keyframe has each mode, and with it the blocks that were sampled under it, before the next mode
 * changes the rate; then all exact blocks. A reallocation that is not over has its blocks and its
 * beginning.
 */
struct live_writer {
	const struct aggregate *a;
	uint64_t from_ns;
	keyframe_emit *emit;
	void *ctx;
	const struct domain_stats *stats;
	uint32_t mode;		   /* of the blocks to write */
	uint64_t *counts;	   /* blocks by mode, which are counted and not written; NULL */
	struct perfx_free realloc; /* the range that a thread reallocates; tid 0: none */
	struct pack_buffer buffer;
	int err;
};

#define WRITE(writer, kind, record)                       \
	((writer)->err =                                  \
		 (writer)->err                            \
			 ?: (writer)->emit((writer)->ctx, \
					   PACK(&(writer)->buffer, PERFX_KIND_##kind, record)))

static void write_live(void *ctx, const struct live *live)
{
	struct live_writer *writer = ctx;
	const struct domain_stats *stats = writer->stats;
	const struct hotspot *hotspot = hotspot_at(stats->memory, live->hotspot);
	struct perfx_allocation record = {
		.time_ns = live->time_ns,
		.address = live->address,
		.size_bytes = live->size_bytes,
		.process = stats->process,
		.tid = live->tid,
		.context = hotspot->context,
		.stack = hotspot->stack,
		.allocator = hotspot->allocator,
		.domain = (uint8_t)stats->domain,
		.flags = (uint8_t)(PERFX_ALLOCATION_BEFORE |
				   (live->mode ? PERFX_ALLOCATION_SAMPLED : 0) |
				   (live->units ? PERFX_ALLOCATION_MAPPED : 0))};
	struct perfx_free *range = &writer->realloc;

	if (writer->counts)
		writer->counts[live->mode]++;
	if (writer->counts || live->mode != writer->mode)
		return;
	WRITE(writer, ALLOCATION, record);
	if (live->tid && range->tid) {
		uint64_t end = max_u64(range->address + range->size_bytes,
				       live->address + live->size_bytes);

		range->address = min_u64(range->address, live->address);
		range->size_bytes = end - range->address;
	} else if (live->tid) {
		*range = (struct perfx_free){.time_ns = writer->from_ns,
					     .address = live->address,
					     .size_bytes = live->units ? live->size_bytes : 0,
					     .process = stats->process,
					     .tid = live->tid,
					     .allocator = hotspot->allocator,
					     .domain = (uint8_t)stats->domain,
					     .flags = PERFX_FREE_REALLOC_BEGIN |
						      (live->units ? PERFX_FREE_MAPPED : 0)};
	}
}

/* The statistics of processes that are not gone: of one domain of a capture, or all. */
static bool is_written(const struct live_writer *writer, const struct domain_stats *stats,
		       const struct memory_domain *recorded)
{
	const struct process *proc = stats ? process_find(writer->a, stats->process) : NULL;

	return proc && (!recorded || stats->recorded == recorded) &&
	       !(proc->closed && proc->to_ns + AGGREGATE_GRACE_NS < writer->from_ns);
}

static void write_blocks(struct live_writer *writer, const struct memory_domain *recorded)
{
	FOR_EACH (stats, writer->a->memory->stats) {
		struct live_walk walk = {.stats = *stats, .each = write_live, .ctx = writer};

		if (!is_written(writer, *stats, recorded))
			continue;
		writer->stats = *stats;
		FOR_EACH (thread, (*stats)->threads) {
			walk_realloc(&walk, thread);
			if (writer->realloc.tid)
				WRITE(writer, FREE, writer->realloc);
			writer->realloc.tid = 0;
		}
		walk_others(&walk);
	}
}

static void write_modes(struct live_writer *writer, uint32_t merged, enum perfx_domain domain)
{
	const struct memory_domain *recorded = &writer->a->memory->domains[merged][domain];
	uint64_t *counts = calloc(recorded->modes_count + 1, sizeof(*counts));

	if (!counts) {
		writer->err = -ENOMEM;
		return;
	}
	writer->counts = counts;
	write_blocks(writer, recorded);
	writer->counts = NULL;
	FOR_EACH (mode, recorded->modes) {
		struct perfx_memory_mode record = {.time_ns = mode->time_ns,
						   .sample_bytes = mode->sample_bytes,
						   .on_ns = mode->on_ns,
						   .period_ns = mode->period_ns,
						   .domain = (uint8_t)domain,
						   .level = (uint8_t)mode->level,
						   .merged = merged};

		WRITE(writer, MEMORY_MODE, record);
		writer->mode = (uint32_t)(mode - recorded->modes) + 1;
		if (!writer->err && counts[writer->mode])
			write_blocks(writer, recorded);
	}
	free(counts);
}

int aggregate__write_memory(const struct aggregate *a, uint64_t from_ns, keyframe_emit *emit,
			    void *ctx)
{
	const struct memory *memory = a->memory;
	struct live_writer writer = {.a = a, .from_ns = from_ns, .emit = emit, .ctx = ctx};

	for (uint32_t merged = 0; merged < memory->domains_capacity; merged++)
		for (int domain = 1; memory->domains[merged] && domain < PERFX_DOMAINS; domain++)
			if (!writer.err && memory->domains[merged][domain].modes_count)
				write_modes(&writer, merged, domain);
	writer.mode = 0;
	if (!writer.err)
		write_blocks(&writer, NULL);
	FOR_EACH (slot, memory->stats) {
		const struct domain_stats *stats = *slot;
		struct perfx_overflow_memory record = {0};

		if (!is_written(&writer, stats, NULL))
			continue;
		record.process = stats->process;
		record.domain = (uint8_t)stats->domain;
		record.before = (uint8_t)(stats->bound | (stats->blind ? PERFX_BEFORE_BLIND : 0));
		if (record.before)
			WRITE(&writer, OVERFLOW_MEMORY, record);
	}
	return writer.err;
}

int aggregate__live_stacks(const struct aggregate *a, struct map64 *stacks)
{
	int err = 0;

	FOR_EACH (stats, a->memory->stats)
		for (struct hotspot *h = *stats ? (*stats)->hotspots : NULL; h && !err;
		     h = h->next) {
			uint64_t key = MAP64_PAIR((*stats)->process, h->stack);

			if (h->live_count && map64_get(stacks, key) == MAP64_NONE)
				err = map64_put(stacks, key, 0);
		}
	return err;
}

void aggregate__forget_memory(struct aggregate *a, uint32_t process)
{
	struct memory *memory = a->memory;

	for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
		struct domain_stats *stats = domain_stats_find(memory, process, domain);

		if (!stats)
			continue;
		memory->stats[(size_t)process * PERFX_DOMAINS + domain] = NULL;
		domain_stats__free(stats);
	}
}

void aggregate__limit_blocks(struct aggregate *a, uint32_t blocks_max)
{
	a->memory->blocks.max = blocks_max;
}
