/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where records go: through decode into an aggregate, into a capture file, or both. Live and
 * replayed records take this same way, so that a report made live equals one made from a capture.
 */
#ifndef PERFX_REPLAY_PIPELINE_H
#define PERFX_REPLAY_PIPELINE_H

#include "aggregate/aggregate.h"
#include "capture/capture.h"
#include "decode/pack.h"
#include "replay/time_slice.h"

#include <stdbool.h>
#include <stdint.h>

struct pipeline {
	struct sink sink;		/* pipeline_init */
	struct aggregate *aggregate;	/* borrowed; NULL: not wanted */
	struct capture_writer *capture; /* borrowed; NULL: not wanted */
	uint64_t capture_max;		/* bytes of the file; 0: as long as it gets */
	bool full;			/* what pipeline_full said last */
	/* Sees each event; what is not 0 ends a replay. NULL: not wanted. */
	int (*on_event)(void *ctx, const struct event *event);
	void *ctx;
	struct time_slice *time_slice; /* borrowed; what of a replay goes on. NULL: all of it */
	int err;		       /* the first error: -ENOSPC, -ENOMEM, …; later records are
								 still aggregated */
};

/* Makes the sink of it; the rest is the caller's to fill. */
void pipeline_init(struct pipeline *pipeline);

/* The file gets what it has been given, also the disk's errors are noticed. */
void pipeline_flush(struct pipeline *pipeline);

/* The file has reached capture_max: time to end the recording. */
bool pipeline_full(struct pipeline *pipeline);

/* Feeds a capture to a pipeline: 0 or -errno of reading; -ERANGE: it ends before the slice begins.
 * Damage and a cut tail are counted as losses in the aggregate and are not errors; the reader knows
 * them too. */
int pipeline_replay(struct pipeline *pipeline, struct capture_reader *reader);

#endif
