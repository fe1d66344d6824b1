// SPDX-License-Identifier: BSD-2-Clause
/*
 * Allocations and frees. Where records are missing or ambiguous:
 *
 * - An allocation at the address of a live block: that block's free was lost (`replaced`), and is
 *   no free in the totals, where the overflow sums counts it. With REPLACES it is a free.
 * - A mapping over older ones: that is how a fixed mapping frees them; one free, as for munmap.
 * - munmap is one free however many mappings it touched, and one for each hotspot that it touched.
 *   What it leaves of a mapping goes on as mappings of their own, each a live block.
 * - A reallocation whose end is missing: the thread's next record in the domain shows that it is
 *   over. It has freed the block, for most succeed; the lost allocation is in the overflow sums.
 *   One that never comes back is still running: the block lives.
 * - An end without a beginning: the allocation counts, the free is in the overflow sums.
 * - Where frees are inferred (PERFX_MEMORY_FREES_INFERRED), blocks lie among the mappings: what an
 *   allocation overlaps has been freed before it, each block by a free of its own, at a time that
 *   is not known. Until then it counts as live: what lives is an upper bound.
 * - Temporary: only where every call is seen, between two calls under the same exact mode.
 * - BEFORE: it has been there since before the capture begins. It is held from there on.
 */
#include "aggregate/memory.h"

#include "aggregate/process.h"

#include <math.h>

/* How a block ends. */
struct ending {
	uint64_t time_ns;
	bool is_free; /* otherwise its free was lost */
	bool temporary;
};

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

static struct weight memory_weigh_block(const struct domain_stats *stats, const struct block *block)
{
	return memory_weigh(block->size_bytes,
			    block->rate ? stats->recorded->modes[block->rate - 1].sample_bytes : 0);
}

static struct weight memory_weigh_mapping(const struct mapping *mapping)
{
	return (struct weight){mapping->units, (mapping->to - mapping->from) * mapping->units};
}

static void end_one(struct domain_stats *stats, struct hotspot *hotspot, struct weight weight,
		    uint64_t since_ns, const struct ending *ending)
{
	uint64_t lived_ns = sub_capped(ending->time_ns, since_ns);

	live_sub(stats, hotspot, weight, ending->time_ns);
	if (!ending->is_free)
		return;
	add_up(&hotspot->freed_bytes, weight.bytes);
	add_up(&hotspot->ended, weight.count);
	hotspot->lifetimes += (u128)lived_ns * weight.count;
}

static void count_free(struct domain_stats *stats, struct hotspot *hotspot, uint64_t units,
		       bool temporary)
{
	add_up(&hotspot->frees, units);
	if (!temporary)
		return;
	add_up(&hotspot->temporary, units);
	add_up(&stats->temporary, units);
}

static void end_block(struct domain_stats *stats, uint32_t index, const struct ending *ending)
{
	const struct block *block = block_at(&stats->memory->blocks, index);
	struct hotspot *hotspot = hotspot_at(stats->memory, block->hotspot);
	struct weight weight = memory_weigh_block(stats, block);

	end_one(stats, hotspot, weight, block->time_ns, ending);
	if (ending->is_free) {
		add_up(&stats->frees, weight.count);
		count_free(stats, hotspot, weight.count, ending->temporary);
	} else if (!stats->blind) {
		stats->replaced++;
	}
	block_release(&stats->memory->blocks, index);
}

static void end_mappings(struct domain_stats *stats, struct mapping *list,
			 const struct ending *ending)
{
	struct hotspot *last = NULL;
	uint64_t heaviest = 0;

	while (list) {
		struct hotspot *hotspot = hotspot_at(stats->memory, list->hotspot);

		end_one(stats, hotspot, memory_weigh_mapping(list), list->time_ns, ending);
		if (ending->is_free && hotspot != last)
			count_free(stats, hotspot, list->units, ending->temporary);
		heaviest = max_u64(heaviest, list->units);
		last = hotspot;
		list = mapping_release(stats->memory, list);
	}
	if (ending->is_free)
		add_up(&stats->frees, heaviest);
}

