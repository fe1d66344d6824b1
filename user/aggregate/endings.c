// SPDX-License-Identifier: BSD-2-Clause
/* How blocks and mappings end: freed, replaced, reallocated. The rules are at the top of memory.c.
 */
#include "aggregate/internal.h"

#include <math.h>

static uint64_t rate_bytes(const struct memory *memory, const struct ledger *ledger, uint32_t rate)
{
	return memory->domains[ledger->domain].modes[rate - 1].sample_bytes;
}

struct weight memory_weigh(uint64_t size_bytes, uint64_t sample_bytes)
{
	struct weight weight = {MEMORY_UNIT, size_bytes << MEMORY_UNIT_SHIFT};
	double p;

	if (sample_bytes) {
		p = sampling_probability(size_bytes, sample_bytes);
		weight.count = (uint64_t)llround((double)MEMORY_UNIT / p);
		weight.bytes = (uint64_t)llround((double)MEMORY_UNIT * (double)size_bytes / p);
	}
	return weight;
}

struct weight memory_weigh_block(const struct memory *memory, const struct ledger *ledger,
				 const struct block *block)
{
	return memory_weigh(block->size_bytes,
			    block->rate ? rate_bytes(memory, ledger, block->rate) : 0);
}

struct weight memory_weigh_mapping(const struct mapping *mapping)
{
	return (struct weight){mapping->units, (mapping->to - mapping->from) * mapping->units};
}

static void end_one(struct memory *memory, struct ledger *ledger, struct hotspot *hotspot,
		    struct weight weight, uint64_t since_ns, const struct ending *ending)
{
	uint64_t lived_ns = ending->time_ns > since_ns ? ending->time_ns - since_ns : 0;

	let_go(memory, ledger, hotspot, weight.count, weight.bytes, ending->time_ns);
	if (!ending->is_free)
		return;
	hotspot->freed_bytes = add_capped(hotspot->freed_bytes, weight.bytes);
	hotspot->ended = add_capped(hotspot->ended, weight.count);
	hotspot->lifetimes += (u128)lived_ns * weight.count;
}

static void count_free(struct ledger *ledger, struct hotspot *hotspot, uint64_t units,
		       bool temporary)
{
	hotspot->frees = add_capped(hotspot->frees, units);
	if (!temporary)
		return;
	hotspot->temporary = add_capped(hotspot->temporary, units);
	ledger->temporary = add_capped(ledger->temporary, units);
}

void end_block(struct memory *memory, struct ledger *ledger, uint32_t index,
	       const struct ending *ending)
{
	const struct block *block = block_at(&memory->blocks, index);
	struct hotspot *hotspot = hotspot_at(memory, block->hotspot);
	struct weight weight = memory_weigh_block(memory, ledger, block);

	end_one(memory, ledger, hotspot, weight, block->time_ns, ending);
	if (ending->is_free) {
		ledger->frees = add_capped(ledger->frees, weight.count);
		count_free(ledger, hotspot, weight.count, ending->temporary);
	} else if (!ledger->blind) {
		ledger->replaced++;
	}
	block_release(&memory->blocks, index);
}

void end_mappings(struct memory *memory, struct ledger *ledger, struct mapping *list,
		  const struct ending *ending)
{
	struct hotspot *last = NULL;
	uint64_t heaviest = 0;

	while (list) {
		struct hotspot *hotspot = hotspot_at(memory, list->hotspot);

		end_one(memory, ledger, hotspot, memory_weigh_mapping(list), list->time_ns, ending);
		if (ending->is_free && hotspot != last)
			count_free(ledger, hotspot, list->units, ending->temporary);
		if (list->units > heaviest)
			heaviest = list->units;
		last = hotspot;
		list = mapping_release(memory, list);
	}
	if (ending->is_free)
		ledger->frees = add_capped(ledger->frees, heaviest);
}

int take_mappings(struct memory *memory, struct ledger *ledger, uint64_t address,
		  uint64_t size_bytes, uint64_t time_ns, struct mapping **list)
{
	int err = mapped_take(memory, &ledger->mappings, address, address + size_bytes, list);

	for (const struct mapping *m = *list; m; m = m->next) {
		if (m->rests)
			hold(memory, ledger, hotspot_at(memory, m->hotspot), m->rests * m->units, 0,
			     time_ns);
	}
	if (err != -ENOSPC)
		return err;
	/* what had no room goes too early: less lives here than there */
	ledger->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

void end_aside(struct memory *memory, struct ledger *ledger, struct memory_thread *thread,
	       uint64_t time_ns)
{
	struct ending ending = {time_ns, true, thread->aside_temporary};

	switch (thread->aside) {
	case ASIDE_NONE:
		break;
	case ASIDE_UNKNOWN:
		ledger_note_unknown(memory, ledger, time_ns);
		break;
	case ASIDE_BLOCK:
		end_block(memory, ledger, thread->aside_block, &ending);
		break;
	case ASIDE_MAPPINGS:
		end_mappings(memory, ledger, thread->aside_mappings, &ending);
		break;
	}
	thread->aside = ASIDE_NONE;
}

/* Where it was. What has come there meanwhile was there later: its free is lost. */
static int restore_block(struct memory *memory, struct ledger *ledger, uint32_t index,
			 uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	uint64_t address = block_at(&memory->blocks, index)->address;
	uint32_t other = block_take(&memory->blocks, &ledger->blocks, address);

	if (other)
		end_block(memory, ledger, other, &lost);
	return block_insert(&memory->blocks, &ledger->blocks, index);
}

static int restore_mapping(struct memory *memory, struct ledger *ledger,
			   const struct mapping *mapping, uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	struct hotspot *hotspot = hotspot_at(memory, mapping->hotspot);
	struct weight weight = memory_weigh_mapping(mapping);
	struct mapping *others;
	int err = take_mappings(memory, ledger, mapping->from, mapping->to - mapping->from, time_ns,
				&others);

	end_mappings(memory, ledger, others, &lost);
	if (err)
		return err;
	err = mapped_add(memory, &ledger->mappings, mapping);
	if (err != -ENOSPC)
		return err;
	let_go(memory, ledger, hotspot, weight.count, weight.bytes, time_ns);
	ledger->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

int restore_aside(struct memory *memory, struct ledger *ledger, struct memory_thread *thread,
		  uint64_t time_ns)
{
	enum aside aside = thread->aside;
	int err = 0;

	thread->aside = ASIDE_NONE;
	if (aside == ASIDE_BLOCK)
		return restore_block(memory, ledger, thread->aside_block, time_ns);
	while (aside == ASIDE_MAPPINGS && thread->aside_mappings) {
		if (!err)
			err = restore_mapping(memory, ledger, thread->aside_mappings, time_ns);
		thread->aside_mappings = mapping_release(memory, thread->aside_mappings);
	}
	return err;
}
