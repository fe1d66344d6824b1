/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_GPU_INTERNAL_H
#define PERFX_GPU_INTERNAL_H

#include "base/grow.h"
#include "decode/pack.h"
#include "gpu/gpu_names.h"
#include "perfx_agent.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The tracer's side of an agent's ring (perfx_agent.h). A traced process may write anything into
 * this memory at any time, so a record is copied before it is read.
 */

struct agent_ring {
	struct perfx_agent_ring *shared;
	size_t bytes; /* mapped */
	uint64_t tail;
	bool is_damaged; /* nothing more is read from it */
};

/* Makes a ring in a memfd, which is sealed: the process cannot make it shorter under the tracer.
 * bytes: PERFX_AGENT_RING_DATA and a power of two. The memfd, the caller's to close, or -errno. */
int agent_ring_make(struct agent_ring *ring, size_t bytes);
void agent_ring_unmap(struct agent_ring *ring);
/* The same over memory that is there, with a header by agent_ring_init. */
void agent_ring_init(struct agent_ring *ring, void *memory, size_t bytes);

/* A copy, whose sizes are right: text ends with NUL, enums are in range. */
union agent_record {
	struct perfx_agent_record hdr;
	struct perfx_agent_device device;
	struct perfx_agent_activity activity;
	struct perfx_agent_call call;
	struct {
		struct perfx_agent_name name;
		char text[PERFX_AGENT_NAME_MAX];
	};
};

/* 1: the next record; 0: there is none now; -EBADMSG: the ring is damaged. */
int agent_ring_next(struct agent_ring *ring, union agent_record *record);
struct perfx_agent_losses agent_ring_losses(const struct agent_ring *ring);

/*
 * An agent's records → records of the stream: processes, threads, devices and names by the
 * recording's numbers. Beyond a limit activities are summed up by kernel, stream and shape.
 */

/* Devices that NVML does not list (parts of a GPU: MIG) have numbers from here on, so that they
 * take neither name nor peak of another. The driver has room for 32 GPUs. */
#define AGENT_DEVICES_UNLISTED (PERFX_GPU_DEVICES_MAX / 2)

struct gpu_events {
	struct sink *sink;	   /* borrowed */
	struct gpu_names *names;   /* borrowed */
	uint64_t events_max;	   /* activities and calls that become records of their own */
	uint64_t begin_ns, end_ns; /* what starts before or after is not of the recording */
	/* struct agents_parts */
	int (*device_of)(void *ctx, const char *uuid);
	void *ctx;
	/* Kept here. */
	uint64_t events_count;
	uint64_t summed_count; /* activities beyond the limit */
	struct map64 sums_by_key;
	struct perfx_gpu_overflow *sums;
	size_t sums_count, sums_capacity;
};

/* Sends what has been added to the sums since the last time: OVERFLOW. */
void gpu_events_emit_sums(struct gpu_events *events);
void gpu_events_clear(struct gpu_events *events);

struct agent_events {
	struct gpu_events *all;
	pid_t pid;
	uint32_t process;
	bool has_own_pids; /* it lives in another pid namespace than the tracer */
	uint8_t devices[PERFX_GPU_DEVICES_MAX]; /* by CUDA's ordinal: the recording's */
	uint32_t *names;			/* by the agent's number: ours */
	size_t names_capacity;
	struct map64 threads; /* by the process's own thread id: the one that we see */
};

void agent_events_init(struct agent_events *events, struct gpu_events *all, pid_t pid,
		       uint32_t process);
void agent_events_clear(struct agent_events *events);
/* The thread that the process knows by this id; 0: it has ended. */
uint32_t agent_events_thread(struct agent_events *events, uint32_t own_id);
void agent_events_add(struct agent_events *events, const union agent_record *record);

#endif
