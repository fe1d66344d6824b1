// SPDX-License-Identifier: BSD-2-Clause
/* What is live now, all of it: how old, and the end of it. */
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
		ages->kept[hotspot->place].windows[memory_window(ages->memory, time_ns)] += bytes;
}

static void add_block(const struct ages *ages, const struct ledger *ledger,
		      const struct block *block)
{
	add_age(ages, block->hotspot, block->time_ns,
		memory_weigh_block(ages->memory, ledger, block).bytes);
}

static void add_mapping(const struct mapping *mapping, void *arg)
{
	const struct ages *ages = arg;

	add_age(ages, mapping->hotspot, mapping->time_ns, memory_weigh_mapping(mapping).bytes);
}

/* What is being reallocated lives as well. */
static void add_asides(const struct ages *ages, const struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->threads_count; i++) {
		const struct memory_thread *thread = &ledger->threads[i];

		if (thread->aside == ASIDE_BLOCK)
			add_block(ages, ledger,
				  block_at(&ages->memory->blocks, thread->aside_block));
		if (thread->aside != ASIDE_MAPPINGS)
			continue;
		for (struct mapping *m = thread->aside_mappings; m; m = m->next)
			add_mapping(m, (void *)ages);
	}
}

void live_ages(struct memory *memory, struct ledger *ledger, uint64_t old_ns, struct kept *kept)
{
	struct ages ages = {memory, old_ns, kept};

	if (ledger->retired)
		return;
	for (struct hotspot *hotspot = ledger->hotspots; hotspot; hotspot = hotspot->next) {
		hotspot->oldest_ns = UINT64_MAX;
		hotspot->old_bytes = 0;
	}
	for (size_t i = 0; i < ledger->blocks.heads_count; i++) {
		uint32_t index = ledger->blocks.heads[i];

		while (index) {
			const struct block *block = block_at(&memory->blocks, index);

			add_block(&ages, ledger, block);
			index = block->next;
		}
	}
	mapped_each(&ledger->mappings, add_mapping, &ages);
	add_asides(&ages, ledger);
}

/* The middle of the time that a book was open. */
static uint64_t middle_ns(const struct aggregate *a, const struct book *book)
{
	uint64_t start_ns = a->has_host ? a->host.start_ns : a->first_ns;
	uint64_t from_ns = book->from_ns > start_ns ? book->from_ns : start_ns;

	return book->to_ns > from_ns ? from_ns + (book->to_ns - from_ns) / 2 : from_ns;
}

static void retire(struct memory *memory, struct ledger *ledger, uint64_t old_ns)
{
	live_ages(memory, ledger, old_ns, NULL);
	ledger->retired = true;
	block_table_clear(&memory->blocks, &ledger->blocks);
	mapped_clear(memory, &ledger->mappings);
}

bool memory_retire(struct aggregate *a)
{
	struct memory *memory = &a->memory;
	uint32_t before = memory->blocks.count;

	if (memory->refused_count++ % RETIRE_EVERY)
		return false;
	for (size_t i = 0; i < memory->processes_capacity && i < a->books_count; i++) {
		const struct book *book = a->books[i];

		if (!memory->processes[i] || !book || !book->closed)
			continue;
		for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
			struct ledger *ledger = memory->processes[i]->ledgers[domain];

			if (ledger && !ledger->retired)
				retire(memory, ledger, middle_ns(a, book));
		}
	}
	return memory->blocks.count < before;
}

void memory_clear(struct memory *memory)
{
	for (size_t i = 0; i < memory->processes_capacity; i++) {
		struct memory_process *process = memory->processes[i];

		for (int domain = 1; process && domain < PERFX_DOMAINS; domain++)
			ledger__free(memory, process->ledgers[domain]);
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
