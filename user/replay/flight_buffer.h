/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flight recorder: the last seconds of a capture in memory, as the blocks that a file would have.
 *
 *   blocks ──▶ kept, the newest last ──▶ opened, added to the keyframe (keyframe.h), given back
 *                      └──── a dump: the keyframe, the kept blocks, what closes it ──▶ file
 *
 * So there is one keyframe, always that of where the oldest block begins. It is moved by segments
 * (PERFX_KIND_SEGMENT), for at these sums are emitted: the sums in the kept segments are those of
 * the time that they cover. Not thread safe: it belongs to the writer's thread.
 */
#ifndef PERFX_REPLAY_FLIGHT_BUFFER_H
#define PERFX_REPLAY_FLIGHT_BUFFER_H

#include "capture/capture.h"

#include <stdint.h>

/* A quarter of what a flight buffer may use is for the keyframe's live blocks. */
#define FLIGHT_KEYFRAME_SHARE 4

/* A store for capture_writer__new_store. NULL with errno ENOMEM. */
struct block_store *flight_buffer__new(uint64_t length_ns, uint64_t bytes_max);

#endif
