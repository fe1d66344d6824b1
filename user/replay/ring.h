/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flight recorder: the last seconds of a capture in memory, as the blocks that a file would have.
 *
 *   blocks ──▶ kept, the newest last ──▶ opened, told to the past (past.h) and given back
 *                      └──── a dump: what the past tells, the kept blocks, what closes it ──▶ file
 *
 * So there is one keyframe, always that of where the oldest block begins. It is moved by segments
 * (PERFX_KIND_SEGMENT), for at these sums are told: the sums in the kept segments are those of the
 * time that they cover. Not thread safe: it belongs to the writer's thread.
 */
#ifndef PERFX_REPLAY_RING_H
#define PERFX_REPLAY_RING_H

#include "capture/block.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A quarter of what a ring may use is for the past's live blocks. */
#define RING_PAST_SHARE 4

struct ring;

/* What is to be written where, and what became of it. */
struct ring_dump {
	char *path;	       /* owned */
	char *why;	       /* owned; "": it is the end */
	uint64_t recording_ns; /* when the recording began */
	uint64_t to_ns;	       /* where it ends */
	/* Records that close a capture, END the last; owned. */
	char *closing;
	size_t closing_bytes;

	int err;	  /* out: 0 or -errno */
	uint64_t from_ns; /* out: where it begins */
	uint64_t bytes;	  /* out: of the file */
	bool full;	  /* out: memory was too small for all of the time */
};

void ring_dump__free(struct ring_dump *dump);

/* NULL with errno ENOMEM. */
struct ring *ring__new(uint64_t window_ns, uint64_t bytes_max);
void ring__free(struct ring *ring);

/* Adds a block (block.h). segment_ns: with it a segment ends, then; 0: none does. 0 or -ENOMEM. */
int ring__add(struct ring *ring, const void *block, size_t bytes, uint64_t segment_ns);
/* Writes a capture. The file of that name, if there is one, stays as it is until the new one is
 * whole; half of one is called PATH.part. */
void ring__dump(struct ring *ring, struct packer *packer, struct ring_dump *dump);
/* Of the blocks. */
uint64_t ring__bytes(const struct ring *ring);

#endif
