/* SPDX-License-Identifier: BSD-2-Clause */
/* A recording that is watched while it goes on, as top and serve need it: of what -p or -a names,
 * as long as -d says or until it is ended, with the last --flight in memory. */
#ifndef PERFX_CMD_LIVE_SESSION_H
#define PERFX_CMD_LIVE_SESSION_H

#include "cmd/options.h"
#include "live/feed.h"
#include "session/recorder.h"

#include <stdbool.h>

/* Without --flight. */
#define LIVE_FLIGHT_NS 30000000000u

uint64_t live_session_flight_ns(const struct options *options);

/* Records until -d is over, Ctrl-C, all processes of -p have ended, or enough() is true (NULL: not
 * called; ctx is the watcher's). All records go to the feed, which the caller has started and which
 * is stopped at the end. argv is main()'s. Returns an exit code (base/message.h); a message has
 * explained any other than EXIT_OK and EXIT_TARGET. */
int live_session_run(const struct options *options, char *const *argv, struct live_feed *feed,
		     const struct recorder_watcher *watcher, bool (*enough)(void *ctx));

#endif
