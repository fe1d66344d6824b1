/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfx-trace top: a recording as a screen, or as frames on stdout.
 *
 *   recorder ─ records ─▶ feed ─▶ snapshot ─▶ frame ─ tick ─▶ layout ─▶ screen, or stdout
 *                                keys ─▶ model ──┘
 */
#ifndef PERFX_TOP_TOP_H
#define PERFX_TOP_TOP_H

#include "live/feed.h"
#include "session/recorder.h"

#include <stdbool.h>
#include <stdint.h>

struct top_options {
	bool screen;		/* otherwise frames */
	uint64_t frames_max;	/* 0: no limit */
	unsigned rows_max;	/* of each table of a frame; 0: TOP_PLAIN_ROWS */
	uint64_t flight_ns;	/* how long a report can be */
	const char *rules_file; /* borrowed; NULL: none */
};

#define TOP_PLAIN_ROWS 10

struct top;

/* feed: borrowed; started here, stopped by the caller before top__free. NULL with errno. */
struct top *top__new(const struct top_options *options, struct live_feed *feed);
/* The terminal is as it was before. */
void top__free(struct top *top);

struct recorder_watcher top__watcher(struct top *top);
/* The user, or frames_max, ends the recording; ctx: the struct top. */
bool top__enough(void *ctx);
/* The screen could not be opened, or a frame not be written; the user has been told. */
bool top__failed(const struct top *top);

#endif
