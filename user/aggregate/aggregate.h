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

struct aggregate;

struct aggregate *aggregate__new(void);
void aggregate__free(struct aggregate *aggregate);

/* Adds one event in the order of the stream. 0, or -ENOMEM. An event that names a process,
 * function or context that the stream has not described is counted as undecoded, not trusted. */
int aggregate__add(struct aggregate *aggregate, const struct event *event);

/* Adds to a loss that the reader itself counted (undecoded records, truncated bytes). */
void aggregate__lose(struct aggregate *aggregate, enum perfx_loss_kind loss, uint64_t count);

/* Computes what needs everything (sorting, percentages). The profile is owned by aggregate and
 * valid until the next call. NULL with errno ENOMEM. May be called in mid-stream (live view). */
const struct profile *aggregate__finish(struct aggregate *aggregate);

#endif
