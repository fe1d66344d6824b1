/* SPDX-License-Identifier: BSD-2-Clause */
/* What top shows of a second of two processes, the one with names that mean harm. */
#ifndef TOP_SCENE_H
#define TOP_SCENE_H

#include "live/live.h"
#include "profile_parts.h"

#define SCENE_FUNCTIONS 4
#define SCENE_POINTS	30

/* Colors, a bell, wide and combining characters, an emoji, what turns the direction of writing. */
#define HOSTILE "\x1b[31m\x07日本語e\xcc\x81😀\xe2\x80\xae\xff::operator()"

struct top_scene {
	struct profile_function functions[SCENE_FUNCTIONS];
	struct profile_row row, counts[SCENE_FUNCTIONS];
	struct profile_thread threads[2];
	struct profile_line lines[2];
	struct profile_activity wait;
	struct profile_process processes[2];
	struct profile profile;
	struct live_point points[SCENE_POINTS];
	struct live_process live[2];
	struct live_row rows[SCENE_FUNCTIONS];
	struct live_line live_lines[2];
	struct live_wait live_wait;
	struct live_thread live_threads[2];
	struct finding findings[2];
	struct process_analysis analyzed[2];
	struct analysis analysis;
	struct live_snapshot snapshot;
};

static inline void top_scene_functions(struct top_scene *s)
{
	static const char *const names[] = {"at::_ops::max_pool2d_with_indices_backward::call",
					    HOSTILE, "sgemm_", "save"};
	static const struct live_sums sums[] = {
		{.calls_count = 40, .timed_count = 40, .total_ns = 500 * MS, .self_ns = 400 * MS},
		{.calls_count = 20, .timed_count = 20, .total_ns = 200 * MS, .self_ns = 200 * MS},
		{.calls_count = 1234,
		 .timed_count = 1234,
		 .total_ns = 100 * MS,
		 .self_ns = 100 * MS,
		 .flops = 1500000000},
		{.calls_count = 3}, /* counted only */
	};

	for (uint32_t i = 0; i < SCENE_FUNCTIONS; i++) {
		s->functions[i] = part_function();
		s->functions[i].id = i + 1;
		s->functions[i].name = names[i];
		s->counts[i] = part_row();
		s->counts[i].function = i + 1;
		s->rows[i] = (struct live_row){
			.process = &s->processes[i == 3], .row = &s->counts[i], .period = sums[i]};
	}
}

static inline void top_scene_code(struct top_scene *s)
{
	s->lines[0] = (struct profile_line){.file = "/home/u/planted.py",
					    .function = "normalize.<locals>.<listcomp>",
					    .line = 113};
	s->lines[1] = (struct profile_line){.file = "", .function = HOSTILE};
	s->live_lines[0] = (struct live_line){.process = &s->processes[0],
					      .line = &s->lines[0],
					      .samples_count = 40,
					      .on_cpu_ns = 400 * MS};
	s->live_lines[1] = (struct live_line){.process = &s->processes[1],
					      .line = &s->lines[1],
					      .samples_count = 5,
					      .off_cpu_ns = 250 * MS};
}

static inline void top_scene_threads(struct top_scene *s)
{
	s->threads[0] = part_thread();
	s->threads[1] = (struct profile_thread){.tid = 43, .comm = HOSTILE, .state = 'S'};
	s->wait = (struct profile_activity){.tid = 43,
					    .reason = PERFX_WAIT_GIL,
					    .holder_tid = 42,
					    .object_name = "",
					    .count = 7,
					    .ns = 700 * MS};
	s->live_wait = (struct live_wait){
		.process = &s->processes[0], .wait = &s->wait, .count = 7, .ns = 700 * MS};
	s->live_threads[0] = (struct live_thread){.process = &s->processes[0],
						  .thread = &s->threads[0],
						  .on_cpu_ns = 900 * MS,
						  .runnable_ns = 60 * MS,
						  .blocked_ns = 40 * MS};
	s->live_threads[1] = (struct live_thread){.process = &s->processes[0],
						  .thread = &s->threads[1],
						  .on_cpu_ns = PROFILE_ABSENT,
						  .runnable_ns = PROFILE_ABSENT,
						  .blocked_ns = PROFILE_ABSENT,
						  .longest = &s->live_wait};
}

