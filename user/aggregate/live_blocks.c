// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/live_blocks.h"

#include "aggregate/internal.h"

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

/* Of one in a sample the rate is not kept, but it has seldom changed since. */
static void visit_mapping(const struct mapping *mapping, void *arg)
{
	struct visit *visit = arg;
	struct live_block live = {.address = mapping->from,
				  .size_bytes = mapping->to - mapping->from,
				  .time_ns = mapping->time_ns,
				  .mapped = true};

	if (mapping->units != MEMORY_UNIT)
		live.mode = visit->memory->domains[visit->stats->domain].sampling_mode;
	visit_one(visit, mapping->hotspot, &live);
}

static void visit_asides(struct visit *visit)
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

static void visit_ledger(struct visit *visit)
{
	const struct block_table *blocks = &visit->stats->blocks;

	visit_asides(visit);
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
	struct visit visit = {.memory = &a->memory, .each = each, .ctx = ctx};

	for (size_t i = 0; i < a->memory.processes_capacity; i++) {
		const struct memory_process *process = a->memory.processes[i];

		for (int domain = 1; process && domain < PERFX_DOMAINS; domain++) {
			visit.stats = process->domain_stats[domain];
			if (visit.stats && !visit.err)
				visit_ledger(&visit);
		}
	}
	return visit.err;
}

unsigned aggregate__doubts(const struct aggregate *a, uint32_t process, enum perfx_domain domain)
{
	const struct memory *memory = &a->memory;
	const struct domain_stats *stats = NULL;

	if (process < memory->processes_capacity && memory->processes[process])
		stats = memory->processes[process]->domain_stats[domain];
	if (!stats)
		return 0;
	return stats->bound | (stats->blind ? PERFX_BEFORE_BLIND : 0);
}

void aggregate__forget_memory(struct aggregate *a, uint32_t process)
{
	struct memory *memory = &a->memory;

	if (process >= memory->processes_capacity || !memory->processes[process])
		return;
	for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
		domain_stats__free(memory, memory->processes[process]->domain_stats[domain]);
		memory->processes[process]->domain_stats[domain] = NULL;
	}
}

void aggregate__limit_blocks(struct aggregate *a, uint32_t blocks_max)
{
	a->memory.blocks.max = blocks_max;
}
