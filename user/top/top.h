/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfx-trace top: a recording as a screen, or as frames on stdout.
 *
 *   recorder ─ records ─▶ feed ─▶ snapshot ─▶ frame ─ tick ─▶ layout ─▶ screen, or stdout
 *                                keys ─▶ model ──┘
 */
#ifndef PERFX_TOP_TOP_H
#define PERFX_TOP_TOP_H

#include "live/live.h"
#include "session/recorder.h"
#include "top/layout.h"

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

/*
 * A report of the last seconds while the recording goes on: the recording writes them into a file,
 * and another perfx-trace makes the report of it, so that the recording never waits.
 */
struct report_job;

/* rules_file: --rules of the report; NULL: none. NULL: out of memory. */
struct report_job *report_job__new(const char *rules_file);
/* Cancels a report that is being made. */
void report_job__free(struct report_job *job);

/* Wants a report, or of a path that ends with .perfx a capture. Says why not, if there is none. */
void report_job__begin(struct report_job *job, const char *path);
/* As in struct recorder_watcher. */
char *report_job__wants(struct report_job *job);
void report_job__captured(struct report_job *job, const char *path, int err);
/* Call it often: it prints that the report has been written, or the error. */
void report_job__tick(struct report_job *job);

/*
 * The terminal as a screen: draws what layout.h has made, and reads keys. One at a time.
 *
 * The terminal is left as it was by screen_close, and by signals that end the program.
 */

/* Do stdin and stdout lead to a terminal whose cursor can be moved? */
bool screen_is_possible(void);

/* Takes the terminal over; messages are kept until screen_close (base/message.h). False: its kind
 * is not known, and nothing has happened. */
bool screen_open(void);
void screen_close(void);
bool screen_is_open(void);

void screen_size(unsigned *width, unsigned *height);
void screen_draw(const struct top_layout *layout);

enum screen_input { SCREEN_NONE, SCREEN_KEY, SCREEN_RESIZED, SCREEN_GONE };

/* The next key that was pressed (enum top_key); does not wait. */
enum screen_input screen_key(uint32_t *key);

#endif
