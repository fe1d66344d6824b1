/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording by HTTP: /metrics, a live page, reports of the last seconds, captures.
 *
 *   recording ─▶ a snapshot, as texts ─▶ (a pointer, under a lock) ─▶ HTTP
 *                                 a file of the last seconds ─▶ job ─▶ HTTP
 *
 * The feed's thread (live/live.h) makes the texts. Neither it nor the recording's thread waits for
 * a client.
 */
#ifndef PERFX_SERVE_SERVE_H
#define PERFX_SERVE_SERVE_H

#include "analyze/rule_set.h"
#include "live/live.h"
#include "push/push.h"
#include "serve/http.h"

#include <stdint.h>

struct serve_options {
	struct listen_address address;
	const char *token_file; /* NULL: none */
	const char *tls_cert, *tls_key;
	struct push *push; /* borrowed; NULL: none */
	uint64_t push_every_ns;
	uint64_t flight_ns;	      /* as long as a report can be */
	const struct rule_set *rules; /* borrowed; NULL: those that are built in */
};

struct serve;

/* Listens, and answers that the recording has not begun. NULL after a message, with an exit code
 * (base/message.h). */
struct serve *serve__new(const struct serve_options *options, int *code);
/* Waits for a report that is being made, not for an answer that is being sent. */
void serve__free(struct serve *serve);

/* At each tick. The first one says that it is ready, to the user and to the service manager. */
void serve__tick(struct serve *serve, uint64_t now_ns);
/* A new snapshot. 0 or -errno; then the last one is served on. */
int serve__publish(struct serve *serve, const struct live_snapshot *snapshot);
/* Publishes the last snapshot of a recording that has ended; NULL: none. Returns when a client has
 * got these totals, at most 5 s later; at once if no client has ever asked for totals. */
void serve__finish(struct serve *serve, const struct live_snapshot *snapshot);
/* As in struct recorder_watcher; ctx: the struct serve. */
char *serve__wants_capture(void *ctx);
bool serve__wants_dump(void *ctx);
void serve__captured(void *ctx, const char *path, int err);

/* The address, with its port, for tests. */
const struct listen_address *serve__address(const struct serve *serve);

#endif
