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

static struct hotspot *hotspot_new(struct memory *memory, struct ledger *ledger, uint64_t key)
{
	struct hotspot *hotspot = chunks_add(&memory->hotspots, sizeof(*hotspot));
	uint32_t index = (uint32_t)memory->hotspots.count - 1;

	if (!hotspot || map64_put(&ledger->hotspot_ids, key, index))
		return NULL;
	hotspot->index = index;
	if (ledger->last_hotspot)
		ledger->last_hotspot->next = hotspot;
	else
		ledger->hotspots = hotspot;
	ledger->last_hotspot = hotspot;
	ledger->hotspots_count++;
	return hotspot;
}

struct hotspot *hotspot_get(struct aggregate *a, struct ledger *ledger, uint32_t stack,
			    uint32_t context, uint16_t allocator)
{
	struct memory *memory = &a->memory;
	uint64_t key = key_of(stack, context, allocator);
	uint32_t index = map64_get(&ledger->hotspot_ids, key);
	struct hotspot *hotspot;

	if (index != MAP64_NONE)
		return hotspot_at(memory, index);
	/* no more of them: the rest is one, of which nothing else is known */
	if (memory->hotspots.count >= AGGREGATE_HOTSPOTS_MAX && key != 0)
		return hotspot_get(a, ledger, 0, 0, 0);
	hotspot = hotspot_new(memory, ledger, key);
	if (hotspot) {
		hotspot->stack = stack;
		hotspot->context = context;
		hotspot->allocator = allocator;
	}
	return hotspot;
}

/* Two windows become one: it ends with what the second of them had. */
static void merge_windows(struct hotspot *hotspot)
{
	hotspot->window /= 2;
	for (uint32_t i = 0; i < hotspot->window; i++)
		hotspot->windows[i] = hotspot->windows[2 * i + 1];
	hotspot->level++;
}

uint32_t memory_window(struct memory *memory, uint64_t time_ns)
{
	struct memory_clock *clock = &memory->clock;
	uint64_t since, length;

	if (time_ns - clock->from_ns < clock->to_ns - clock->from_ns)
		return clock->window;
	since = time_ns > clock->start_ns ? time_ns - clock->start_ns : 0;
	while (since / (MEMORY_WINDOW_NS << clock->level) >= PROFILE_WINDOWS)
		clock->level++;
	length = MEMORY_WINDOW_NS << clock->level;
	clock->window = (uint32_t)(since / length);
	clock->from_ns = clock->start_ns + clock->window * length;
	clock->to_ns = add_capped(clock->from_ns, length);
	return clock->window;
}

void hotspot_touch(struct memory *memory, const struct ledger *ledger, struct hotspot *hotspot,
		   uint64_t time_ns)
{
	uint32_t window = memory_window(memory, time_ns);

	if (hotspot->peak_number != ledger->peak_number) {
		hotspot->peak_number = ledger->peak_number;
		hotspot->live_at_peak = hotspot->live_bytes;
	}
	while (hotspot->level < memory->clock.level)
		merge_windows(hotspot);
	while (hotspot->window < window)
		hotspot->windows[hotspot->window++] = hotspot->live_bytes;
}

void hold(struct memory *memory, struct ledger *ledger, struct hotspot *hotspot, uint64_t count,
	  uint64_t bytes, uint64_t time_ns)
{
	hotspot_touch(memory, ledger, hotspot, time_ns);
	hotspot->live_count += count;
	hotspot->live_bytes += bytes;
	if (hotspot->live_bytes > hotspot->peak_bytes)
		hotspot->peak_bytes = hotspot->live_bytes;
	ledger->live_count += count;
	ledger->live_bytes += bytes;
	if (ledger->live_bytes > ledger->peak_bytes) {
		ledger->peak_bytes = ledger->live_bytes;
		ledger->peak_ns = time_ns;
		ledger->peak_number++;
	}
}

void let_go(struct memory *memory, struct ledger *ledger, struct hotspot *hotspot, uint64_t count,
	    uint64_t bytes, uint64_t time_ns)
{
	hotspot_touch(memory, ledger, hotspot, time_ns);
	hotspot->live_count -= count;
	hotspot->live_bytes -= bytes;
	ledger->live_count -= count;
	ledger->live_bytes -= bytes;
}
