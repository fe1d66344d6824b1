// SPDX-License-Identifier: BSD-2-Clause
/* Statistics of one memory domain of one process. Their threads, the points of their series, and
 * how they were recorded meanwhile. */
#include "aggregate/memory.h"

#include "aggregate/process.h"

#include <stdlib.h>

/* context: 21 bits, allocator: 11 */
_Static_assert(AGGREGATE_CONTEXTS_MAX < 1u << 21 && AGGREGATE_ALLOCATORS_MAX < 1u << 11,
	       "a hotspot's key has 64 bits");

static uint64_t key_of(uint32_t stack, uint32_t context, uint16_t allocator)
{
	return (uint64_t)stack << 32 | context << 11 | allocator;
}

/* NULL: memory is out. */
static struct hotspot *hotspot_get(struct aggregate *a, struct domain_stats *stats, uint32_t stack,
				   uint32_t context, uint16_t allocator)
{
	struct memory *memory = a->memory;
	uint64_t key = key_of(stack, context, allocator);
	uint32_t index = map64_get(&stats->hotspot_ids, key);
	struct hotspot *hotspot;

	if (index != MAP64_NONE)
		return hotspot_at(memory, index);
	/* no more of them: the rest is one, of which nothing else is known */
	if (memory->hotspots.count >= AGGREGATE_HOTSPOTS_MAX && key != 0)
		return hotspot_get(a, stats, 0, 0, 0);
	hotspot = chunks_add(&memory->hotspots, sizeof(*hotspot));
	index = (uint32_t)memory->hotspots.count - 1;
	if (!hotspot || map64_put(&stats->hotspot_ids, key, index))
		return NULL;
	hotspot->index = index;
	hotspot->stack = stack;
	hotspot->context = context;
	hotspot->allocator = allocator;
	if (stats->last_hotspot)
		stats->last_hotspot->next = hotspot;
	else
		stats->hotspots = hotspot;
	stats->last_hotspot = hotspot;
	stats->hotspots_count++;
	return hotspot;
}

/*
 * Where following all stacks costs too much, one in so many is followed. An allocation whose own
 * stack was left out is taken for one of the same calling context, caller, allocator and size: the
 * one of these that was followed last, so that each of several sites gets its share. Those count
 * that were followed while all were, but of the heap, which has a million blocks a second to look
 * up. Where none was followed before, the first that is gives its stack to all of them.
 */

static uint64_t alike_key(const struct aggregate *a, const struct stack *stack,
			  const struct perfx_allocation *r)
{
	uint64_t caller = stack->frames_count ? *stack_addresses(a->stacks, stack) : 0;

	return (r->size_bytes * 0x9e3779b97f4a7c15u) ^ (caller << 20) ^
	       key_of(0, r->context, r->allocator);
}

static bool is_left_out(const struct stack *stack)
{
	return PERFX_STACK_END(stack->flags) == PERFX_STACK_END_LEFT_OUT;
}

/* Returns the stack of the allocation `r`, or that of an allocation which is alike. *stood_in is
 * the left-out stack that such allocations had until now; 0: they had none. */
static uint32_t stack_or_alike(const struct aggregate *a, struct alike *alike,
			       const struct perfx_allocation *r, uint32_t *stood_in)
{
	const struct stack *stack, *before;
	uint32_t known;
	uint64_t key;

	*stood_in = 0;
	if (!stacks_some_left_out(a->stacks) && r->domain == PERFX_DOMAIN_HOST)
		return r->stack;
	stack = stack_find(a->stacks, r->process, r->stack);
	if (!stack)
		return r->stack;
	key = alike_key(a, stack, r);
	known = map64_get(&alike->ids, key);
	if (known == MAP64_NONE) {
		if (alike->count < AGGREGATE_HOTSPOTS_MAX &&
		    !grow_array(&alike->stacks, &alike->capacity, alike->count + 1,
				sizeof(*alike->stacks)) &&
		    !map64_put(&alike->ids, key, (uint32_t)alike->count))
			alike->stacks[alike->count++] = r->stack;
		return r->stack;
	}
	if (is_left_out(stack))
		return alike->stacks[known];
	before = stack_find(a->stacks, r->process, alike->stacks[known]);
	if (before && is_left_out(before))
		*stood_in = alike->stacks[known];
	alike->stacks[known] = r->stack;
	return r->stack;
}

