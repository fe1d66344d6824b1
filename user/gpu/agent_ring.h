/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracer's side of an agent's ring (perfx_agent.h): memory that a traced process writes, at any
 * time and whatever it likes. A record is copied out, and only the copy is looked at.
 */
#ifndef PERFX_GPU_AGENT_RING_H
#define PERFX_GPU_AGENT_RING_H

#include "perfx_agent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
