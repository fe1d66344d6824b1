// SPDX-License-Identifier: BSD-2-Clause
#include "session/recording.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"
#include "gpu/agents.h"
#include "inject/inject.h"
#include "perfx_agent.h"
#include "proc/maps.h"
#include "session/gpus.h"
#include "session/process_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void watch_record(struct sink *sink, const void *record, size_t size)
{
	struct profiler_watch *watch = (struct profiler_watch *)sink;
	const struct perfx_record *header = record;
	const struct perfx_blocked *blocked = record;
	const struct perfx_sample *sample = record;
	const struct perfx_span *span = record;
	const struct perfx_function *function = record;
	const char *name = (const char *)record + header->fixed;

	if (header->kind == PERFX_KIND_BLOCKED &&
	    agents__has_thread(watch->agents, blocked->process, blocked->tid))
		return;
	if (header->kind == PERFX_KIND_SAMPLE && sample->state != PERFX_SAMPLE_ON_CPU &&
	    agents__has_thread(watch->agents, sample->process, sample->tid))
		return;
	sink_record(watch->next, record, size);
	if (header->kind == PERFX_KIND_FUNCTION &&
	    watch->functions_count < sizeof(watch->functions) / sizeof(watch->functions[0]) &&
	    (begins_with(name, "cuptiSubscribe") ||
	     !strcmp(name, "cuptiActivityRegisterCallbacks")))
		watch->functions[watch->functions_count++] = function->function;
	for (size_t i = 0; header->kind == PERFX_KIND_SPAN && i < watch->functions_count; i++)
		if (watch->functions[i] == span->function &&
		    agents__records(watch->agents, span->process) &&
		    !agents__has_thread(watch->agents, span->process, span->tid))
			agents__step_aside(watch->agents, span->process);
}

_Static_assert(offsetof(struct profiler_watch, sink) == 0, "the sink is the watch");

struct sink *profiler_watch_init(struct profiler_watch *watch, struct sink *next)
{
	*watch = (struct profiler_watch){.sink.record = watch_record, .next = next};
	return &watch->sink;
}

/* An agent whose tracer hangs stops so long after the recording should have ended. */
#define GRACE_NS 60000000000ull

struct gpu_agents {
	struct recording *recording;
	struct agents *agents;
	uint64_t deadline_ns;
};

/* As soon as the stream has its PROCESS record: the kernel knows it before. */
static int64_t process_of(void *ctx, pid_t pid)
{
	const struct gpu_agents *gpu_agents = ctx;
	struct perfx_traced_process traced;

	if (tracer__traced_process(gpu_agents->recording->tracer, pid, &traced))
		return -ESRCH;
	if (process_table__pid(gpu_agents->recording->processes, traced.process) != pid)
		return 0;
	return traced.process;
}

static int device_of(void *ctx, const char *uuid)
{
	const struct gpu_agents *gpu_agents = ctx;

	return gpus__find(gpu_agents->recording->gpus, uuid);
}

/* A thread in a CUDA call comes out of it, or to the next one. */
#define INJECT_NS 5000000000ull

static bool uses_cuda(pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *modules = NULL;
	ssize_t count = maps ? maps__modules(maps, &modules) : 0;
	bool found = false;

	for (ssize_t i = 0; i < count && !found; i++)
		found = begins_with(modules[i].base, "libcuda.so");
	free(modules);
	maps__free(maps);
	return found;
}

