/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles of memory for tests, made of blocks with a birth and a death, as aggregate would. */
#ifndef MEMORY_SCENE_H
#define MEMORY_SCENE_H

#include "aggregate/profile.h"

#include <string.h>

#define MS 1000000ULL
#define S  1000000000ULL

#define SCENE_START (100 * S)
#define SCENE_NEVER UINT64_MAX

/* One process, one domain, one hotspot, `length` of trace. */
struct memory_scene {
	struct profile profile;
	struct profile_process process;
	struct profile_memory memory;
	struct profile_hotspot hotspots[2];
	struct profile_allocator allocator;
	struct profile_frame frames[3];
	const struct profile_frame *stack[3];
	struct profile_usage_point usage[8];
	uint64_t length_ns;
};

static inline void scene_set(struct memory_scene *s, uint64_t length_ns, uint64_t alloc_window_ns)
{
	static const char module[] = "/opt/train/trainer", libc[] = "/lib/libc.so.6";

	*s = (struct memory_scene){.length_ns = length_ns};
	s->frames[0] = (struct profile_frame){.function = "strdup",
					      .module = libc,
					      .module_base = "libc.so.6",
					      .file = "",
					      .offset = 0x777};
	s->frames[1] = (struct profile_frame){.function = "append",
					      .module = module,
					      .module_base = "trainer",
					      .file = "/src/train.c",
					      .line = 12,
					      .offset = 0x1234};
	s->frames[2] = (struct profile_frame){.function = "",
					      .module = module,
					      .module_base = "trainer",
					      .file = "",
					      .offset = 0x4321};
	for (size_t i = 0; i < 3; i++)
		s->stack[i] = &s->frames[i];
	for (size_t i = 0; i < 2; i++)
		s->hotspots[i] = (struct profile_hotspot){.frames = s->stack,
							  .frames_count = 3,
							  .allocator = "libc",
							  .lifetime_ns = PROFILE_ABSENT};
	s->allocator = (struct profile_allocator){.name = "libc", .module = libc};
	s->memory = (struct profile_memory){
		.domain = PERFX_DOMAIN_HOST,
		.allocators = &s->allocator,
		.allocators_count = 1,
		.level = PERFX_MEMORY_EXACT,
		.recorded_ns = length_ns,
		.alloc_window_ns = alloc_window_ns,
		.alloc_windows_from_ns = SCENE_START,
		.alloc_windows_count =
			(size_t)((length_ns + alloc_window_ns - 1) / alloc_window_ns),
		.hotspots = s->hotspots,
		.hotspots_count = 1,
	};
	for (uint64_t i = 0; i < 8; i++)
		s->usage[i] =
			(struct profile_usage_point){.time_ns = SCENE_START + i * length_ns / 7,
						     .rss_bytes = 1ULL << 30,
						     .rss_anon_bytes = 1ULL << 29};
	s->process = (struct profile_process){.index = 1,
					      .pid = 42,
					      .comm = "python3",
					      .cmdline = "",
					      .from_ns = SCENE_START,
					      .to_ns = SCENE_START + length_ns,
					      .cpu_user_ns = length_ns,
					      .cpu_ns = length_ns,
					      .rss_bytes = 1ULL << 30,
					      .rss_peak_bytes = 1ULL << 30,
					      .rss_anon_bytes = 1ULL << 29,
					      .rss_file_bytes = PROFILE_ABSENT,
					      .rss_shmem_bytes = PROFILE_ABSENT,
					      .read_bytes = PROFILE_ABSENT,
					      .write_bytes = PROFILE_ABSENT,
					      .net_rx_bytes = PROFILE_ABSENT,
					      .net_tx_bytes = PROFILE_ABSENT,
					      .throttled_ns = PROFILE_ABSENT,
					      .limits.host_available_bytes = PROFILE_ABSENT,
					      .major_faults_count = PROFILE_ABSENT,
					      .kernel_threads_count = PROFILE_ABSENT,
					      .points = s->usage,
					      .points_count = 8,
					      .memory = &s->memory,
					      .memory_count = 1};
	s->profile = (struct profile){.host_name = "",
				      .kernel = "",
				      .boot_id = "",
				      .command = "",
				      .tool_version = "",
				      .start_ns = SCENE_START,
				      .duration_ns = length_ns,
				      .ended = true,
				      .processes = &s->process,
				      .processes_count = 1,
				      .overhead_percent = -1};
}

static inline void scene_add(struct profile_estimate *estimate, uint64_t value)
{
	estimate->value += value;
	estimate->low = estimate->high = estimate->value;
}

/* A block of the first hotspot; times since the start. Peaks are not kept. */
static inline void scene_block(struct memory_scene *s, uint64_t born_ns, uint64_t died_ns,
			       uint64_t size_bytes)
{
	struct profile_hotspot *h = &s->hotspots[0];
	struct profile_memory *m = &s->memory;
	size_t first = (size_t)(born_ns / m->alloc_window_ns);

	if (born_ns >= s->length_ns)
		return;
	scene_add(&h->allocs, 1);
	scene_add(&h->allocated_bytes, size_bytes);
	scene_add(&m->allocs, 1);
	scene_add(&m->allocated_bytes, size_bytes);
	for (size_t w = first; w < m->alloc_windows_count; w++) {
		uint64_t end = (w + 1) * m->alloc_window_ns;

		if (died_ns > (end < s->length_ns ? end : s->length_ns))
			h->live_windows[w] += size_bytes;
	}
	if (died_ns <= s->length_ns) {
		h->frees_count++;
		m->frees_count++;
		return;
	}
	if (!h->live_count || SCENE_START + born_ns < h->oldest_ns)
		h->oldest_ns = SCENE_START + born_ns;
	h->live_count++;
	h->live_bytes += size_bytes;
	h->kept_windows[first] += size_bytes;
	h->old_bytes += born_ns < s->length_ns / 2 ? size_bytes : 0;
	m->current_count++;
	m->current_bytes += size_bytes;
}

/* Steps: each allocates `blocks` evenly and frees them at its end, but for the first `kept`. */
static inline void scene_steps(struct memory_scene *s, uint64_t step_ns, unsigned blocks,
			       unsigned kept, uint64_t size_bytes)
{
	for (uint64_t from = 0; from < s->length_ns; from += step_ns) {
		for (unsigned i = 0; i < blocks; i++)
			scene_block(s, from + i * step_ns / blocks,
				    i < kept ? SCENE_NEVER : from + step_ns, size_bytes);
	}
}

#endif
