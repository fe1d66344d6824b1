/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --gpu 1 and 2: the agents of a recording's processes (gpu/agents.h), and the watch for profilers
 * of the processes' own, for whom they step aside.
 */
#ifndef PERFX_SESSION_GPU_AGENTS_H
#define PERFX_SESSION_GPU_AGENTS_H

#include "gpu/agents.h"
#include "session/recording.h"

/* Precedes the recording's sink, and sees which process calls a profiler's functions of CUPTI.
 * Waits of the agents' own threads are dropped: they are not the program's. All-zero: no watch. */
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

/* Injects agents into the traced processes that use CUDA now. Reports failures, and records them in
 * the stream. Takes seconds for each process, at worst. */
void gpu_agents__inject(struct gpu_agents *gpu_agents);

/* NULL of NULL: there are none, and all of agents.h does nothing. */
struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents);

#endif
