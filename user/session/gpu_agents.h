/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --gpu 1 and 2: the agents of a recording's processes (gpu/agents.h), and the watch for profilers
 * of the processes' own, for whom they step aside.
 */
#ifndef PERFX_SESSION_GPU_AGENTS_H
#define PERFX_SESSION_GPU_AGENTS_H

#include "gpu/agents.h"
#include "session/recording.h"

/* Stands before the recording's sink, and sees who calls the functions by which a profiler takes
 * CUPTI. What agents' own threads wait for goes no further: the program does not. All-zero is none.
 */
struct profiler_watch {
	struct sink sink;
	struct sink *next;
	struct agents *agents; /* NULL: not yet */
	uint32_t functions[8]; /* by FUNCTION record: such a function, in each file that has it */
	size_t functions_count;
};

/* The sink to use from now on. */
struct sink *profiler_watch_init(struct profiler_watch *watch, struct sink *next);

struct gpu_agents;

/* Puts agents into the traced processes that use CUDA by now. What does not work is said, and is in
 * the stream. Seconds, at worst, for each of them. */
void gpu_agents__inject(struct gpu_agents *gpu_agents);

/* NULL of NULL: there are none, and all of agents.h does nothing. */
struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents);

#endif