/* Gives the hotspot of allocations like `r`, whose stacks were left out, the stack of `r`; unless
 * it has some of other sizes, which may come from elsewhere. */
static void give_stack(struct aggregate *a, struct domain_stats *stats, uint32_t left_out,
		       const struct perfx_allocation *r)
{
	uint64_t from = key_of(left_out, r->context, r->allocator);
	uint64_t to = key_of(r->stack, r->context, r->allocator);
	uint32_t index = map64_get(&stats->hotspot_ids, from);
	struct hotspot *hotspot;

	if (index == MAP64_NONE || map64_get(&stats->hotspot_ids, to) != MAP64_NONE)
		return;
	hotspot = hotspot_at(a->memory, index);
	if (hotspot->tally.sampled_count ||
	    hotspot->tally.exact_bytes != hotspot->tally.exact_count * r->size_bytes ||
	    map64_put(&stats->hotspot_ids, to, index))
		return;
	map64_remove(&stats->hotspot_ids, from);
	hotspot->stack = r->stack;
	hotspot->left_out_count = hotspot->tally.exact_count;
}

struct hotspot *hotspot_of_allocation(struct aggregate *a, struct domain_stats *stats,
				      const struct perfx_allocation *r)
{
	uint32_t stood_in, stack = stack_or_alike(a, &stats->alike, r, &stood_in);
	struct hotspot *hotspot;

	if (stood_in)
		give_stack(a, stats, stood_in, r);
	hotspot = hotspot_get(a, stats, stack, r->context, r->allocator);
	if (hotspot)
		hotspot->left_out_count += stack != r->stack;
	return hotspot;
}

uint32_t alloc_window_at(struct memory *memory, uint64_t time_ns)
{
	struct memory_clock *clock = &memory->clock;
	uint64_t since, length;

	if (time_ns - clock->from_ns < clock->to_ns - clock->from_ns)
		return clock->alloc_window;
	since = sub_capped(time_ns, clock->start_ns);
	while (since / (ALLOC_WINDOW_NS << clock->level) >= PROFILE_ALLOC_WINDOWS)
		clock->level++;
	length = ALLOC_WINDOW_NS << clock->level;
	clock->alloc_window = (uint32_t)(since / length);
	clock->from_ns = clock->start_ns + clock->alloc_window * length;
	clock->to_ns = add_capped(clock->from_ns, length);
	return clock->alloc_window;
}

void hotspot_touch(const struct domain_stats *stats, struct hotspot *hotspot, uint64_t time_ns)
{
	uint32_t alloc_window = alloc_window_at(stats->memory, time_ns);

	if (hotspot->peak_number != stats->peak_number) {
		hotspot->peak_number = stats->peak_number;
		hotspot->live_at_peak = hotspot->live_bytes;
	}
	/* two windows become one, which ends with the live bytes of the second */
	for (; hotspot->level < stats->memory->clock.level; hotspot->level++) {
		hotspot->alloc_window /= 2;
		for (uint32_t i = 0; i < hotspot->alloc_window; i++)
			hotspot->alloc_windows[i] = hotspot->alloc_windows[2 * i + 1];
	}
	while (hotspot->alloc_window < alloc_window)
		hotspot->alloc_windows[hotspot->alloc_window++] = hotspot->live_bytes;
}

void live_add(struct domain_stats *stats, struct hotspot *hotspot, struct weight weight,
	      uint64_t time_ns)
{
	hotspot_touch(stats, hotspot, time_ns);
	hotspot->live_count += weight.count;
	hotspot->live_bytes += weight.bytes;
	hotspot->peak_bytes = max_u64(hotspot->peak_bytes, hotspot->live_bytes);
	stats->live_count += weight.count;
	stats->live_bytes += weight.bytes;
	if (stats->live_bytes > stats->peak_bytes) {
		stats->peak_bytes = stats->live_bytes;
		stats->peak_ns = time_ns;
		stats->peak_number++;
	}
}

void live_sub(struct domain_stats *stats, struct hotspot *hotspot, struct weight weight,
	      uint64_t time_ns)
{
	hotspot_touch(stats, hotspot, time_ns);
	hotspot->live_count -= weight.count;
	hotspot->live_bytes -= weight.bytes;
	stats->live_count -= weight.count;
	stats->live_bytes -= weight.bytes;
}

