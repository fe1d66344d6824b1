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

#include "capture/capture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A quarter of what a ring may use is for the past's live blocks. */
#define RING_PAST_SHARE 4

/* A store for capture_writer__new_store. NULL with errno ENOMEM. */
struct block_store *ring__new(uint64_t window_ns, uint64_t bytes_max);

#endif
