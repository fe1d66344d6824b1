// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory that an allocator holds and nobody uses: free memory in heaps that were read; another
 * heap's resident pages against its live blocks; the segments of PyTorch's caching allocator
 * against its tensors. The latter two only of processes that began in the recording: what others
 * had allocated before is not known.
 */
#include "analyze/memory_sum.h"
#include "analyze/rules_ctx.h"
#include "remedy_texts.h"

#include <string.h>

/* The recording and a program that it starts begin at nearly the same time. */
#define START_NS   1000000000ULL
#define TORCH_CUDA "torch-cuda"

struct held_memory {
	const char *held, *used; /* words */
	const char *remedy;
	uint64_t held_bytes, used_bytes; /* PROFILE_ABSENT: not known */
};

static const struct profile_memory *domain_of(const struct rules_ctx *ctx, enum perfx_domain domain)
{
	FOR_EACH (memory, ctx->process->memory)
		if (memory->domain == domain && memory->current_bytes != PROFILE_ABSENT &&
		    !memory->bound)
			return memory;
	return NULL;
}

/* The live bytes of an allocator; PROFILE_ABSENT: it was not seen. */
static uint64_t live_bytes_of(const struct profile_memory *memory, const char *name)
{
	for (size_t i = 0; memory && i < memory->allocators_count; i++)
		if (!strcmp(memory->allocators[i].name, name))
			return memory->allocators[i].live_bytes;
	return PROFILE_ABSENT;
}

static void judge_held_memory(struct rules_ctx *ctx, const struct held_memory *memory)
{
	const struct thresholds *thresholds = ctx->thresholds;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};
	double unused, share;

	if (memory->held_bytes == PROFILE_ABSENT || memory->used_bytes == PROFILE_ABSENT ||
	    memory->held_bytes <= memory->used_bytes)
		return;
	unused = (double)(memory->held_bytes - memory->used_bytes);
	share = unused / (double)memory->held_bytes;
	if (unused < thresholds->fragmentation_bytes || share < thresholds->fragmentation_low)
		return;
	text_printf(&note.evidence, "%s of %s for %s of %s: %s is held and not used",
		    as_bytes(memory->held_bytes), memory->held, as_bytes(memory->used_bytes),
		    memory->used, as_percent(share));
	text_add(&note.suggestion, memory->remedy);
	rules_ctx_add(ctx, "Fragmentation", medium_if(share >= thresholds->fragmentation_medium),
		      share, &note);
}

/* The least at any reading: what a step frees, the next one uses. False: no heap was read. */
static bool judge_heaps(struct rules_ctx *ctx)
{
	const struct profile_memory_sums *sums = ctx->process->memory_sums;
	const struct thresholds *thresholds = ctx->thresholds;
	const struct perfx_memory_sum *least = sums ? &sums->last : NULL;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};
	struct text names = {0};
	uint64_t free_bytes, held_bytes;
	double share;

	if (!sums || !(least->flags & PERFX_MEMORY_SUM_HEAPS))
		return false;
	for (size_t i = 0; i < sums->points_count; i++)
		if (sums->points[i].resident[PERFX_MEMORY_HEAP_FREE] <
		    least->resident[PERFX_MEMORY_HEAP_FREE])
			least = &sums->points[i];
	free_bytes = least->resident[PERFX_MEMORY_HEAP_FREE];
	held_bytes = free_bytes + least->resident[PERFX_MEMORY_HEAP_USED];
	share = held_bytes ? (double)free_bytes / (double)held_bytes : 0;
	if ((double)free_bytes < thresholds->fragmentation_bytes ||
	    share < thresholds->fragmentation_low)
		return true;
	memory_sum_allocators(least, true, &names);
	text_printf(&note.evidence, "%s of %s that malloc (%s) holds", as_bytes(free_bytes),
		    as_bytes(held_bytes), text_peek(&names));
	if (least->heap_arenas_count)
		text_printf(&note.evidence, " in %s arena%s", as_count(least->heap_arenas_count),
			    plural(least->heap_arenas_count));
	text_printf(&note.evidence,
		    " is free and kept: %s; at each of %zu reading%s at least as much",
		    as_percent(share), sums->points_count, plural(sums->points_count));
	text_finish(&names, &note.evidence.failed);
	text_add(&note.suggestion,
		 least->heap_free_bytes != UINT64_MAX &&
				 least->heap_free_bytes > least->other_heaps_free_bytes
			 ? TRY_MALLOC_ARENAS
			 : TRY_PURGING);
	note.look = "Memory sum";
	rules_ctx_add(ctx, "Fragmentation", medium_if(share >= thresholds->fragmentation_medium),
		      share, &note);
	return true;
}

void rules_fragmentation(struct rules_ctx *ctx)
{
	const struct profile_memory *heap = domain_of(ctx, PERFX_DOMAIN_HOST);
	const struct profile_memory *segments = domain_of(ctx, PERFX_DOMAIN_GPU);
	struct held_memory host = {
		.held = "anonymous resident memory",
		.used = "live blocks of the heap",
		.remedy = TRY_MALLOC_ARENAS,
		.held_bytes = ctx->process->rss_anon_bytes,
		.used_bytes = heap ? heap->current_bytes : PROFILE_ABSENT,
	};
	struct held_memory device = {
		.held = "device memory reserved by PyTorch's allocator",
		.used = "tensors",
		.remedy = TRY_TORCH_SEGMENTS,
		.held_bytes = segments ? segments->current_bytes : PROFILE_ABSENT,
		.used_bytes = live_bytes_of(domain_of(ctx, PERFX_DOMAIN_TENSOR), TORCH_CUDA),
	};

	bool has_heaps = judge_heaps(ctx);

	if (!(ctx->process->launched ||
	      (ctx->process->start_boot_ns &&
	       ctx->process->start_boot_ns + START_NS >= ctx->profile->start_boot_ns)))
		return;
	if (!has_heaps)
		judge_held_memory(ctx, &host);
	judge_held_memory(ctx, &device);
}