struct memory_domain *memory_domain_get(struct memory *memory, uint32_t merged,
					enum perfx_domain domain)
{
	errno = ERANGE;
	if (merged > PERFX_MERGED_MAX)
		return NULL;
	errno = ENOMEM;
	if (grow_array(&memory->domains, &memory->domains_capacity, (size_t)merged + 1,
		       sizeof(*memory->domains)))
		return NULL;
	/* each by itself: statistics point to them */
	if (!memory->domains[merged])
		memory->domains[merged] = calloc(PERFX_DOMAINS, sizeof(**memory->domains));
	return memory->domains[merged] ? &memory->domains[merged][domain] : NULL;
}

const struct memory_domain *memory_domain_of(const struct memory *memory, uint32_t merged,
					     enum perfx_domain domain)
{
	static const struct memory_domain exact;

	return merged < memory->domains_capacity && memory->domains[merged]
		       ? &memory->domains[merged][domain]
		       : &exact;
}

struct domain_stats *domain_stats_get(struct aggregate *a, uint32_t process,
				      enum perfx_domain domain)
{
	struct memory *memory = a->memory;
	struct domain_stats *stats = domain_stats_find(memory, process, domain), **slot;
	const struct memory_domain *recorded;
	const struct process *proc;

	if (stats)
		return stats;
	proc = process_get(a, process);
	recorded = proc ? memory_domain_get(memory, proc->merged, domain) : NULL;
	slot = recorded ? GROW_TO(memory->stats, (size_t)process * PERFX_DOMAINS + domain) : NULL;
	stats = slot ? calloc(1, sizeof(*stats)) : NULL;
	if (!stats)
		return NULL;
	*slot = stats;
	stats->memory = memory;
	stats->process = process;
	stats->domain = domain;
	stats->recorded = recorded;
	stats->modes_seen = (uint32_t)recorded->modes_count;
	stats->blind_seen = recorded->blind_count;
	return stats;
}

void domain_stats__free(struct domain_stats *stats)
{
	if (!stats)
		return;
	FOR_EACH (thread, stats->threads) {
		if (thread->pending_realloc == REALLOC_BLOCK)
			block_release(&stats->memory->blocks, thread->realloc_block);
		while (thread->pending_realloc == REALLOC_MAPPINGS && thread->realloc_mappings)
			thread->realloc_mappings =
				mapping_release(stats->memory, thread->realloc_mappings);
	}
	free(stats->threads);
	map64_clear(&stats->thread_ids);
	block_table_clear(&stats->memory->blocks, &stats->blocks);
	mapped_clear(stats->memory, &stats->mappings);
	map64_clear(&stats->hotspot_ids);
	map64_clear(&stats->alike.ids);
	free(stats->alike.stacks);
	free(stats->points);
	free(stats);
}

const struct memory_mode *memory_mode_now(const struct memory_domain *domain)
{
	static const struct memory_mode exact = {.level = PERFX_MEMORY_EXACT};

	return domain->modes_count ? &domain->modes[domain->modes_count - 1] : &exact;
}

bool mode_is_blind(const struct memory_mode *mode)
{
	return mode->level == PERFX_MEMORY_OFF || mode->level == PERFX_MEMORY_SAMPLED_IN ||
	       mode->on_ns < mode->period_ns;
}

bool mode_infers_frees(const struct memory_mode *mode)
{
	return mode->level == PERFX_MEMORY_FREES_INFERRED;
}

void domain_stats_infer_frees(struct domain_stats *stats)
{
	stats->frees_inferred = true;
	stats->bound |= PROFILE_MEMORY_LOST_FREES;
}

void domain_stats_note_modes(struct domain_stats *stats)
{
	const struct memory_domain *domain = stats->recorded;

	/* blocks that lived when it began may have been freed unseen */
	if (stats->blind_seen != domain->blind_count && stats->live_count)
		stats->blind = true;
	if (mode_infers_frees(memory_mode_now(domain)) && stats->live_count)
		domain_stats_infer_frees(stats);
	stats->blind_seen = domain->blind_count;
	stats->modes_seen = (uint32_t)domain->modes_count;
}

struct profile_memory_point domain_stats_point(const struct domain_stats *stats, uint64_t time_ns)
{
	return (struct profile_memory_point){
		.time_ns = time_ns,
		.live_bytes = stats->blind ? PROFILE_ABSENT : memory_whole(stats->live_bytes),
		.allocs_count = tally_count_value(&stats->tally),
		.allocated_bytes = tally_bytes_value(&stats->tally),
	};
}

