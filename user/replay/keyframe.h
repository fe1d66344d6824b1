/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A keyframe: the records with which a capture that begins later must begin, because they still
 * hold. Names, functions, probes, calling contexts and stacks as they came; descriptions of
 * processes and their last samples; live memory. Calls and sums are over. Processes are forgotten
 * two seconds after their end, because their last records may come late.
 *
 * Memory: that of these records, bounded by the kernel's tables that they describe (65,536 calling
 * contexts and as many stacks, of at most 536 bytes each); 43 bytes for each live block, at most as
 * many as it may hold (with more, live bytes are a lower bound, and marked so); 600 for
 * each place that allocates.
 */
#ifndef PERFX_REPLAY_KEYFRAME_H
#define PERFX_REPLAY_KEYFRAME_H

#include "aggregate/aggregate.h"

struct keyframe;

/* blocks_max: live blocks that it holds; 0: as many as an aggregate does. NULL with errno ENOMEM.
 */
struct keyframe *keyframe__new(uint32_t blocks_max);
/* The stream has no end: keeps the newest 65,536 of the stacks that nothing in the keyframe names
 * and of the objects that threads wait for, because those in use are described anew. */
void keyframe__goes_on(struct keyframe *keyframe);
/* Takes live blocks from an aggregate to which the caller adds each event, too. Called before the
 * first event, and again when the keyframe was written to the aggregate's successor. */
void keyframe__borrow_memory(struct keyframe *keyframe, struct aggregate *aggregate);
void keyframe__free(struct keyframe *keyframe);

/* The next event of the stream. 0 or -ENOMEM. */
int keyframe__add(struct keyframe *keyframe, const struct event *event);

/* The beginning of a capture that begins at from_ns: all but usage and memory. */
int keyframe__write(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx);
/* Memory modes and live blocks; to be written before the first allocation or free. */
int keyframe__write_memory(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			   void *ctx);
/* Both, and between them the last usage samples of the processes, with the time from_ns. */
int keyframe__write_all(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			void *ctx);

/* The TIME_SLICE record, where the stream is itself a time slice; otherwise NULL. */
const struct perfx_time_slice *keyframe__time_slice(const struct keyframe *keyframe,
						    const char **why);

#endif
