/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `live` in a thread of its own: the thread that drains the rings only copies records, so no
 * snapshot, however long it takes, makes it late.
 *
 *   drain ─ records ─▶ batch being filled ⇄ batch being read ─▶ live ─▶ snapshot ─▶ on_snapshot
 *
 * There are two batches, which change places at a tick when the second one has been read. One that
 * is full (LIVE_FEED_BYTES) waits for the other: then the rings fill, and the kernel counts what
 * finds no room there.
 */
#ifndef PERFX_LIVE_FEED_H
#define PERFX_LIVE_FEED_H

#include "live/live.h"

#include <stddef.h>
#include <stdint.h>

#define LIVE_FEED_BYTES ((size_t)128 << 20)

struct live_feed;

/* live is borrowed, and the thread's between start and stop. NULL with errno. */
struct live_feed *live_feed__new(struct live *live);
void live_feed__free(struct live_feed *feed);

/* on_snapshot is called by the thread; the snapshot is borrowed until it returns. 0 or -errno. */
int live_feed__start(struct live_feed *feed,
		     void (*on_snapshot)(void *ctx, const struct live_snapshot *snapshot),
		     void *ctx);
/* All records that came until now are read, then the thread ends. */
void live_feed__stop(struct live_feed *feed);

/* A record. 0 or -errno: the first error of reading. */
int live_feed__record(struct live_feed *feed, const void *record, size_t size);
/* At each tick of the clock. */
void live_feed__tick(struct live_feed *feed, uint64_t now_ns);
/* As live__known_from_ns, of some ticks ago. */
uint64_t live_feed__known_from_ns(struct live_feed *feed);

#endif
