// SPDX-License-Identifier: BSD-2-Clause
#include "session/gpu_agents.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- profilers of the processes' own ---------------------------------------------------------- */

static bool begins_a_profile(const char *function)
{
	return begins_with(function, "cuptiSubscribe") ||
	       !strcmp(function, "cuptiActivityRegisterCallbacks");
}

static void note_function(struct profiler_watch *watch, const struct perfx_function *function)
{
	const char *name = (const char *)function + function->hdr.fixed;

	if (watch->functions_count < sizeof(watch->functions) / sizeof(watch->functions[0]) &&
	    begins_a_profile(name))
		watch->functions[watch->functions_count++] = function->function;
}

static void note_span(struct profiler_watch *watch, const struct perfx_span *span)
{
	for (size_t i = 0; i < watch->functions_count; i++)
		if (watch->functions[i] == span->function &&
		    agents__records(watch->agents, span->process, span->tid))
			agents__step_aside(watch->agents, span->process);
}

static void watch_record(struct sink *sink, const void *record, size_t size)
{
	struct profiler_watch *watch = (struct profiler_watch *)sink;
	const struct perfx_record *header = record;

	sink_record(watch->next, record, size);
	if (header->kind == PERFX_KIND_SPAN)
		note_span(watch, record);
	else if (header->kind == PERFX_KIND_FUNCTION)
		note_function(watch, record);
}

_Static_assert(offsetof(struct profiler_watch, sink) == 0, "the sink is the watch");

struct sink *profiler_watch_init(struct profiler_watch *watch, struct sink *next)
{
	*watch = (struct profiler_watch){.sink.record = watch_record, .next = next};
	return &watch->sink;
}

/* --- agents ----------------------------------------------------------------------------------- */

/* An agent whose tracer hangs stops so long after the recording should have ended. */
#define GRACE_NS 60000000000ull

struct gpu_agents {
	struct gpu_agents_parts parts;
	struct agents *agents;
	uint64_t deadline_ns;
};

/* As soon as the stream has its PROCESS record: the kernel knows it before. */
static uint32_t process_of(void *ctx, pid_t pid)
{
	const struct gpu_agents *gpu_agents = ctx;
	struct perfx_traced_process traced;

	if (tracer__traced_process(gpu_agents->parts.tracer, pid, &traced) ||
	    process_table__pid(gpu_agents->parts.processes, traced.process) != pid)
		return 0;
	return traced.process;
}

struct gpu_agents *gpu_agents__new(const struct gpu_agents_parts *parts)
{
	const struct recorder_options *options = parts->options;
	struct gpu_agents *gpu_agents = calloc(1, sizeof(*gpu_agents));
	int err;

	if (!gpu_agents)
		return NULL;
	gpu_agents->parts = *parts;
	gpu_agents->agents = agents__new(&(struct agents_parts){
		.sink = parts->sink,
		.names = parts->names,
		.level = options->gpu_level,
		.graph_nodes = options->gpu_graph_nodes,
		.events_max = options->gpu_events_max,
		.process_of = process_of,
		.ctx = gpu_agents,
	});
	err = gpu_agents->agents ? 0 : -errno;
	if (!err && options->gpu_socket)
		err = agents__listen(gpu_agents->agents, options->gpu_socket);
	if (err) {
		gpu_agents__free(gpu_agents);
		errno = -err;
		return NULL;
	}
	if (options->duration_ns < UINT64_MAX - GRACE_NS - clock_monotonic_ns())
		gpu_agents->deadline_ns = clock_monotonic_ns() + options->duration_ns + GRACE_NS;
	/* until the recording begins nothing is a part of it */
	agents__begin(gpu_agents->agents, UINT64_MAX, gpu_agents->deadline_ns);
	parts->watch->agents = gpu_agents->agents;
	return gpu_agents;
}

void gpu_agents__free(struct gpu_agents *gpu_agents)
{
	if (!gpu_agents)
		return;
	gpu_agents->parts.watch->agents = NULL;
	agents__free(gpu_agents->agents);
	free(gpu_agents);
}

struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents)
{
	return gpu_agents ? gpu_agents->agents : NULL;
}

void gpu_agents__begin(struct gpu_agents *gpu_agents, uint64_t start_ns)
{
	if (gpu_agents)
		agents__begin(gpu_agents->agents, start_ns, gpu_agents->deadline_ns);
}
