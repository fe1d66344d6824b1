/* SPDX-License-Identifier: BSD-2-Clause */
/* What GPUs did as tracks: one for each stream of a device and process. */
#ifndef PERFX_EXPORT_GPU_TRACKS_H
#define PERFX_EXPORT_GPU_TRACKS_H

#include "base/grow.h"
#include "base/text.h"
#include "export/export.h"

struct gpu_track {
	uint32_t process, device, stream;
	uint32_t ordinal; /* of the process among those that use GPUs: 0, 1, … */
	uint64_t data;	  /* the writer's */
};

struct gpu_tracks {
	const struct profile *profile;
	struct map64 ids; /* process, device, stream → list[] */
	struct gpu_track *list;
	size_t count, capacity;
	struct map64 ordinals; /* process → ordinal */
};

/* The track of an activity, made when it is new; valid until the next one is. NULL: memory is out.
 */
struct gpu_track *gpu_tracks_get(struct gpu_tracks *tracks,
				 const struct perfx_gpu_activity *activity);
/* MAP64_NONE: memory is out. */
uint32_t gpu_tracks_ordinal(struct gpu_tracks *tracks, uint32_t process);
void gpu_tracks_clear(struct gpu_tracks *tracks);

/* As PyTorch's profiler names it: the kernel, "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"
 */
void gpu_activity_name(struct text *into, const struct profile *profile,
		       const struct perfx_gpu_activity *activity);
/* "kernel", "gpu_memcpy", "gpu_memset"; NULL: a wait, of which no track is made. */
const char *gpu_activity_category(const struct perfx_gpu_activity *activity);
/* The name of a call; "?": unknown. */
const char *gpu_name_of(const struct profile *profile, uint32_t name);

#endif
