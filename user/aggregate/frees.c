// SPDX-License-Identifier: BSD-2-Clause
/* The ends of blocks and mappings: freed, replaced, reallocated. The rules are at the top of
 * memory.c.
 */
#include "aggregate/internal.h"

#include <math.h>

static uint64_t rate_bytes(const struct memory *memory, const struct domain_stats *stats,
			   uint32_t rate)
{
	return memory->domains[stats->domain].modes[rate - 1].sample_bytes;
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

struct weight memory_weigh_block(const struct memory *memory, const struct domain_stats *stats,
				 const struct block *block)
{
	return memory_weigh(block->size_bytes,
			    block->rate ? rate_bytes(memory, stats, block->rate) : 0);
}

struct weight memory_weigh_mapping(const struct mapping *mapping)
{
	return (struct weight){mapping->units, (mapping->to - mapping->from) * mapping->units};
}

static void end_one(struct memory *memory, struct domain_stats *stats, struct hotspot *hotspot,
		    struct weight weight, uint64_t since_ns, const struct ending *ending)
{
	uint64_t lived_ns = ending->time_ns > since_ns ? ending->time_ns - since_ns : 0;

	live_sub(memory, stats, hotspot, weight.count, weight.bytes, ending->time_ns);
	if (!ending->is_free)
		return;
	hotspot->freed_bytes = add_capped(hotspot->freed_bytes, weight.bytes);
	hotspot->ended = add_capped(hotspot->ended, weight.count);
	hotspot->lifetimes += (u128)lived_ns * weight.count;
}

static void count_free(struct domain_stats *stats, struct hotspot *hotspot, uint64_t units,
		       bool temporary)
{
	hotspot->frees = add_capped(hotspot->frees, units);
	if (!temporary)
		return;
	hotspot->temporary = add_capped(hotspot->temporary, units);
	stats->temporary = add_capped(stats->temporary, units);
}

void end_block(struct memory *memory, struct domain_stats *stats, uint32_t index,
	       const struct ending *ending)
{
	const struct block *block = block_at(&memory->blocks, index);
	struct hotspot *hotspot = hotspot_at(memory, block->hotspot);
	struct weight weight = memory_weigh_block(memory, stats, block);

	end_one(memory, stats, hotspot, weight, block->time_ns, ending);
	if (ending->is_free) {
		stats->frees = add_capped(stats->frees, weight.count);
		count_free(stats, hotspot, weight.count, ending->temporary);
	} else if (!stats->blind) {
		stats->replaced++;
	}
	block_release(&memory->blocks, index);
}

void end_mappings(struct memory *memory, struct domain_stats *stats, struct mapping *list,
		  const struct ending *ending)
{
	struct hotspot *last = NULL;
	uint64_t heaviest = 0;

	while (list) {
		struct hotspot *hotspot = hotspot_at(memory, list->hotspot);

		end_one(memory, stats, hotspot, memory_weigh_mapping(list), list->time_ns, ending);
		if (ending->is_free && hotspot != last)
			count_free(stats, hotspot, list->units, ending->temporary);
		if (list->units > heaviest)
			heaviest = list->units;
		last = hotspot;
		list = mapping_release(memory, list);
	}
	if (ending->is_free)
		stats->frees = add_capped(stats->frees, heaviest);
}

int take_mappings(struct memory *memory, struct domain_stats *stats, uint64_t address,
		  uint64_t size_bytes, uint64_t time_ns, struct mapping **list)
{
	int err = mapped_take(memory, &stats->mappings, address, address + size_bytes, list);

	for (const struct mapping *m = *list; m; m = m->next) {
		if (m->rests)
			live_add(memory, stats, hotspot_at(memory, m->hotspot), m->rests * m->units,
				 0, time_ns);
	}
	if (err != -ENOSPC)
		return err;
	/* what had no room goes too early: less lives here than there */
	stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

void finish_realloc(struct memory *memory, struct domain_stats *stats, struct memory_thread *thread,
		    uint64_t time_ns)
{
	struct ending ending = {time_ns, true, thread->realloc_temporary};

	switch (thread->pending_realloc) {
	case REALLOC_NONE:
		break;
	case REALLOC_UNKNOWN:
		domain_stats_note_unknown(memory, stats, time_ns);
		break;
	case REALLOC_BLOCK:
		end_block(memory, stats, thread->realloc_block, &ending);
		break;
	case REALLOC_MAPPINGS:
		end_mappings(memory, stats, thread->realloc_mappings, &ending);
		break;
	}
	thread->pending_realloc = REALLOC_NONE;
}

/* Where it was. What has come there meanwhile was there later: its free is lost. */
static int restore_block(struct memory *memory, struct domain_stats *stats, uint32_t index,
			 uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	uint64_t address = block_at(&memory->blocks, index)->address;
	uint32_t other = block_take(&memory->blocks, &stats->blocks, address);

	if (other)
		end_block(memory, stats, other, &lost);
	return block_insert(&memory->blocks, &stats->blocks, index);
}

static int restore_mapping(struct memory *memory, struct domain_stats *stats,
			   const struct mapping *mapping, uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	struct hotspot *hotspot = hotspot_at(memory, mapping->hotspot);
	struct weight weight = memory_weigh_mapping(mapping);
	struct mapping *others;
	int err = take_mappings(memory, stats, mapping->from, mapping->to - mapping->from, time_ns,
				&others);

	end_mappings(memory, stats, others, &lost);
	if (err)
		return err;
	err = mapped_add(memory, &stats->mappings, mapping);
	if (err != -ENOSPC)
		return err;
	live_sub(memory, stats, hotspot, weight.count, weight.bytes, time_ns);
	stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

int undo_realloc(struct memory *memory, struct domain_stats *stats, struct memory_thread *thread,
		 uint64_t time_ns)
{
	enum pending_realloc pending_realloc = thread->pending_realloc;
	int err = 0;

	thread->pending_realloc = REALLOC_NONE;
	if (pending_realloc == REALLOC_BLOCK)
		return restore_block(memory, stats, thread->realloc_block, time_ns);
	while (pending_realloc == REALLOC_MAPPINGS && thread->realloc_mappings) {
		if (!err)
			err = restore_mapping(memory, stats, thread->realloc_mappings, time_ns);
		thread->realloc_mappings = mapping_release(memory, thread->realloc_mappings);
	}
	return err;
}
