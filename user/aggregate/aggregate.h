/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events → state. Needs neither root nor the traced process: a replayed capture gives the same
 * profile as the live run. Memory is bounded by functions × processes × calling contexts, never by
 * the number of calls.
 */
#ifndef PERFX_AGGREGATE_AGGREGATE_H
#define PERFX_AGGREGATE_AGGREGATE_H

#include "aggregate/profile.h"
#include "decode/event.h"

#define AGGREGATE_PROCESSES_MAX (1u << 16)
#define AGGREGATE_FUNCTIONS_MAX (1u << 20)
#define AGGREGATE_CONTEXTS_MAX	(1u << 20)
#define AGGREGATE_THREADS_MAX	(1u << 16) /* of a process */

struct aggregate;

struct aggregate *aggregate__new(void);
void aggregate__free(struct aggregate *aggregate);

/*
 * Adds one event in the order of the stream. 0, or -ENOMEM.
 *
 * A span may come before the records that describe its process, function and context, for those
 * are written by user space, which hears of them later. It is counted at once; what is still not
 * described at the end is left out and counted as undecoded. A context that is not described, or 0,
 * costs only the knowledge of the caller. Ids beyond AGGREGATE_*_MAX and records that contradict
 * earlier ones (a context that changes its function) are undecoded, not trusted.
 *
 * BOOK, HITS and LOSS records add up. A loss is reported once: under its process or under 0.
 */
int aggregate__add(struct aggregate *aggregate, const struct event *event);

/* Adds to a loss that the reader itself counted (undecoded records, truncated bytes). */
void aggregate__lose(struct aggregate *aggregate, enum perfx_loss_kind loss, uint64_t count);

/* Computes what needs everything (sorting, percentages). The profile is owned by aggregate and
 * valid until the next call. NULL with errno ENOMEM. May be called in mid-stream (live view). */
const struct profile *aggregate__finish(struct aggregate *aggregate);

#endif
