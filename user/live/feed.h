/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs `live` in a thread of its own. The thread that drains the rings only copies records, so a
 * slow snapshot does not delay it.
 *
 *   drain ─ records ─▶ batch being filled ⇄ batch being read ─▶ live ─▶ snapshot ─▶ on_snapshot
 *
 * There are two batches. A tick swaps them if the thread has read the other one. When a batch is
 * full (LIVE_FEED_BYTES), the draining thread waits for the other one; meanwhile the rings fill,
 * and the kernel counts the records that it drops.
 */
#ifndef PERFX_LIVE_FEED_H
#define PERFX_LIVE_FEED_H

#include "live/live.h"

#include <stddef.h>
#include <stdint.h>

#define LIVE_FEED_BYTES ((size_t)128 << 20)

struct live_feed;

/* live: borrowed; only the thread may use it between start and stop. NULL with errno. */
struct live_feed *live_feed__new(struct live *live);
void live_feed__free(struct live_feed *feed);

/* on_snapshot is called by the thread; the snapshot is borrowed until it returns. 0 or -errno. */
int live_feed__start(struct live_feed *feed,
		     void (*on_snapshot)(void *ctx, const struct live_snapshot *snapshot),
		     void *ctx);
/* Returns when the thread has read all records and has ended. */
void live_feed__stop(struct live_feed *feed);

/* Copies a record; before start it is dropped. 0, -ENOMEM, or an earlier error of the thread. */
int live_feed__record(struct live_feed *feed, const void *record, size_t size);
/* To be called at each tick: hands the batch to the thread if it is idle. */
void live_feed__tick(struct live_feed *feed, uint64_t now_ns);
/* live__known_from_ns() after the batch that the thread read last. */
uint64_t live_feed__known_from_ns(struct live_feed *feed);

#endif
