/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events → state. Needs neither root nor the traced process: a replayed capture gives the same
 * profile as the live run. Memory is bounded by functions × processes × calling contexts, and by
 * what is live in the traced processes, never by the number of calls: 37 to 43 bytes a live block
 * (a block 32, its place in the table 5 to 11), 1.4 GB at AGGREGATE_BLOCKS_MAX.
 */
#ifndef PERFX_AGGREGATE_AGGREGATE_H
#define PERFX_AGGREGATE_AGGREGATE_H

#include "aggregate/profile.h"
#include "base/grow.h"
#include "decode/decode.h"

#define AGGREGATE_PROCESSES_MAX (1u << 16)
#define AGGREGATE_FUNCTIONS_MAX (1u << 20)
#define AGGREGATE_CONTEXTS_MAX	(1u << 20)
#define AGGREGATE_THREADS_MAX	(1u << 16) /* of a process */

/* Memory. Beyond the first three something is given up and said: a block that is not kept makes
 * live bytes a lower bound, hotspots fall together into one without a stack. Beyond the others a
 * record is undecoded. */
#define AGGREGATE_BLOCKS_MAX	 (1u << 25) /* live at once, of all processes */
#define AGGREGATE_MAPPINGS_MAX	 (1u << 20)
#define AGGREGATE_HOTSPOTS_MAX	 (1u << 17)
#define AGGREGATE_ALLOCATORS_MAX PERFX_ALLOCATOR_MMAP /* highest id */
#define AGGREGATE_MODES_MAX \
	(2 * PERFX_RECORDING_WINDOWS_MAX + 1024) /* of a domain; a pause is two */

/* Call stacks, of allocations, samples and contexts. Beyond it a record is undecoded. */
#define AGGREGATE_STACKS_MAX  (1u << 18)
#define AGGREGATE_FRAMES_MAX  (1u << 20)
#define AGGREGATE_INLINED_MAX 256 /* frames at one address */

/* Samples that differ, and waits. Beyond it they lose stack and object. */
#define AGGREGATE_ACTIVITIES_MAX    (1u << 20)
#define AGGREGATE_THREAD_STATES_MAX (1u << 20) /* of a dump, in all processes */

/* Values of the program's own: ids, and names in processes. Beyond it a record is undecoded. */
#define AGGREGATE_VALUES_MAX (1u << 18)

/* Groups of files: ids, and groups in processes. Beyond it a record is undecoded. */
#define AGGREGATE_FILE_GROUPS_MAX (1u << 18)

/* GPUs. Beyond it a record is undecoded; kinds of work (kernels by shape) fall into one. */
#define AGGREGATE_GPU_NAMES_MAX (1u << 16)
#define AGGREGATE_GPU_WORKS_MAX (1u << 14)

struct aggregate;

struct aggregate *aggregate__new(void);
void aggregate__free(struct aggregate *aggregate);

/*
 * Adds one event in the order of the stream. 0, or -ENOMEM.
 *
 * A span may come before the records that describe its process, function and context, for those
 * are written by user space, later. It is counted at once; what is still not described at the end
 * is left out and counted as undecoded. A context that is not described, or 0, costs only the
 * knowledge of the caller. Ids beyond AGGREGATE_*_MAX and records that contradict
 * earlier ones (a context that changes its function) are undecoded, not trusted. Allocations and
 * frees are treated alike; their stacks, frames and allocators may come at any time.
 *
 * OVERFLOW_CALLS, HITS and LOSS records add up. A loss is reported once: under its process or under
 * 0.
 */
int aggregate__add(struct aggregate *aggregate, const struct event *event);

/* Does the call affect steps? With such calls alone, and all other records, the profile's steps are
 * whole but for what they compute. */
bool aggregate__shows_step(const struct aggregate *aggregate, const struct perfx_span *span);

/* Steps that have begun in `before` end here: both are parts of one stream, and this one has got
 * all that still holds (replay/keyframe.h), and no event yet. `before` may be finished no more; its
 * profile stays. 0 or -ENOMEM. */
int aggregate__continue(struct aggregate *aggregate, struct aggregate *before, uint64_t from_ns);

/* Adds to a loss that the reader itself counted (undecoded records, truncated bytes). */
void aggregate__lose(struct aggregate *aggregate, enum perfx_loss_kind loss, uint64_t count);

/* Is it a capture of perfx-trace dump? Known at its end. */
bool aggregate__is_dump(const struct aggregate *aggregate);

/* Computes what needs everything (sorting, percentages). The profile is owned by aggregate and
 * valid until the next call. NULL with errno ENOMEM. May be called in mid-stream (live view). */
const struct profile *aggregate__finish(struct aggregate *aggregate);

/* Grace period for the last records of a process after its end. */
#define AGGREGATE_GRACE_NS 2000000000u

/* Takes a record of a keyframe (replay/keyframe.h); a value other than 0 ends the keyframe and is
 * returned. */
typedef int keyframe_emit(void *ctx, const struct perfx_record *record);

/* Writes the memory modes, the live blocks and the doubts about them, as a capture that begins at
 * from_ns has them before its first allocation. Leaves out processes that ended more than
 * AGGREGATE_GRACE_NS before. 0, -ENOMEM or what emit returned. */
int aggregate__write_memory(const struct aggregate *aggregate, uint64_t from_ns,
			    keyframe_emit *emit, void *ctx);

/* Adds the stacks that live blocks name: MAP64_PAIR(process, stack). 0 or -ENOMEM. */
int aggregate__live_stacks(const struct aggregate *aggregate, struct map64 *stacks);

/* Releases the blocks of an ended process. */
void aggregate__forget_memory(struct aggregate *aggregate, uint32_t process);

/* At most so many blocks from now on; AGGREGATE_BLOCKS_MAX unless set. */
void aggregate__limit_blocks(struct aggregate *aggregate, uint32_t blocks_max);

#endif
