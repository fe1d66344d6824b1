// SPDX-License-Identifier: BSD-2-Clause
/* Hotspots: who allocates, and who holds over time. */
#include "aggregate/internal.h"

/* context: 21 bits, allocator: 11 */
_Static_assert(AGGREGATE_CONTEXTS_MAX < 1u << 21 && AGGREGATE_ALLOCATORS_MAX < 1u << 11,
	       "a hotspot's key has 64 bits");

static uint64_t key_of(uint32_t stack, uint32_t context, uint16_t allocator)
{
	return (uint64_t)stack << 32 | context << 11 | allocator;
}

static struct hotspot *hotspot_new(struct memory *memory, struct domain_stats *stats, uint64_t key)
{
	struct hotspot *hotspot = chunks_add(&memory->hotspots, sizeof(*hotspot));
	uint32_t index = (uint32_t)memory->hotspots.count - 1;

	if (!hotspot || map64_put(&stats->hotspot_ids, key, index))
		return NULL;
	hotspot->index = index;
	if (stats->last_hotspot)
		stats->last_hotspot->next = hotspot;
	else
		stats->hotspots = hotspot;
	stats->last_hotspot = hotspot;
	stats->hotspots_count++;
	return hotspot;
}

struct hotspot *hotspot_get(struct aggregate *a, struct domain_stats *stats, uint32_t stack,
			    uint32_t context, uint16_t allocator)
{
	struct memory *memory = &a->memory;
	uint64_t key = key_of(stack, context, allocator);
	uint32_t index = map64_get(&stats->hotspot_ids, key);
	struct hotspot *hotspot;

	if (index != MAP64_NONE)
		return hotspot_at(memory, index);
	/* no more of them: the rest is one, of which nothing else is known */
	if (memory->hotspots.count >= AGGREGATE_HOTSPOTS_MAX && key != 0)
		return hotspot_get(a, stats, 0, 0, 0);
	hotspot = hotspot_new(memory, stats, key);
	if (hotspot) {
		hotspot->stack = stack;
		hotspot->context = context;
		hotspot->allocator = allocator;
	}
	return hotspot;
}

/* Two windows become one: it ends with what the second of them had. */
static void merge_alloc_windows(struct hotspot *hotspot)
{
	hotspot->alloc_window /= 2;
	for (uint32_t i = 0; i < hotspot->alloc_window; i++)
		hotspot->alloc_windows[i] = hotspot->alloc_windows[2 * i + 1];
	hotspot->level++;
}

uint32_t alloc_window_at(struct memory *memory, uint64_t time_ns)
{
	struct memory_clock *clock = &memory->clock;
	uint64_t since, length;

	if (time_ns - clock->from_ns < clock->to_ns - clock->from_ns)
		return clock->alloc_window;
	since = time_ns > clock->start_ns ? time_ns - clock->start_ns : 0;
	while (since / (ALLOC_WINDOW_NS << clock->level) >= PROFILE_ALLOC_WINDOWS)
		clock->level++;
	length = ALLOC_WINDOW_NS << clock->level;
	clock->alloc_window = (uint32_t)(since / length);
	clock->from_ns = clock->start_ns + clock->alloc_window * length;
	clock->to_ns = add_capped(clock->from_ns, length);
	return clock->alloc_window;
}

void hotspot_touch(struct memory *memory, const struct domain_stats *stats, struct hotspot *hotspot,
		   uint64_t time_ns)
{
	uint32_t alloc_window = alloc_window_at(memory, time_ns);

	if (hotspot->peak_number != stats->peak_number) {
		hotspot->peak_number = stats->peak_number;
		hotspot->live_at_peak = hotspot->live_bytes;
	}
	while (hotspot->level < memory->clock.level)
		merge_alloc_windows(hotspot);
	while (hotspot->alloc_window < alloc_window)
		hotspot->alloc_windows[hotspot->alloc_window++] = hotspot->live_bytes;
}

void live_add(struct memory *memory, struct domain_stats *stats, struct hotspot *hotspot,
	      uint64_t count, uint64_t bytes, uint64_t time_ns)
{
	hotspot_touch(memory, stats, hotspot, time_ns);
	hotspot->live_count += count;
	hotspot->live_bytes += bytes;
	if (hotspot->live_bytes > hotspot->peak_bytes)
		hotspot->peak_bytes = hotspot->live_bytes;
	stats->live_count += count;
	stats->live_bytes += bytes;
	if (stats->live_bytes > stats->peak_bytes) {
		stats->peak_bytes = stats->live_bytes;
		stats->peak_ns = time_ns;
		stats->peak_number++;
	}
}

void live_sub(struct memory *memory, struct domain_stats *stats, struct hotspot *hotspot,
	      uint64_t count, uint64_t bytes, uint64_t time_ns)
{
	hotspot_touch(memory, stats, hotspot, time_ns);
	hotspot->live_count -= count;
	hotspot->live_bytes -= bytes;
	stats->live_count -= count;
	stats->live_bytes -= bytes;
}
