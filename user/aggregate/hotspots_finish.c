// SPDX-License-Identifier: BSD-2-Clause
/* Hotspots → profile: their frames, their place among the traced calls, what they hold. */
#include "aggregate/internal.h"

#include <stdlib.h>

static const struct profile_frame no_frame = {
	.function = "",
	.module = "",
	.module_base = "",
	.file = "",
};

/* The frames at one address into `out`, unless it is NULL; how many. */
static size_t frames_at(const struct memory *memory, uint32_t index,
			const struct profile_frame **out)
{
	size_t count = 0;

	if (!index) {
		if (out)
			out[0] = &no_frame;
		return 1;
	}
	for (; index; count++) {
		const struct memory_frame *frame =
			chunks_at(&memory->frames, index, sizeof(*frame));

		if (out)
			out[count] = &frame->frame;
		index = frame->next;
	}
	return count;
}

static int resolve(struct memory_source *source, uint32_t stack, struct profile_hotspot *out)
{
	const struct memory *memory = &source->a->memory;
	const struct memory_stack *found = memory_stack_of(memory, source->process->index, stack);
	uint32_t indices[PERFX_STACK_FRAMES_MAX];
	const struct profile_frame **frames;
	size_t count = 0;

	if (!found || !found->frames_count)
		return 0;
	for (uint32_t i = 0; i < found->frames_count; i++) {
		int64_t at = memory_frame_at(source->a, source->process->index,
					     memory->addresses[found->first + i]);

		if (at < 0)
			return (int)at;
		indices[i] = (uint32_t)at;
		count += frames_at(memory, indices[i], NULL);
	}
	frames = calloc(count, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	out->frames = frames;
	out->frames_count = count;
	out->stack_cut = found->flags & PERFX_STACK_CUT;
	for (uint32_t i = 0; i < found->frames_count; i++)
		frames += frames_at(memory, indices[i], frames);
	return 0;
}

/* The marker's own function, inlined or libperfx's, says nothing of who allocates. */
static void drop_marker(struct profile_hotspot *out)
{
	const struct profile_frame **frames = (const struct profile_frame **)out->frames;

	if (out->frames_count < 2 || strcmp(frames[0]->function, "perfx_memory_alloc") != 0)
		return;
	out->frames_count--;
	memmove(frames, frames + 1, out->frames_count * sizeof(frames[0]));
}

/* A context may be unknown, or another process's where records lie. */
static void place_in_calls(const struct memory_source *source, uint32_t id,
			   struct profile_hotspot *out)
{
	const struct context *context;

	if (id == 0 || id >= source->a->contexts_count)
		return;
	context = &source->a->contexts[id];
	if ((!context->described && !context->row) || context->process != source->process->index)
		return;
	out->context = id;
	if (context->function <= source->a->functions_count &&
	    source->a->functions[context->function - 1].id)
		out->function = context->function;
}

static void fill_live(const struct memory_source *source, const struct hotspot *hotspot,
		      const struct kept *kept, size_t alloc_windows_count,
		      struct profile_hotspot *out)
{
	if (source->stats->blind) {
		out->live_count = out->live_bytes = PROFILE_ABSENT;
		out->live_at_peak_bytes = out->peak_bytes = PROFILE_ABSENT;
		out->oldest_ns = out->old_bytes = PROFILE_ABSENT;
		return;
	}
	out->live_count = memory_whole(hotspot->live_count);
	out->live_bytes = memory_whole(hotspot->live_bytes);
	out->live_at_peak_bytes = memory_whole(hotspot->live_at_peak);
	out->peak_bytes = memory_whole(hotspot->peak_bytes);
	out->oldest_ns = hotspot->oldest_ns;
	out->old_bytes = memory_whole(hotspot->old_bytes);
	for (size_t i = 0; i < alloc_windows_count; i++) {
		out->live_windows[i] =
			memory_whole(i < hotspot->alloc_window ? hotspot->alloc_windows[i]
							       : hotspot->live_bytes);
		out->kept_windows[i] = memory_whole(kept->alloc_windows[i]);
	}
}

static int fill_hotspot(struct memory_source *source, const struct hotspot *hotspot,
			const struct kept *kept, size_t alloc_windows_count,
			struct profile_hotspot *out)
{
	struct memory *memory = &source->a->memory;
	/* it may go on changing: what is over by now is noted in a copy */
	struct hotspot now = *hotspot;
	int err;

	hotspot_touch(memory, source->stats, &now, source->process->to_ns);
	*out = (struct profile_hotspot){
		.allocator = memory_allocator_of(memory, now.allocator)->name,
		.allocs = tally_count(&now.tally, &source->stats->tally),
		.allocated_bytes = tally_bytes(&now.tally),
		.frees_count = memory_whole(now.frees),
		.temporary_count = memory_whole(now.temporary),
		.freed_bytes = memory_whole(now.freed_bytes),
		.lifetime_ns = now.ended ? (uint64_t)(now.lifetimes / now.ended) : PROFILE_ABSENT,
	};
	fill_live(source, &now, kept, alloc_windows_count, out);
	place_in_calls(source, now.context, out);
	err = resolve(source, now.stack, out);
	if (!err && source->domain == PERFX_DOMAIN_USER)
		drop_marker(out);
	return err;
}

#define COMPARE_DESCENDING(a, b)                   \
	do {                                       \
		if ((a) != (b))                    \
			return (a) < (b) ? 1 : -1; \
	} while (0)

static int by_peak(const void *left, const void *right)
{
	const struct profile_hotspot *a = left, *b = right;

	COMPARE_DESCENDING(a->live_at_peak_bytes, b->live_at_peak_bytes);
	COMPARE_DESCENDING(a->allocated_bytes.value, b->allocated_bytes.value);
	COMPARE_DESCENDING(a->allocs.value, b->allocs.value);
	COMPARE_DESCENDING(b->context, a->context);
	return strcmp(a->allocator, b->allocator);
}

int hotspots_fill(struct memory_source *source, struct profile_memory *out)
{
	struct domain_stats *stats = source->stats;
	struct kept *kept = calloc(stats->hotspots_count + 1, sizeof(*kept));
	uint32_t place = 0;
	int err = 0;

	out->hotspots = calloc(stats->hotspots_count + 1, sizeof(*out->hotspots));
	if (!out->hotspots || !kept) {
		free(kept);
		return -ENOMEM;
	}
	for (struct hotspot *h = stats->hotspots; h; h = h->next)
		h->place = place++;
	live_ages(&source->a->memory, stats,
		  source->process->from_ns + profile_wall_ns(source->process) / 2, kept);
	for (const struct hotspot *h = stats->hotspots; h && !err; h = h->next)
		err = fill_hotspot(source, h, &kept[h->place], out->alloc_windows_count,
				   &out->hotspots[out->hotspots_count++]);
	free(kept);
	qsort(out->hotspots, out->hotspots_count, sizeof(*out->hotspots), by_peak);
	return err;
}
