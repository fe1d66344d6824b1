/* SPDX-License-Identifier: BSD-2-Clause */
/* The smallest profile on which rules can be tried. */
#ifndef ANALYZE_SCENE_H
#define ANALYZE_SCENE_H

#include "analyze/rule_set.h"
#include "profile_parts.h"

#include <stdlib.h>
#include <string.h>

/* One process of ten seconds that does nothing remarkable. */
struct scene {
	struct profile profile;
	struct profile_process process;
	struct profile_row row;
	struct profile_function function;
	struct profile_probe probe;
	struct profile_thread thread;
	struct profile_usage_point points[8];
};

static inline void scene_set(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->function = part_function();
	s->row = part_row();
	s->thread = part_thread();
	s->process = part_process(&s->row, &s->thread);
	s->process.rss_bytes = 1 << 30;
	s->process.points = s->points;
	s->process.points_count = 8;
	for (uint64_t i = 0; i < 8; i++)
		s->points[i] = (struct profile_usage_point){.time_ns = i * S, .rss_bytes = 1 << 30};
	s->probe =
		(struct profile_probe){.id = 1, .function = 1, .hits_count = 2000, .cost_ns = 500};
	s->profile = part_profile(&s->process, &s->function, 1);
	s->profile.probes = &s->probe;
	s->profile.probes_count = 1;
	s->profile.hits_count = 2000;
	s->profile.overhead_ns = 1e6;
	s->profile.overhead_percent = 0.01;
}

#endif