static void inject_into(struct gpu_agents *gpu_agents, pid_t pid)
{
	static const char *const busy[] = {"libcuda.so", "libcudart.so", "libcupti.so", NULL};
	static const char *const functions[] = {"cudaLaunchKernel",	 "cudaMemcpyAsync",
						"cudaStreamSynchronize", "cudaEventRecord",
						"cudaDeviceSynchronize", NULL};
	const char *socket = gpu_agents->recording->options->gpu_socket;
	bool debug = getenv("PERFX_DEBUG");
	struct inject_request request = {.pid = pid,
					 .name_bytes = PERFX_AGENT_SOCKET_NAME,
					 .socket_name = socket,
					 .deadline_ns = clock_monotonic_ns() + INJECT_NS,
					 .busy_modules = busy,
					 .functions = functions};
	struct inject_result result = {.socket_fd = -1};
	size_t config = 0; /* offset in the image of where it says which its socket is */

	request.image = agent_image(&request.image_bytes);
	while (config + sizeof(struct perfx_agent_config) <= request.image_bytes &&
	       memcmp((const char *)request.image + config, PERFX_AGENT_MAGIC,
		      sizeof(PERFX_AGENT_MAGIC) - 1) != 0)
		config += 8;
	request.fd_offset = config + offsetof(struct perfx_agent_config, socket_fd);
	request.name_offset = config + offsetof(struct perfx_agent_config, socket_name);
	/* Without holding a thread, where its Python can do it; the agent connects by itself. */
	if (socket && !inject__by_python(&request, &result)) {
		if (debug)
			msg_say("pid %d: the GPU agent was loaded by its own Python", (int)pid);
		return;
	}
	if (socket && debug)
		msg_say("pid %d: the GPU agent was not loaded by its own Python: %s", (int)pid,
			result.why);
	result = (struct inject_result){.socket_fd = -1};
	if (inject__library(&request, &result)) {
		agents__refused(gpu_agents->agents, pid, result.why);
		return;
	}
	if (debug)
		msg_say("pid %d: the GPU agent was put in %s: a thread was held for %" PRIu64
			" us, of which dlopen took %" PRIu64 " us",
			(int)pid, result.where, result.held_ns / 1000, result.dlopen_ns / 1000);
	agents__adopt(gpu_agents->agents, result.socket_fd, pid);
}

void gpu_agents__inject(struct gpu_agents *gpu_agents)
{
	size_t count = 0, found = 0;
	const pid_t *pids = process_table__pids(gpu_agents->recording->processes, &count);

	for (size_t i = 0; i < count; i++) {
		if (!uses_cuda(pids[i]))
			continue;
		found++;
		inject_into(gpu_agents, pids[i]);
	}
	if (!found)
		msg_say("--gpu %u: no traced process uses CUDA: libcuda.so.1 is not mapped",
			gpu_agents->recording->options->gpu_level);
}

struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents)
{
	return gpu_agents ? gpu_agents->agents : NULL;
}

static int open_gpu_agents(struct recording *recording)
{
	const struct recorder_options *options = recording->options;
	struct gpu_agents *gpu_agents;
	uint64_t now_ns = clock_monotonic_ns();

	if (!options->gpu_level)
		return 0;
	gpu_agents = recording->gpu_agents = calloc(1, sizeof(*gpu_agents));
	if (!gpu_agents)
		return -ENOMEM;
	gpu_agents->recording = recording;
	gpu_agents->agents = agents__new(&(struct agents_parts){
		.sink = recording->sink,
		.names = recording->gpu_names,
		.level = options->gpu_level,
		.graph_nodes = options->gpu_graph_nodes,
		.events_max = options->gpu_events_max,
		.process_of = process_of,
		.device_of = device_of,
		.ctx = gpu_agents,
	});
	if (!gpu_agents->agents)
		return -errno;
	if (options->duration_ns < UINT64_MAX - GRACE_NS - now_ns)
		gpu_agents->deadline_ns = now_ns + options->duration_ns + GRACE_NS;
	/* until the recording begins nothing is a part of it */
	agents__begin(gpu_agents->agents, UINT64_MAX, gpu_agents->deadline_ns);
	recording->profiler_watch->agents = gpu_agents->agents;
	return options->gpu_socket ? agents__listen(gpu_agents->agents, options->gpu_socket) : 0;
}

static void begin_gpu_agents(struct recording *recording)
{
	struct gpu_agents *gpu_agents = recording->gpu_agents;

	if (gpu_agents)
		agents__begin(gpu_agents->agents, recording->start_ns, gpu_agents->deadline_ns);
}

VERB(poll_agents, agents__poll(gpu_agents__agents(recording->gpu_agents)))
VERB(end_gpu_agents, agents__stop(gpu_agents__agents(recording->gpu_agents), recording->ended_ns))

static int agents_fd(const struct recording *recording)
{
	return recording->gpu_agents ? agents__fd(recording->gpu_agents->agents) : -1;
}

static void close_gpu_agents(struct recording *recording)
{
	if (!recording->gpu_agents)
		return;
	recording->profiler_watch->agents = NULL;
	agents__free(recording->gpu_agents->agents);
	free(recording->gpu_agents);
}

const struct recording_part gpu_agents_part = {.name = "GPU agents",
					       .open = open_gpu_agents,
					       .begin = begin_gpu_agents,
					       .fd = agents_fd,
					       .on_readable = poll_agents,
					       .tick = poll_agents,
					       .end = end_gpu_agents,
					       .close = close_gpu_agents};
