/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is still true of a stream that has gone by: the records that a capture which begins later
 * must begin with to be whole in itself (a keyframe). Names, functions, probes, calling contexts
 * and stacks as they came; of a process its description and the last samples; of memory what lives.
 * Calls, sums and what has ended are over: processes are forgotten two seconds after their end, for
 * their last records may come late.
 *
 * Memory: that of these records, bounded by the kernel's tables that they describe (65,536 calling
 * contexts and as many stacks, of at most 536 bytes each); 43 bytes for each live block, at most as
 * many as it is told to hold (more make live bytes a lower bound, which the capture says); 600 for
 * each place that allocates.
 */
#ifndef PERFX_REPLAY_PAST_H
#define PERFX_REPLAY_PAST_H

#include "decode/event.h"

#include <stddef.h>
#include <stdint.h>

struct past;

/* blocks_max: live blocks that it holds; 0: as many as an aggregate does. NULL with errno ENOMEM.
 */
struct past *past__new(uint32_t blocks_max);
void past__free(struct past *past);

/* The next event of the stream. 0 or -ENOMEM. */
int past__add(struct past *past, const struct event *event);

/* Takes a record; what is not 0 ends the telling and is returned. */
typedef int past_emit(void *ctx, const void *record, size_t size);

/* The beginning of a capture that begins at from_ns: all but usage and memory. */
int past__tell(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx);
/* The processes' last samples of usage, as if they were of from_ns. */
int past__tell_usage(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx);
/* What is recorded of memory, and what lives: comes before the first allocation or free. */
int past__tell_memory(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx);

/* When the recording began; 0: nothing has said so yet. */
uint64_t past__start_ns(const struct past *past);
/* It was itself a part of a recording: what was said of that. NULL: it was not. */
const struct perfx_part *past__part(const struct past *past, const char **why);

#endif
