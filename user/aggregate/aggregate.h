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
#define AGGREGATE_ACTIVITIES_MAX (1u << 20)

/* Values of the program's own: ids, and names in processes. Beyond it a record is undecoded. */
#define AGGREGATE_VALUES_MAX (1u << 18)

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

/* Computes what needs everything (sorting, percentages). The profile is owned by aggregate and
 * valid until the next call. NULL with errno ENOMEM. May be called in mid-stream (live view). */
const struct profile *aggregate__finish(struct aggregate *aggregate);

/* A live block: a heap block, a mapping, or the rest of a partly unmapped one. */
struct live_block {
	uint32_t process, merged; /* merged: the capture that the process comes from */
	enum perfx_domain domain;
	uint64_t address, size_bytes, time_ns;
	uint32_t stack, context;
	uint16_t allocator;
	bool mapped;
	uint32_t mode; /* sampled under the domain's mode of this number in that capture, from 1;
			  0: exact */
	uint32_t realloc_tid; /* this thread is reallocating it; 0: none */
};

/* In no order, except that blocks under reallocation come before the other blocks of their domain.
 * The callback's first value that is not 0 ends it and is returned. */
int aggregate__each_live_block(const struct aggregate *aggregate,
			       int (*each)(void *ctx, const struct live_block *live), void *ctx);

/* What is known of how right a process's account is: PERFX_BEFORE_, 0: it is exact, or there is
 * none. */
unsigned aggregate__doubts(const struct aggregate *aggregate, uint32_t process,
			   enum perfx_domain domain);

/* Releases the blocks of an ended process. */
void aggregate__forget_memory(struct aggregate *aggregate, uint32_t process);

/* At most so many blocks from now on; AGGREGATE_BLOCKS_MAX unless set. */
void aggregate__limit_blocks(struct aggregate *aggregate, uint32_t blocks_max);

#endif
