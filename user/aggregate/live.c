// SPDX-License-Identifier: BSD-2-Clause
/* All live blocks: their age, and their release when a process ends. */
#include "aggregate/internal.h"

#include <stdlib.h>

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

	if (time_ns < hotspot->oldest_ns)
		hotspot->oldest_ns = time_ns;
	if (time_ns < ages->old_ns)
		hotspot->old_bytes += bytes;
	if (ages->kept)
		ages->kept[hotspot->place].alloc_windows[alloc_window_at(ages->memory, time_ns)] +=
			bytes;
}

static void add_block(const struct ages *ages, const struct domain_stats *stats,
		      const struct block *block)
{
	add_age(ages, block->hotspot, block->time_ns,
		memory_weigh_block(ages->memory, stats, block).bytes);
}

static void add_mapping(const struct mapping *mapping, void *arg)
{
	const struct ages *ages = arg;

	add_age(ages, mapping->hotspot, mapping->time_ns, memory_weigh_mapping(mapping).bytes);
}

/* What is being reallocated lives as well. */
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

void live_ages(struct memory *memory, struct domain_stats *stats, uint64_t old_ns,
	       struct kept *kept)
{
	struct ages ages = {memory, old_ns, kept};

	if (stats->retired)
		return;
	for (struct hotspot *hotspot = stats->hotspots; hotspot; hotspot = hotspot->next) {
		hotspot->oldest_ns = UINT64_MAX;
		hotspot->old_bytes = 0;
	}
	for (size_t i = 0; i < stats->blocks.heads_count; i++) {
		uint32_t index = stats->blocks.heads[i];

		while (index) {
			const struct block *block = block_at(&memory->blocks, index);

			add_block(&ages, stats, block);
			index = block->next;
		}
	}
	mapped_each(&stats->mappings, add_mapping, &ages);
	add_reallocs(&ages, stats);
}

/* The middle of the time that a process was open. */
static uint64_t middle_ns(const struct aggregate *a, const struct process *proc)
{
	uint64_t start_ns = a->has_host ? a->host.start_ns : a->first_ns;
	uint64_t from_ns = proc->from_ns > start_ns ? proc->from_ns : start_ns;

	return proc->to_ns > from_ns ? from_ns + (proc->to_ns - from_ns) / 2 : from_ns;
}

static void retire(struct memory *memory, struct domain_stats *stats, uint64_t old_ns)
{
	live_ages(memory, stats, old_ns, NULL);
	stats->retired = true;
	block_table_clear(&memory->blocks, &stats->blocks);
	mapped_clear(memory, &stats->mappings);
}

bool memory_retire(struct aggregate *a)
{
	struct memory *memory = &a->memory;
	uint32_t before = memory->blocks.count;

	if (memory->refused_count++ % RETIRE_EVERY)
		return false;
	for (size_t i = 0; i < memory->processes_capacity && i < a->processes_count; i++) {
		const struct process *proc = a->processes[i];

		if (!memory->processes[i] || !proc || !proc->closed)
			continue;
		for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
			struct domain_stats *stats = memory->processes[i]->domain_stats[domain];

			if (stats && !stats->retired)
				retire(memory, stats, middle_ns(a, proc));
		}
	}
	return memory->blocks.count < before;
}

void memory_clear(struct memory *memory)
{
	for (size_t i = 0; i < memory->processes_capacity; i++) {
		struct memory_process *process = memory->processes[i];

		for (int domain = 1; process && domain < PERFX_DOMAINS; domain++)
			domain_stats__free(memory, process->domain_stats[domain]);
		if (process)
			map64_clear(&process->frame_ids);
		free(process);
	}
	free(memory->processes);
	for (int domain = 0; domain < PERFX_DOMAINS; domain++)
		free(memory->domains[domain].modes);
	chunks_clear(&memory->blocks.chunks);
	chunks_clear(&memory->hotspots);
	chunks_clear(&memory->frames);
	free(memory->allocators);
	map64_clear(&memory->stack_ids);
	free(memory->stacks);
	free(memory->addresses);
	map64_clear(&memory->string_ids);
	free(memory->interned);
}
