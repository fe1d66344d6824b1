/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agents of a recording, one in each process that uses a GPU: takes their connections, tells
 * them when to begin and to stop, and hands on what they record. A process can do with its end of
 * the socket and its ring what it likes; the worst is that its own records are missing, which is
 * said.
 */
#ifndef PERFX_GPU_AGENTS_H
#define PERFX_GPU_AGENTS_H

#include "decode/pack.h"
#include "gpu/gpu_names.h"
#include "perfx_agent.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct agents;

struct agents_parts {
	struct sink *sink;	 /* borrowed */
	struct gpu_names *names; /* borrowed */
	uint32_t level;		 /* --gpu: 1 or 2 */
	bool graph_nodes;	 /* --gpu-graphs node */
	uint64_t events_max;	 /* --gpu-max-events */
	/* The index of a traced process; 0: the sink has no PROCESS record of it yet; -ESRCH: the
	 * process is not traced, so it cannot have an agent. */
	int64_t (*process_of)(void *ctx, pid_t pid);
	/* NVML's number of the GPU with this UUID, below PERFX_GPU_DEVICES_MAX / 2; -ENOENT: NVML
	 * lists none; -ENODEV: there is no NVML, and devices keep CUDA's numbers; -EAGAIN: it is
	 * still being opened. NULL: as -ENODEV. */
	int (*device_of)(void *ctx, const char *uuid);
	void *ctx;
};

/* NULL with errno. */
struct agents *agents__new(const struct agents_parts *parts);
void agents__free(struct agents *agents);

#define AGENTS_NAME_BYTES PERFX_AGENT_SOCKET_NAME
/* A name that nobody can guess, for the socket to which agents connect (PERFX_GPU_SOCKET). */
void agents_socket_name(char name[AGENTS_NAME_BYTES]);
/* From now on agents can connect. 0 or -errno. */
int agents__listen(struct agents *agents, const char *name);
/* Adds an injected agent; takes over fd, the tracer's end of its socket. */
void agents__adopt(struct agents *agents, int fd, pid_t pid);
/* There is none in this process, and why: a GPU_STATE record, REFUSED. */
void agents__refused(struct agents *agents, pid_t pid, const char *why);

/* The recording begins: what starts before is not a part of it. deadline_ns: agents stop by
 * themselves then, 0: never. */
void agents__begin(struct agents *agents, uint64_t begin_ns, uint64_t deadline_ns);

/* A descriptor for epoll: readable when agents__poll has something to do. */
int agents__fd(const struct agents *agents);
/* Connections, messages, records: what is there now. Also to be called at each tick. */
void agents__poll(struct agents *agents);

/* Does an agent record in the process? */
bool agents__records(const struct agents *agents, uint32_t process);
/* Is it the thread of an agent? */
bool agents__has_thread(const struct agents *agents, uint32_t process, uint32_t tid);
/* A profiler of the process's own begins. */
void agents__step_aside(struct agents *agents, uint32_t process);

/* Sums, and losses, since the last time: GPU_OVERFLOW, LOSS. NULL: nothing. */
void agents__emit_sums(struct agents *agents);
/* The recording ended at end_ns: stops all agents and takes their last records. Seconds, at
 * worst. */
void agents__stop(struct agents *agents, uint64_t end_ns);

/* The bytes of libperfx-gpu.so, which is put into a running process from here: attaching needs no
 * file beside the program. They are constant. */
const void *agent_image(size_t *bytes);

/* "13.0 (130001)", of cuptiGetVersion's number. */
void cupti_release(uint32_t version, char *text, size_t size);

#endif
