// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/living.h"

#include "aggregate/internal.h"

/* Of one ledger. */
struct telling {
	const struct memory *memory;
	const struct ledger *ledger;
	uint32_t aside_tid;
	int (*each)(void *ctx, const struct living *living);
	void *ctx;
	int err;
};

static void tell(struct telling *telling, uint32_t hotspot_index, struct living *living)
{
	const struct hotspot *hotspot = hotspot_at(telling->memory, hotspot_index);

	living->process = telling->ledger->process;
	living->domain = telling->ledger->domain;
	living->stack = hotspot->stack;
	living->context = hotspot->context;
	living->allocator = hotspot->allocator;
	living->aside_tid = telling->aside_tid;
	if (!telling->err)
		telling->err = telling->each(telling->ctx, living);
}

static void tell_block(struct telling *telling, const struct block *block)
{
	struct living living = {.address = block->address,
				.size_bytes = block->size_bytes,
				.time_ns = block->time_ns,
				.mode = block->rate};

	tell(telling, block->hotspot, &living);
}

/* Of one in a sample the rate is not kept, but it has seldom changed since. */
static void tell_mapping(const struct mapping *mapping, void *arg)
{
	struct telling *telling = arg;
	struct living living = {.address = mapping->from,
				.size_bytes = mapping->to - mapping->from,
				.time_ns = mapping->time_ns,
				.mapped = true};

	if (mapping->units != MEMORY_UNIT)
		living.mode = telling->memory->domains[telling->ledger->domain].sampling_mode;
	tell(telling, mapping->hotspot, &living);
}

static void tell_asides(struct telling *telling)
{
	const struct ledger *ledger = telling->ledger;

	for (size_t i = 0; i < ledger->threads_count; i++) {
		const struct memory_thread *thread = &ledger->threads[i];

		telling->aside_tid = thread->tid;
		if (thread->aside == ASIDE_BLOCK)
			tell_block(telling,
				   block_at(&telling->memory->blocks, thread->aside_block));
		if (thread->aside != ASIDE_MAPPINGS)
			continue;
		for (struct mapping *m = thread->aside_mappings; m; m = m->next)
			tell_mapping(m, telling);
	}
	telling->aside_tid = 0;
}

static void tell_ledger(struct telling *telling)
{
	const struct block_table *blocks = &telling->ledger->blocks;

	tell_asides(telling);
	for (size_t i = 0; i < blocks->heads_count && !telling->err; i++) {
		for (uint32_t index = blocks->heads[i]; index;) {
			const struct block *block = block_at(&telling->memory->blocks, index);

			tell_block(telling, block);
			index = block->next;
		}
	}
	mapped_each(&telling->ledger->mappings, tell_mapping, telling);
}

int aggregate__each_living(const struct aggregate *a,
			   int (*each)(void *ctx, const struct living *living), void *ctx)
{
	struct telling telling = {.memory = &a->memory, .each = each, .ctx = ctx};

	for (size_t i = 0; i < a->memory.processes_capacity; i++) {
		const struct memory_process *process = a->memory.processes[i];

		for (int domain = 1; process && domain < PERFX_DOMAINS; domain++) {
			telling.ledger = process->ledgers[domain];
			if (telling.ledger && !telling.err)
				tell_ledger(&telling);
		}
	}
	return telling.err;
}

unsigned aggregate__doubts(const struct aggregate *a, uint32_t process, enum perfx_domain domain)
{
	const struct memory *memory = &a->memory;
	const struct ledger *ledger = NULL;

	if (process < memory->processes_capacity && memory->processes[process])
		ledger = memory->processes[process]->ledgers[domain];
	if (!ledger)
		return 0;
	return ledger->bound | (ledger->blind ? PERFX_BEFORE_BLIND : 0);
}

void aggregate__forget_memory(struct aggregate *a, uint32_t process)
{
	struct memory *memory = &a->memory;

	if (process >= memory->processes_capacity || !memory->processes[process])
		return;
	for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
		ledger__free(memory, memory->processes[process]->ledgers[domain]);
		memory->processes[process]->ledgers[domain] = NULL;
	}
}

void aggregate__limit_blocks(struct aggregate *a, uint32_t blocks_max)
{
	a->memory.blocks.max = blocks_max;
}