/* Takes [address, address + size) out of the mappings; each part that stays is a block of its own.
 * 0 or -ENOMEM; the list is always valid. */
static int remove_mappings(struct domain_stats *stats, uint64_t address, uint64_t size_bytes,
			   uint64_t time_ns, struct mapping **list)
{
	int err =
		mapped_remove(stats->memory, &stats->mappings, address, address + size_bytes, list);

	for (const struct mapping *m = *list; m; m = m->next) {
		if (m->rests)
			live_add(stats, hotspot_at(stats->memory, m->hotspot),
				 (struct weight){m->rests * m->units, 0}, time_ns);
	}
	if (err != -ENOSPC)
		return err;
	/* mappings without room end early, so live bytes are a lower bound */
	stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

/* The thread's reallocation, if any, has freed its block. */
static void finish_realloc(struct domain_stats *stats, struct memory_thread *thread,
			   uint64_t time_ns)
{
	struct ending ending = {time_ns, true, thread->realloc_temporary};

	switch (thread->pending_realloc) {
	case REALLOC_NONE:
		break;
	case REALLOC_UNKNOWN:
		domain_stats_note_unknown(stats, time_ns);
		break;
	case REALLOC_BLOCK:
		end_block(stats, thread->realloc_block, &ending);
		break;
	case REALLOC_MAPPINGS:
		end_mappings(stats, thread->realloc_mappings, &ending);
		break;
	}
	thread->pending_realloc = REALLOC_NONE;
}

/* Puts a block back. The free of a block that has come to its place meanwhile is lost. */
static int restore_block(struct domain_stats *stats, uint32_t index, uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	uint64_t address = block_at(&stats->memory->blocks, index)->address;
	uint32_t other = block_remove(&stats->memory->blocks, &stats->blocks, address);

	if (other)
		end_block(stats, other, &lost);
	return block_insert(&stats->memory->blocks, &stats->blocks, index);
}

static int restore_mapping(struct domain_stats *stats, const struct mapping *mapping,
			   uint64_t time_ns)
{
	const struct ending lost = {.time_ns = time_ns};
	struct hotspot *hotspot = hotspot_at(stats->memory, mapping->hotspot);
	struct weight weight = memory_weigh_mapping(mapping);
	struct mapping *others;
	int err = remove_mappings(stats, mapping->from, mapping->to - mapping->from, time_ns,
				  &others);

	end_mappings(stats, others, &lost);
	if (err)
		return err;
	err = mapped_add(stats->memory, &stats->mappings, mapping);
	if (err != -ENOSPC)
		return err;
	live_sub(stats, hotspot, weight, time_ns);
	stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	return 0;
}

/* The reallocation failed: its block lives on. 0 or -ENOMEM. */
static int undo_realloc(struct domain_stats *stats, struct memory_thread *thread, uint64_t time_ns)
{
	enum pending_realloc pending_realloc = thread->pending_realloc;
	int err = 0;

	thread->pending_realloc = REALLOC_NONE;
	if (pending_realloc == REALLOC_BLOCK)
		return restore_block(stats, thread->realloc_block, time_ns);
	while (pending_realloc == REALLOC_MAPPINGS && thread->realloc_mappings) {
		if (!err)
			err = restore_mapping(stats, thread->realloc_mappings, time_ns);
		thread->realloc_mappings = mapping_release(stats->memory, thread->realloc_mappings);
	}
	return err;
}

static bool infers_frees(const struct domain_stats *stats)
{
	return mode_infers_frees(memory_mode_now(stats->recorded));
}

/* A number that changes with the mode; 0: not every call of a thread is seen. */
static uint32_t exact_mode(const struct memory_domain *domain)
{
	const struct memory_mode *mode = memory_mode_now(domain);
	bool is_exact = mode->level == PERFX_MEMORY_EXACT && mode->on_ns == mode->period_ns;

	return is_exact ? (uint32_t)domain->modes_count + 1 : 0;
}

/* Did this thread's last call allocate the block? */
static bool was_last(const struct domain_stats *stats, const struct memory_thread *thread,
		     uint64_t address, uint64_t time_ns)
{
	return thread->last_mode && thread->last_address == address &&
	       thread->last_time_ns == time_ns && thread->last_mode == exact_mode(stats->recorded);
}

/* The clock begins with the capture; without its beginning, with the first record. */
static void start_clock(struct aggregate *a, uint64_t time_ns)
{
	struct memory_clock *clock = &a->memory->clock;

	if (clock->started)
		return;
	clock->started = true;
	clock->start_ns = capture_host(a) ? capture_host(a)->start_ns : time_ns;
}

struct arrival {
	const struct perfx_allocation *record;
	struct hotspot *hotspot;
	struct weight weight;
	uint64_t sample_bytes; /* 0: exact */
	uint32_t rate;	       /* see struct block */
};

static int place_block(struct domain_stats *stats, const struct arrival *arrival)
{
	const struct perfx_allocation *r = arrival->record;
	uint32_t index = block_new(&stats->memory->blocks);

	if (!index)
		return -errno;
	*block_at(&stats->memory->blocks, index) = (struct block){
		.address = r->address,
		.size_bytes = r->size_bytes & MEMORY_BYTES_MAX,
		.rate = arrival->rate & UINT16_MAX,
		.time_ns = r->time_ns,
		.hotspot = arrival->hotspot->index,
	};
	return block_insert(&stats->memory->blocks, &stats->blocks, index);
}

/* Blocks that have a byte of these. Returns whether there were any. */
static bool end_overlapped(struct domain_stats *stats, uint64_t address, uint64_t size_bytes,
			   uint64_t time_ns)
{
	const struct ending ending = {.time_ns = time_ns, .is_free = true};
	struct mapping *next, *list;
	bool any;

	list = mapped_remove_whole(&stats->mappings, address, address + size_bytes);
	any = list;
	for (; list; list = next) {
		next = list->next;
		list->next = NULL; /* one free each */
		end_mappings(stats, list, &ending);
	}
	return any;
}

/* From here on frees are inferred: a block is found by each of its bytes, so those of the table
 * become mappings, in units of their own. 0 or -ENOMEM. */
static int begin_to_infer(struct domain_stats *stats, uint64_t time_ns)
{
	for (size_t i = 0; i < stats->blocks.heads_count; i++) {
		for (uint32_t index = stats->blocks.heads[i]; index;) {
			const struct block *block = block_at(&stats->memory->blocks, index);
			struct hotspot *hotspot = hotspot_at(stats->memory, block->hotspot);
			struct weight weight = memory_weigh_block(stats, block);
			const struct mapping mapping = {
				.from = block->address,
				.to = block->address + block->size_bytes,
				.time_ns = block->time_ns,
				.units = weight.count,
				.hotspot = block->hotspot,
			};
			int err;

			index = block->next;
			live_sub(stats, hotspot, weight, time_ns);
			if (!block->size_bytes)
				continue;
			end_overlapped(stats, mapping.from, block->size_bytes, time_ns);
			err = mapped_add(stats->memory, &stats->mappings, &mapping);
			if (err == -ENOMEM)
				return err;
			if (err)
				stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
			else
				live_add(stats, hotspot, memory_weigh_mapping(&mapping), time_ns);
		}
	}
	block_table_clear(&stats->memory->blocks, &stats->blocks);
	return 0;
}

/* Ends the blocks at the address of a new one. */
static int clear_place(struct domain_stats *stats, const struct perfx_allocation *r)
{
	struct ending ending = {.time_ns = r->time_ns,
				.is_free = r->flags & PERFX_ALLOCATION_REPLACES};
	struct mapping *mappings;
	uint32_t index;
	int err;

	if (infers_frees(stats)) {
		/* its memory was free: blocks at this address have been freed */
		err = stats->blocks.count ? begin_to_infer(stats, r->time_ns) : 0;
		domain_stats_infer_frees(stats);
		end_overlapped(stats, r->address, r->size_bytes, r->time_ns);
		return err;
	}
	if (!(r->flags & PERFX_ALLOCATION_MAPPED)) {
		index = block_remove(&stats->memory->blocks, &stats->blocks, r->address);
		if (index)
			end_block(stats, index, &ending);
		return 0;
	}
	err = remove_mappings(stats, r->address, r->size_bytes, r->time_ns, &mappings);
	ending.is_free = true;
	end_mappings(stats, mappings, &ending);
	return err;
}

static int add_arrival(struct aggregate *a, struct domain_stats *stats, struct arrival *arrival,
		       uint64_t time_ns)
{
	const struct perfx_allocation *r = arrival->record;
	int err;

	/* no allocation will overlap it */
	if (!r->size_bytes && infers_frees(stats))
		return 0;
	if (r->flags & PERFX_ALLOCATION_MAPPED || infers_frees(stats)) {
		err = mapped_add(stats->memory, &stats->mappings,
				 &(struct mapping){.from = r->address,
						   .to = r->address + r->size_bytes,
						   .time_ns = r->time_ns,
						   .units = arrival->weight.count,
						   .hotspot = arrival->hotspot->index});
		arrival->weight.bytes = r->size_bytes * arrival->weight.count;
	} else {
		err = place_block(stats, arrival);
		if (err == -ENOSPC && memory_retire(a))
			err = place_block(stats, arrival);
	}
	if (err == -ENOSPC) {
		stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
		return 0;
	}
	if (!err)
		live_add(stats, arrival->hotspot, arrival->weight, time_ns);
	return err;
}

static void count_allocation(struct domain_stats *stats, struct arrival *arrival)
{
	uint64_t size_bytes = arrival->record->size_bytes, sample_bytes = arrival->sample_bytes;
	/* see PROFILE_SIZES */
	unsigned class = size_bytes > 1 ? 65 - (unsigned)__builtin_clzll(size_bytes - 1)
					: (unsigned)size_bytes;

	if (sample_bytes) {
		tally_sampled(&stats->tally, size_bytes, sample_bytes);
		tally_sampled(&arrival->hotspot->tally, size_bytes, sample_bytes);
	} else {
		tally_exact(&stats->tally, size_bytes);
		tally_exact(&arrival->hotspot->tally, size_bytes);
	}
	add_up(&stats->sizes[min_u64(class, PROFILE_SIZES - 1)], arrival->weight.count);
}

static bool allocation_ok(const struct perfx_allocation *r)
{
	if (r->size_bytes > MEMORY_BYTES_MAX || r->context > AGGREGATE_CONTEXTS_MAX ||
	    r->allocator > AGGREGATE_ALLOCATORS_MAX)
		return false;
	/* nothing of size 0 can be in a sample, or be mapped */
	if (r->flags & (PERFX_ALLOCATION_SAMPLED | PERFX_ALLOCATION_MAPPED) && !r->size_bytes)
		return false;
	return r->address <= UINT64_MAX - r->size_bytes;
}

static int allocate(struct aggregate *a, struct domain_stats *stats, struct memory_thread *thread,
		    struct arrival *arrival)
{
	const struct perfx_allocation *r = arrival->record;
	const struct memory_domain *domain = stats->recorded;
	const struct memory_mode *mode = memory_mode_now(domain);
	int err;

	if (mode_is_blind(mode))
		stats->blind = true;
	/* of RESIZED its beginning; otherwise of one whose end is lost */
	finish_realloc(stats, thread, r->time_ns);
	err = clear_place(stats, r);
	if (err)
		return err;
	count_allocation(stats, arrival);
	thread->last_mode = r->flags & PERFX_ALLOCATION_SAMPLED ? 0 : exact_mode(domain);
	thread->last_address = r->address;
	thread->last_time_ns = r->time_ns;
	/* frees do not come: it would be there for ever */
	return mode->level == PERFX_MEMORY_SAMPLED_IN ? 0
						      : add_arrival(a, stats, arrival, r->time_ns);
}

static int add_allocation(struct aggregate *a, const struct perfx_allocation *r)
{
	struct arrival arrival = {.record = r};
	struct memory_thread *thread;
	struct domain_stats *stats;

	if (!allocation_ok(r))
		return undecoded(a);
	start_clock(a, r->time_ns);
	stats = domain_stats_get(a, r->process, r->domain);
	if (!stats)
		return rejected(a);
	if (r->flags & PERFX_ALLOCATION_SAMPLED) {
		arrival.rate = stats->recorded->sampling_mode;
		if (!arrival.rate)
			return undecoded(a);
		arrival.sample_bytes = stats->recorded->modes[arrival.rate - 1].sample_bytes;
	}
	arrival.weight = memory_weigh(r->size_bytes, arrival.sample_bytes);
	if (arrival.weight.bytes > MEMORY_LIVE_MAX - stats->live_bytes ||
	    arrival.weight.count > MEMORY_LIVE_MAX - stats->live_count)
		return undecoded(a);
	if (r->flags & PERFX_ALLOCATION_BEFORE) {
		/* no allocation, and nothing that happens at a time */
		arrival.hotspot = hotspot_of_allocation(a, stats, r);
		if (!arrival.hotspot || clear_place(stats, r))
			return -ENOMEM;
		return add_arrival(a, stats, &arrival, a->memory->clock.start_ns);
	}
	if (domain_stats_tick(stats, r->time_ns))
		return -ENOMEM;
	thread = domain_stats_thread(stats, r->tid);
	if (!thread)
		return rejected(a);
	arrival.hotspot = hotspot_of_allocation(a, stats, r);
	if (!arrival.hotspot)
		return -ENOMEM;
	stats->records_count++;
	a->memory->records_count++;
	saw_time(a, r->time_ns);
	return allocate(a, stats, thread, &arrival);
}

/* A block's free. */
static void free_block(struct domain_stats *stats, struct memory_thread *thread,
		       const struct perfx_free *r)
{
	uint32_t index = block_remove(&stats->memory->blocks, &stats->blocks, r->address);
	const struct block *block;
	struct ending ending = {.time_ns = r->time_ns, .is_free = true};

	if (!index && infers_frees(stats)) {
		/* Its probe was being removed, or shows allocations as well. Of what is
		 * reallocated, the allocation shows whether it has moved. */
		if (!(r->flags & PERFX_FREE_REALLOC_BEGIN) &&
		    !end_overlapped(stats, r->address, 1, r->time_ns))
			domain_stats_note_unknown(stats, r->time_ns);
		return;
	}
	if (!index && r->flags & PERFX_FREE_REALLOC_BEGIN) {
		thread->pending_realloc = REALLOC_UNKNOWN;
		return;
	}
	if (!index) {
		domain_stats_note_unknown(stats, r->time_ns);
		return;
	}
	block = block_at(&stats->memory->blocks, index);
	ending.temporary = was_last(stats, thread, block->address, block->time_ns);
	if (r->flags & PERFX_FREE_REALLOC_BEGIN) {
		thread->pending_realloc = REALLOC_BLOCK;
		thread->realloc_block = index;
		thread->realloc_temporary = ending.temporary;
	} else {
		end_block(stats, index, &ending);
	}
}

static int free_mapped(struct domain_stats *stats, struct memory_thread *thread,
		       const struct perfx_free *r)
{
	struct ending ending = {.time_ns = r->time_ns, .is_free = true};
	struct mapping *list;
	int err;

	err = remove_mappings(stats, r->address, r->size_bytes, r->time_ns, &list);
	/* one mapping, all of it */
	ending.temporary = list && !list->next && !list->rests &&
			   was_last(stats, thread, list->from, list->time_ns);
	if (r->flags & PERFX_FREE_REALLOC_BEGIN) {
		thread->pending_realloc = list ? REALLOC_MAPPINGS : REALLOC_UNKNOWN;
		thread->realloc_mappings = list;
		thread->realloc_temporary = ending.temporary;
	} else if (list) {
		end_mappings(stats, list, &ending);
	}
	/* an unknown mapping is a file, a stack, or a part of a large block that `free` unmaps */
	return err;
}

static int free_one(struct domain_stats *stats, struct memory_thread *thread,
		    const struct perfx_free *r)
{
	int err = 0;

	if (r->flags & PERFX_FREE_RESTORED) {
		err = undo_realloc(stats, thread, r->time_ns);
	} else {
		finish_realloc(stats, thread, r->time_ns);
		if (r->flags & PERFX_FREE_MAPPED && !(r->flags & PERFX_FREE_SETTLED))
			err = free_mapped(stats, thread, r);
		else if (!(r->flags & PERFX_FREE_SETTLED))
			free_block(stats, thread, r);
	}
	thread->last_mode = 0;
	return err;
}

static bool free_ok(const struct perfx_free *r)
{
	uint8_t step =
		r->flags & (PERFX_FREE_REALLOC_BEGIN | PERFX_FREE_RESTORED | PERFX_FREE_SETTLED);

	/* one step of a reallocation at a time */
	if (step & (step - 1))
		return false;
	/* the ends of one name no range of their own */
	if (!(r->flags & PERFX_FREE_MAPPED) || step > PERFX_FREE_REALLOC_BEGIN)
		return true;
	return r->size_bytes && r->size_bytes <= MEMORY_BYTES_MAX &&
	       r->address <= UINT64_MAX - r->size_bytes;
}

static int add_free(struct aggregate *a, const struct perfx_free *r)
{
	struct memory_thread *thread;
	struct domain_stats *stats;

	if (!free_ok(r))
		return undecoded(a);
	start_clock(a, r->time_ns);
	stats = domain_stats_get(a, r->process, r->domain);
	if (!stats)
		return rejected(a);
	if (domain_stats_tick(stats, r->time_ns))
		return -ENOMEM;
	thread = domain_stats_thread(stats, r->tid);
	if (!thread)
		return rejected(a);
	stats->records_count++;
	a->memory->records_count++;
	saw_time(a, r->time_ns);
	return free_one(stats, thread, r);
}

/* An allocation was hit at its entry and its end, a free once. */
static int handle_allocation(struct aggregate *a, const struct event *event)
{
	const struct perfx_allocation *r = &event->allocation;

	return add_allocation(a, r) ?: process_hits(a, r->process, r->tid, 2);
}

static int handle_free(struct aggregate *a, const struct event *event)
{
	return add_free(a, &event->free)
		       ?: process_hits(a, event->free.process, event->free.tid, 1);
}

static int handle_allocator(struct aggregate *a, const struct event *event)
{
	const struct perfx_allocator *record = &event->allocator;
	struct memory *memory = a->memory;
	struct memory_allocator *allocator;

	if (record->allocator == 0 || record->allocator > AGGREGATE_ALLOCATORS_MAX)
		return undecoded(a);
	if (grow_array(&memory->allocators, &memory->allocators_capacity,
		       (size_t)record->allocator + 1, sizeof(*memory->allocators)))
		return -ENOMEM;
	allocator = &memory->allocators[record->allocator];
	if (allocator->name) {
		bool same = !strcmp(allocator->name, event->strings[0]) &&
			    !strcmp(allocator->module, event->strings[1]) &&
			    allocator->domain == record->domain;

		return same ? 0 : undecoded(a);
	}
	allocator->domain = record->domain;
	allocator->module = intern(a, event->strings[1]);
	allocator->name = intern(a, event->strings[0]);
	memory->has_allocator[record->domain] = true;
	return allocator->name && allocator->module ? 0 : -ENOMEM;
}

const struct memory_allocator *memory_allocator_of(const struct memory *memory, uint16_t id)
{
	static const struct memory_allocator unknown = {.name = "", .module = ""};

	if (id >= memory->allocators_capacity || !memory->allocators[id].name)
		return &unknown;
	return &memory->allocators[id];
}

static int handle_memory_mode(struct aggregate *a, const struct event *event)
{
	const struct perfx_memory_mode *r = &event->memory_mode;
	struct memory_domain *domain = memory_domain_get(a->memory, r->merged, r->domain);
	struct memory_mode *mode;
	bool samples = PERFX_MEMORY_IS_SAMPLED(r->level);

	if (!domain)
		return rejected(a);
	if (domain->modes_count >= AGGREGATE_MODES_MAX ||
	    (samples && (!r->sample_bytes || r->sample_bytes > SAMPLING_BYTES_MAX)))
		return undecoded(a);
	if (GROW_BY_ONE(domain->modes))
		return -ENOMEM;
	mode = &domain->modes[domain->modes_count++];
	*mode = (struct memory_mode){
		.time_ns = r->time_ns,
		.sample_bytes = samples ? r->sample_bytes : 0,
		.on_ns = r->on_ns,
		.period_ns = r->period_ns,
		.level = r->level,
	};
	if (mode_is_blind(mode))
		domain->blind_count++;
	if (samples)
		domain->sampling_mode = (uint32_t)domain->modes_count;
	saw_time(a, r->time_ns);
	return 0;
}

static int handle_overflow_memory(struct aggregate *a, const struct event *event)
{
	const struct perfx_overflow_memory *r = &event->overflow_memory;
	struct domain_stats *stats = domain_stats_get(a, r->process, r->domain);

	if (!stats)
		return rejected(a);
	add_up(&stats->lost_allocs, r->allocs_count);
	add_up(&stats->lost_bytes, r->allocated_bytes);
	add_up(&stats->lost_frees, r->frees_count);
	if (r->allocs_count)
		stats->bound |= PROFILE_MEMORY_LOST_ALLOCS;
	if (r->frees_count)
		stats->bound |= PROFILE_MEMORY_LOST_FREES;
	stats->bound |= r->before & (PERFX_BEFORE_LOST_ALLOCS | PERFX_BEFORE_LOST_FREES);
	if (r->before & PERFX_BEFORE_BLIND)
		stats->blind = true;
	return 0;
}

static void memory_clear(void *state)
{
	struct memory *memory = state;

	FOR_EACH (stats, memory->stats)
		domain_stats__free(*stats);
	free(memory->stats);
	for (size_t i = 0; i < memory->domains_capacity; i++) {
		for (int domain = 0; memory->domains[i] && domain < PERFX_DOMAINS; domain++)
			free(memory->domains[i][domain].modes);
		free(memory->domains[i]);
	}
	free(memory->domains);
	chunks_clear(&memory->blocks.chunks);
	chunks_clear(&memory->hotspots);
	free(memory->allocators);
}

const struct part part_memory = {
	PART_STATE(memory),
	.add = {TAKES(ALLOCATION, allocation), TAKES(FREE, free), TAKES(ALLOCATOR, allocator),
		TAKES(MEMORY_MODE, memory_mode), TAKES(OVERFLOW_MEMORY, overflow_memory)},
	.finish = memory_fill,
	.clear = memory_clear,
};
