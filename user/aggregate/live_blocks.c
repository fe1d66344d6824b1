// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is live: heap blocks by address, mappings, and walks over both.
 */
#include "aggregate/memory.h"

#include "aggregate/process.h"

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

/* Cuts off what reaches over [from, to). Without room for it the mapping goes as a whole. */
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

struct each {
	void (*each)(const struct mapping *mapping, void *arg);
	void *arg;
};

/* twalk calls three times for an inner node: in between is in order */
static void visit(const void *node, VISIT order, void *arg)
{
	const struct each *each = arg;

	if (order == postorder || order == leaf)
		each->each(*(struct mapping *const *)node, each->arg);
}

static void mapped_each(const struct mapping_tree *tree,
			void (*each)(const struct mapping *mapping, void *arg), void *arg)
{
	struct each closure = {each, arg};

	twalk_r(tree->root, visit, &closure);
}

/* All live blocks: their age, and their release when a process ends. */

/* How often, in allocations that found no room, to look for ended processes. */
#define RETIRE_EVERY 65536

struct ages {
	struct memory *memory;
	uint64_t old_ns;
	struct kept *kept;
};

static void add_age(const struct ages *ages, uint32_t hotspot_index, uint64_t time_ns,
		    uint64_t bytes)
{
	struct hotspot *hotspot = hotspot_at(ages->memory, hotspot_index);

	hotspot->oldest_ns = min_u64(hotspot->oldest_ns, time_ns);
	if (time_ns < ages->old_ns)
		hotspot->old_bytes += bytes;
	if (ages->kept)
		ages->kept[hotspot->place].alloc_windows[alloc_window_at(ages->memory, time_ns)] +=
			bytes;
}

static void add_block(const struct ages *ages, const struct domain_stats *stats,
		      const struct block *block)
{
	add_age(ages, block->hotspot, block->time_ns, memory_weigh_block(stats, block).bytes);
}

static void add_mapping(const struct mapping *mapping, void *arg)
{
	const struct ages *ages = arg;

	add_age(ages, mapping->hotspot, mapping->time_ns, memory_weigh_mapping(mapping).bytes);
}

/* A block that is being reallocated is live. */
static void add_reallocs(const struct ages *ages, const struct domain_stats *stats)
{
	for (size_t i = 0; i < stats->threads_count; i++) {
		const struct memory_thread *thread = &stats->threads[i];

		if (thread->pending_realloc == REALLOC_BLOCK)
			add_block(ages, stats,
				  block_at(&ages->memory->blocks, thread->realloc_block));
		if (thread->pending_realloc != REALLOC_MAPPINGS)
			continue;
		for (struct mapping *m = thread->realloc_mappings; m; m = m->next)
			add_mapping(m, (void *)ages);
	}
}

void live_ages(struct domain_stats *stats, uint64_t old_ns, struct kept *kept)
{
	struct ages ages = {stats->memory, old_ns, kept};

	if (stats->retired)
		return;
	for (struct hotspot *hotspot = stats->hotspots; hotspot; hotspot = hotspot->next) {
		hotspot->oldest_ns = UINT64_MAX;
		hotspot->old_bytes = 0;
	}
	for (size_t i = 0; i < stats->blocks.heads_count; i++) {
		uint32_t index = stats->blocks.heads[i];

		while (index) {
			const struct block *block = block_at(&stats->memory->blocks, index);

			add_block(&ages, stats, block);
			index = block->next;
		}
	}
	mapped_each(&stats->mappings, add_mapping, &ages);
	add_reallocs(&ages, stats);
}

/* old_ns: the middle of the time that its process was open. */
static void retire(const struct aggregate *a, struct domain_stats *stats)
{
	const struct process *proc = a->processes->list[stats->process];
	uint64_t start_ns = capture_start_ns(a, 0);
	uint64_t from_ns = max_u64(proc->from_ns, start_ns);

	live_ages(stats, from_ns + sub_capped(proc->to_ns, from_ns) / 2, NULL);
	stats->retired = true;
	block_table_clear(&stats->memory->blocks, &stats->blocks);
	mapped_clear(stats->memory, &stats->mappings);
}

bool memory_retire(struct aggregate *a)
{
	struct memory *memory = a->memory;
	uint32_t before = memory->blocks.count;

	if (memory->dropped_count++ % RETIRE_EVERY)
		return false;
	for (size_t i = 0; i < memory->processes_capacity && i < a->processes->count; i++) {
		const struct process *proc = a->processes->list[i];

		if (!memory->processes[i] || !proc || !proc->closed)
			continue;
		for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
			struct domain_stats *stats = memory->processes[i]->domain_stats[domain];

			if (stats && !stats->retired)
				retire(a, stats);
		}
	}
	return memory->blocks.count < before;
}