static inline void top_scene_findings(struct top_scene *s)
{
	s->findings[0] = (struct finding){
		.kind = "DataBound",
		.severity = FINDING_HIGH,
		.gain_ns = 5.37e6,
		.subject = "python (pid 42)",
		.evidence = "waiting for the next batch took 48.6 % of the time of 798 steps: "
			    "6.07 ms of 12.5 ms per step (0 workers; 1 would hide it)",
		.suggestion = "The model waits for its data: give the DataLoader more workers."};
	s->findings[1] = (struct finding){.kind = "Overhead",
					  .severity = FINDING_LOW,
					  .subject = "the tracing itself",
					  .evidence = "42,126 probe hits",
					  .suggestion = "Trace fewer functions."};
	s->analyzed[0] = (struct process_analysis){.findings = s->findings, .findings_count = 2};
	s->analysis = (struct analysis){
		.verdict = "INPUT-BOUND: 48.6 % of each 12.5 ms step waits for the next batch (0 "
			   "workers; 1 would hide it); its own thread prepares it.",
		.processes = s->analyzed,
		.processes_count = 2};
}

static inline void top_scene_processes(struct top_scene *s)
{
	for (size_t i = 0; i < SCENE_POINTS; i++)
		s->points[i] = (struct live_point){.time_ns = (70 + i) * S,
						   .steps_count = 80,
						   .step_ns = (12 + i % 4) * MS,
						   .cpu_ns = (900 + i % 3 * 50) * MS,
						   .rss_bytes = 708ull << 20,
						   .live_bytes = PROFILE_ABSENT,
						   .gpu_busy_ns = PROFILE_ABSENT};
	s->points[SCENE_POINTS - 1].live_bytes = 1 << 20;
	s->points[SCENE_POINTS - 1].gpu_busy_ns = 300 * MS;
	s->processes[0] = part_process(&s->row, s->threads);
	s->processes[0].rss_bytes = 708ull << 20;
	s->processes[1] = part_process(&s->row, NULL);
	s->processes[1].index = 2;
	s->processes[1].pid = 77;
	s->processes[1].comm = HOSTILE;
	s->live[0] = (struct live_process){.process = &s->processes[0],
					   .period = {.flops = 15300000000},
					   .run = {.flops = 25300000000},
					   .steps_count = 798,
					   .period_phases = {[PROFILE_PHASE_DATA] = 486 * MS,
							     [PROFILE_PHASE_FORWARD] = 253 * MS,
							     [PROFILE_PHASE_BACKWARD] = 198 * MS,
							     [PROFILE_PHASE_OPTIMIZER] = 12 * MS,
							     [PROFILE_PHASE_UNTRACED] = 51 * MS},
					   .history = s->points,
					   .history_count = SCENE_POINTS};
	s->live[1] = (struct live_process){.process = &s->processes[1]};
}

static inline void top_scene(struct top_scene *s)
{
	*s = (struct top_scene){.row = part_row()};
	top_scene_functions(s);
	top_scene_code(s);
	top_scene_threads(s);
	top_scene_findings(s);
	top_scene_processes(s);
	s->profile = part_profile(s->processes, s->functions, SCENE_FUNCTIONS);
	s->profile.processes_count = 2;
	s->profile.overhead_percent = 3.2;
	s->profile.losses[PERFX_LOSS_RING_DROPS] = 5;
	s->snapshot = (struct live_snapshot){.number = 1,
					     .run_from_ns = 70 * S,
					     .from_ns = 99 * S,
					     .to_ns = 100 * S,
					     .profile = &s->profile,
					     .analysis = &s->analysis,
					     .analyzed = &s->profile,
					     .processes = s->live,
					     .processes_count = 2,
					     .rows = s->rows,
					     .rows_count = SCENE_FUNCTIONS,
					     .lines = s->live_lines,
					     .lines_count = 2,
					     .threads = s->live_threads,
					     .threads_count = 2,
					     .waits = &s->live_wait,
					     .waits_count = 1};
	s->snapshot.totals.hits_count = 22300;
	s->snapshot.totals.losses[PERFX_LOSS_RING_DROPS] = 5;
	s->snapshot.totals.losses[PERFX_LOSS_FOREIGN_HITS] = 9; /* takes nothing */
}

#endif
