/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot of a live recording, made by hand: a process that trains, and two functions. */
#ifndef LIVE_SCENE_H
#define LIVE_SCENE_H

#include "live/live.h"
#include "profile_parts.h"

struct live_scene {
	struct profile_function function;
	struct profile_row row;
	struct profile_thread thread;
	struct profile_memory memory;
	struct profile_process process;
	struct profile profile;
	struct live_point points[2];
	struct live_process live;
	struct live_row live_row;
	struct live_function functions[2];
	struct live_snapshot snapshot;
};

static inline void live_scene_totals(struct live_scene *s)
{
	s->snapshot.totals.processes_count = 3;
	s->snapshot.totals.steps_count = 70;
	s->snapshot.totals.losses[PERFX_LOSS_RING_DROPS] = 5;
	s->snapshot.totals.hits_count = 4000;
	s->snapshot.totals.overhead_ns = 1.5e9;
}

static inline void live_scene_process(struct live_scene *s)
{
	s->points[0] = (struct live_point){.time_ns = 99 * S,
					   .step_ns = PROFILE_ABSENT,
					   .live_bytes = PROFILE_ABSENT,
					   .gpu_busy_ns = PROFILE_ABSENT,
					   .rss_bytes = 1000};
	s->points[1] = (struct live_point){.time_ns = 100 * S,
					   .steps_count = 10,
					   .step_ns = 100 * MS,
					   .cpu_ns = 900 * MS,
					   .rss_bytes = 2000,
					   .live_bytes = 64,
					   .gpu_busy_ns = 500 * MS,
					   .flops = 7};
	s->live = (struct live_process){.process = &s->process,
					.period = {.calls_count = 10},
					.run = {.calls_count = 1000, .flops = 12345},
					.cpu_ns = 9 * S,
					.read_bytes = 11,
					.write_bytes = PROFILE_ABSENT,
					.steps_count = 70,
					.steps_ns = 7 * S,
					.steps_flops = 99,
					.history = s->points,
					.history_count = 2};
	s->live.phases[PROFILE_PHASE_DATA] = 3 * S;
	s->live.blocked_ns[PERFX_WAIT_GIL] = 250 * MS;
	s->live.blocked_counts[PERFX_WAIT_GIL] = 4;
	s->live.allocs_counts[PERFX_DOMAIN_TENSOR] = 8;
	s->live.alloc_bytes[PERFX_DOMAIN_TENSOR] = 800;
}

static inline void live_scene(struct live_scene *s)
{
	*s = (struct live_scene){.function = part_function(),
				 .row = part_row(),
				 .thread = part_thread(),
				 .memory = {.domain = PERFX_DOMAIN_TENSOR, .current_bytes = 64}};
	s->process = part_process(&s->row, &s->thread);
	s->process.rss_bytes = 2000;
	s->process.memory = &s->memory;
	s->process.memory_count = 1;
	s->profile = part_profile(&s->process, &s->function, 1);
	s->profile.host_name = "node3";
	live_scene_process(s);
	s->live_row = (struct live_row){
		.process = &s->process, .row = &s->row, .period = {.calls_count = 10}};
	s->functions[0] = (struct live_function){.name = "f",
						 .module = "/m",
						 .source = PERFX_SOURCE_SYMBOL,
						 .run = {.calls_count = 1000,
							 .timed_count = 1000,
							 .total_ns = 2 * S,
							 .self_ns = 1 * S,
							 .flops = 12345}};
	s->functions[1] = (struct live_function){.name = "a\"b\n",
						 .module = "/m",
						 .source = PERFX_SOURCE_SYMBOL,
						 .run = {.calls_count = 3}};
	s->snapshot = (struct live_snapshot){.number = 1,
					     .run_from_ns = 90 * S,
					     .from_ns = 99 * S,
					     .to_ns = 100 * S,
					     .profile = &s->profile,
					     .processes = &s->live,
					     .processes_count = 1,
					     .rows = &s->live_row,
					     .rows_count = 1,
					     .functions = s->functions,
					     .functions_count = 2,
					     .own_ns = 2 * MS};
	live_scene_totals(s);
}

#endif