/* Of one domain. */
struct visit {
	const struct memory *memory;
	const struct domain_stats *stats;
	uint32_t realloc_tid;
	int (*each)(void *ctx, const struct live_block *live);
	void *ctx;
	int err;
};

static void visit_one(struct visit *visit, uint32_t hotspot_index, struct live_block *live)
{
	const struct hotspot *hotspot = hotspot_at(visit->memory, hotspot_index);

	live->process = visit->stats->process;
	live->merged = visit->stats->merged;
	live->domain = visit->stats->domain;
	live->stack = hotspot->stack;
	live->context = hotspot->context;
	live->allocator = hotspot->allocator;
	live->realloc_tid = visit->realloc_tid;
	if (!visit->err)
		visit->err = visit->each(visit->ctx, live);
}

static void visit_block(struct visit *visit, const struct block *block)
{
	struct live_block live = {.address = block->address,
				  .size_bytes = block->size_bytes,
				  .time_ns = block->time_ns,
				  .mode = block->rate};

	visit_one(visit, block->hotspot, &live);
}

/* The rate of a sampled mapping is not kept: the domain's last one, which seldom changes. */
static void visit_mapping(const struct mapping *mapping, void *arg)
{
	struct visit *visit = arg;
	struct live_block live = {.address = mapping->from,
				  .size_bytes = mapping->to - mapping->from,
				  .time_ns = mapping->time_ns,
				  .mapped = true};

	if (mapping->units != MEMORY_UNIT)
		live.mode = visit->stats->recorded->sampling_mode;
	visit_one(visit, mapping->hotspot, &live);
}

static void visit_reallocs(struct visit *visit)
{
	const struct domain_stats *stats = visit->stats;

	for (size_t i = 0; i < stats->threads_count; i++) {
		const struct memory_thread *thread = &stats->threads[i];

		visit->realloc_tid = thread->tid;
		if (thread->pending_realloc == REALLOC_BLOCK)
			visit_block(visit, block_at(&visit->memory->blocks, thread->realloc_block));
		if (thread->pending_realloc != REALLOC_MAPPINGS)
			continue;
		for (struct mapping *m = thread->realloc_mappings; m; m = m->next)
			visit_mapping(m, visit);
	}
	visit->realloc_tid = 0;
}

static void visit_domain(struct visit *visit)
{
	const struct block_table *blocks = &visit->stats->blocks;

	visit_reallocs(visit);
	for (size_t i = 0; i < blocks->heads_count && !visit->err; i++) {
		for (uint32_t index = blocks->heads[i]; index;) {
			const struct block *block = block_at(&visit->memory->blocks, index);

			visit_block(visit, block);
			index = block->next;
		}
	}
	mapped_each(&visit->stats->mappings, visit_mapping, visit);
}

int aggregate__each_live_block(const struct aggregate *a,
			       int (*each)(void *ctx, const struct live_block *live), void *ctx)
{
	struct visit visit = {.memory = a->memory, .each = each, .ctx = ctx};

	for (size_t i = 0; i < a->memory->processes_capacity; i++) {
		const struct memory_process *process = a->memory->processes[i];

		for (int domain = 1; process && domain < PERFX_DOMAINS; domain++) {
			visit.stats = process->domain_stats[domain];
			if (visit.stats && !visit.err)
				visit_domain(&visit);
		}
	}
	return visit.err;
}

struct domain_stats *domain_stats_find(const struct memory *memory, uint32_t process,
				       enum perfx_domain domain)
{
	return process < memory->processes_capacity && memory->processes[process]
		       ? memory->processes[process]->domain_stats[domain]
		       : NULL;
}

unsigned aggregate__doubts(const struct aggregate *a, uint32_t process, enum perfx_domain domain)
{
	const struct domain_stats *stats = domain_stats_find(a->memory, process, domain);

	return stats ? stats->bound | (stats->blind ? PERFX_BEFORE_BLIND : 0) : 0;
}

void aggregate__forget_memory(struct aggregate *a, uint32_t process)
{
	struct memory *memory = a->memory;

	if (process >= memory->processes_capacity || !memory->processes[process])
		return;
	for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
		domain_stats__free(memory->processes[process]->domain_stats[domain]);
		memory->processes[process]->domain_stats[domain] = NULL;
	}
}

void aggregate__limit_blocks(struct aggregate *a, uint32_t blocks_max)
{
	a->memory->blocks.max = blocks_max;
}