static int add_point(struct domain_stats *stats, uint64_t time_ns)
{
	return LIST_ADD(stats->points, domain_stats_point(stats, time_ns));
}

/*
 * A slot of time is over: what there was at its end is a point, and where nothing happened for
 * longer another one at the end of that, so that a line through them is flat. The series begins
 * with the slot of the first record.
 */
static int note_points(struct domain_stats *stats, uint64_t time_ns)
{
	uint64_t start = stats->memory->clock.start_ns, since = sub_capped(time_ns, start);
	uint64_t slot;
	int err = 0;

	if (!stats->point_step_ns)
		stats->point_step_ns = MEMORY_POINT_NS;
	/* room for two more, and the two that end the series */
	if (stats->points_count + 4 > PROFILE_POINTS_MAX) {
		/* Every second point goes; the last one stays what the series ends with. */
		for (size_t i = 0; i < stats->points_count; i += 2)
			stats->points[i / 2] = stats->points[i];
		stats->points_count = (stats->points_count + 1) / 2;
		stats->point_step_ns *= 2;
		stats->point_slot /= 2;
	}
	slot = since / stats->point_step_ns;
	if (stats->points_count && slot > stats->point_slot)
		err = add_point(stats, start + (stats->point_slot + 1) * stats->point_step_ns);
	if (!err && (!stats->points_count || slot > stats->point_slot + 1))
		err = add_point(stats, start + slot * stats->point_step_ns);
	stats->point_slot = slot;
	stats->point_due_ns = add_capped(start, (slot + 1) * stats->point_step_ns);
	return err;
}

int domain_stats_tick(struct domain_stats *stats, uint64_t time_ns)
{
	if (stats->modes_seen != stats->recorded->modes_count)
		domain_stats_note_modes(stats);
	if (time_ns < stats->point_due_ns)
		return 0;
	return note_points(stats, time_ns);
}

void domain_stats_level_unknown(struct domain_stats *stats)
{
	uint64_t *alloc_windows = stats->unknown_windows;

	for (; stats->unknown_level < stats->memory->clock.level; stats->unknown_level++)
		for (size_t i = 0; i < PROFILE_ALLOC_WINDOWS; i++)
			alloc_windows[i] = 2 * i < PROFILE_ALLOC_WINDOWS
						   ? alloc_windows[2 * i] + alloc_windows[2 * i + 1]
						   : 0;
}

void domain_stats_note_unknown(struct domain_stats *stats, uint64_t time_ns)
{
	uint32_t alloc_window = alloc_window_at(stats->memory, time_ns);

	domain_stats_level_unknown(stats);
	stats->unknown_windows[alloc_window]++;
	stats->unknown_frees++;
}

/* Makes room by forgetting threads that are in no reallocation: of these only the last call was
 * remembered. */
static int forget_threads(struct domain_stats *stats)
{
	size_t kept = 0;

	map64_clear(&stats->thread_ids);
	for (size_t i = 0; i < stats->threads_count; i++) {
		if (stats->threads[i].pending_realloc == REALLOC_NONE)
			continue;
		stats->threads[kept] = stats->threads[i];
		if (map64_put(&stats->thread_ids, stats->threads[kept].tid, (uint32_t)kept))
			return -ENOMEM;
		kept++;
	}
	stats->threads_count = kept;
	return kept < AGGREGATE_THREADS_MAX ? 0 : -ENOSPC;
}

struct memory_thread *domain_stats_thread(struct domain_stats *stats, uint32_t tid)
{
	struct memory_thread *thread;

	if (stats->last_thread < stats->threads_count &&
	    stats->threads[stats->last_thread].tid == tid)
		return &stats->threads[stats->last_thread];
	errno = ENOMEM;
	if (stats->threads_count == AGGREGATE_THREADS_MAX &&
	    map64_get(&stats->thread_ids, tid) == MAP64_NONE && forget_threads(stats))
		return NULL;
	thread = MAP64_ITEM(stats->thread_ids, tid, stats->threads);
	if (!thread)
		return NULL;
	thread->tid = tid;
	stats->last_thread = (size_t)(thread - stats->threads);
	return thread;
}
