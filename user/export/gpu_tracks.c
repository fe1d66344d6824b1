// SPDX-License-Identifier: BSD-2-Clause
#include "export/timeline.h"

#include <stdlib.h>

uint32_t gpu_tracks_ordinal(struct gpu_tracks *tracks, uint32_t process)
{
	uint32_t ordinal = map64_get(&tracks->ordinals, process);

	if (ordinal != MAP64_NONE)
		return ordinal;
	ordinal = (uint32_t)tracks->ordinals.count;
	return map64_put(&tracks->ordinals, process, ordinal) ? MAP64_NONE : ordinal;
}

struct gpu_track *gpu_tracks_get(struct gpu_tracks *tracks,
				 const struct perfx_gpu_activity *activity)
{
	/* aggregate and decode keep process indices and devices small */
	uint64_t key = (uint64_t)activity->process << 38 | (uint64_t)activity->device << 32 |
		       activity->stream;
	struct gpu_track *track = MAP64_FIND_OF(tracks, key);
	uint32_t ordinal;

	if (track)
		return track;
	ordinal = gpu_tracks_ordinal(tracks, activity->process);
	track = ordinal == MAP64_NONE ? NULL : MAP64_ITEM_OF(tracks, key);
	if (track)
		*track = (struct gpu_track){.process = activity->process,
					    .device = activity->device,
					    .stream = activity->stream,
					    .ordinal = ordinal};
	return track;
}

void gpu_tracks_clear(struct gpu_tracks *tracks)
{
	map64_clear(&tracks->ids);
	map64_clear(&tracks->ordinals);
	free(tracks->list);
}

const char *gpu_name_of(const struct profile *profile, uint32_t name)
{
	const char *text = name < profile->gpu_names_count ? profile->gpu_names[name].name : NULL;

	return text && *text ? text : "?";
}

static const char *words_of_host(enum perfx_gpu_host_memory memory)
{
	switch (memory) {
	case PERFX_GPU_HOST_MEMORY_PAGEABLE:
		return "Pageable";
	case PERFX_GPU_HOST_MEMORY_PINNED:
		return "Pinned";
	case PERFX_GPU_HOST_MEMORY_MANAGED:
		return "Managed";
	case PERFX_GPU_HOST_MEMORY_UNKNOWN:
	case PERFX_GPU_HOST_MEMORY_NONE:
		break;
	}
	return "Unknown";
}

static void copy_name(struct text *into, const struct perfx_gpu_activity *activity)
{
	const char *host = words_of_host(activity->host_memory);

	switch ((enum perfx_gpu_direction)activity->direction) {
	case PERFX_GPU_HOST_TO_DEVICE:
		text_printf(into, "Memcpy HtoD (%s -> Device)", host);
		return;
	case PERFX_GPU_DEVICE_TO_HOST:
		text_printf(into, "Memcpy DtoH (Device -> %s)", host);
		return;
	case PERFX_GPU_DEVICE_TO_DEVICE:
		text_add(into, "Memcpy DtoD (Device -> Device)");
		return;
	case PERFX_GPU_HOST_TO_HOST:
		text_printf(into, "Memcpy HtoH (%s -> %s)", host, host);
		return;
	case PERFX_GPU_PEER:
		text_add(into, "Memcpy PtoP (Device -> Device)");
		return;
	case PERFX_GPU_DIRECTION_UNKNOWN:
		break;
	}
	text_add(into, "Memcpy Unknown");
}

void gpu_activity_name(struct text *into, const struct profile *profile,
		       const struct perfx_gpu_activity *activity)
{
	if (activity->op == PERFX_GPU_OP_COPY)
		copy_name(into, activity);
	else if (activity->op == PERFX_GPU_OP_MEMSET)
		text_add(into, "Memset (Device)");
	else if (activity->op == PERFX_GPU_OP_GRAPH && !activity->name)
		text_printf(into, "CUDA graph %u", activity->graph);
	else
		text_add(into, gpu_name_of(profile, activity->name));
}

const char *gpu_activity_category(const struct perfx_gpu_activity *activity)
{
	switch ((enum perfx_gpu_op)activity->op) {
	case PERFX_GPU_OP_KERNEL:
	case PERFX_GPU_OP_GRAPH:
		return "kernel";
	case PERFX_GPU_OP_COPY:
		return "gpu_memcpy";
	case PERFX_GPU_OP_MEMSET:
		return "gpu_memset";
	case PERFX_GPU_OP_SYNC:
	case PERFX_GPU_OP_INVALID:
		break;
	}
	return NULL;
}
