/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles to a receiver of a fleet, by HTTP: OpenTelemetry's collector, or Pyroscope.
 *
 *   profile ─▶ requests ─▶ files of the spool ─▶ a thread ─▶ the receiver
 *
 * push__store only writes files. The thread sends the oldest first, and removes a file once the
 * receiver has answered 2xx; otherwise it tries again, later each time. Files outlive the program:
 * the next one with this spool sends them. Beyond its bound the spool drops its oldest file, and
 * counts it.
 */
#ifndef PERFX_PUSH_PUSH_H
#define PERFX_PUSH_PUSH_H

#include "aggregate/profile.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stdint.h>

struct push_options {
	const char *url;      /* http or https; a path that ends in /ingest is Pyroscope's */
	const char *spool;    /* a folder; NULL: one of this user's */
	uint64_t spool_bytes; /* 0: PUSH_SPOOL_BYTES */
};

#define PUSH_SPOOL_BYTES ((uint64_t)256 << 20)

struct push_counts {
	uint64_t sent, dropped, refused; /* requests; refused: the receiver answered 4xx */
	uint64_t waiting, waiting_bytes; /* in the spool */
	uint64_t missed_ns;		 /* of the recording: in no request */
	char why[160];			 /* the last failure; "" */
};

struct push;

/* Locks the spool and starts the thread. NULL after a message, with an exit code. */
struct push *push__new(const struct push_options *options, int *code);
/* Gives up what is being sent, which stays in the spool. */
void push__free(struct push *push);

/* In any thread; does not wait for the receiver. 0 or -errno; EFBIG: a request that is larger than
 * the spool has been dropped. */
int push__store(struct push *push, const struct profile *profile,
		const struct capture_source *source);
/* So much of the recording came into no request: no profile could be made of it. */
void push__miss(struct push *push, uint64_t ns);
/* Returns when the spool is empty, or after timeout_ns. */
void push__drain(struct push *push, uint64_t timeout_ns);
struct push_counts push__counts(struct push *push);
/* Tells the user what became of the requests. */
void push__say(struct push *push);

#endif
