/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs, and what they share: finding processes, reading captures, writing reports. Each
 * function that returns an exit code (base/message.h) has said what went wrong. */
#ifndef PERFX_CMD_CMD_H
#define PERFX_CMD_CMD_H

#include "aggregate/aggregate.h"
#include "attach/features.h"
#include "base/file.h"
#include "cmd/options.h"
#include "live/live.h"
#include "replay/replay.h"
#include "report/report.h"
#include "session/recorder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

int cmd_trace(const struct options *options); /* and record, and run */
int cmd_top(const struct options *options);
int cmd_serve(const struct options *options);
int cmd_report(const struct options *options);
int cmd_export(const struct options *options);
int cmd_diff(const struct options *options);
int cmd_merge(const struct options *options);
int cmd_tune(const struct options *options);
int cmd_compare(const struct options *options);
int cmd_probes(const struct options *options);
int cmd_doctor(const struct options *options);
int cmd_explain(const struct options *options);
int cmd_peaks(const struct options *options);

/* What the command line says of it; the rest is the caller's to fill. */
struct recorder_options recorder_options_of(const struct options *options,
					    const struct features *features);

/* Records for top and serve, with the last --flight in memory, until -d is over, Ctrl-C, all
 * processes of -p have ended, or enough() is true (NULL: not called; ctx is the watcher's). All
 * records go to the feed, which the caller has started and which is stopped at the end. Returns an
 * exit code; a message has explained any other than EXIT_OK and EXIT_TARGET. */
int live_session_run(const struct options *options, struct live_feed *feed,
		     const struct recorder_watcher *watcher, bool (*enough)(void *ctx));
uint64_t live_session_flight_ns(const struct options *options); /* 30 s without --flight */

/* Pids of what -p names, malloc'd. EXIT_OK, or EXIT_FAILED: no such process, a kernel thread, our
 * own pid, 32-bit. */
int targets_find(const struct options *options, pid_t **pids, size_t *count);
/* --process names what may be traced, as far as that can be known before: EXIT_OK or EXIT_USAGE. No
 * pids: of a program that is yet to be started. */
int targets_check_process(const struct options *options, const pid_t *pids, size_t count);
/* EXIT_OK, EXIT_PRIVILEGE or EXIT_FAILED. */
int features_check(struct features *features, bool no_cache);
/* Do process ids here mean what they mean to the kernel? Not in a container's pid namespace. */
bool pids_are_the_hosts(void);
/* The plan's options as the command line gives them. */
struct plan_options plan_options_of(const struct options *options, const struct features *features);
/* The arguments as one string that a shell would take, malloc'd. */
char *shell_join(char *const *argv);

/* A whole file. 0 or -errno, for which replay_say_unreadable() has words. */
int replay_file(const char *path, struct pipeline *pipeline, bool say_damage);
/* options->capture, or the time slice that --since and --until choose. As above. */
int replay_capture(const struct options *options, struct pipeline *pipeline, bool say_damage);
#define CAPTURE_NEEDED "a capture (perfx-trace record -o FILE.perfx)"
/* One line: why the file cannot be read, or what it is instead of what is needed. */
void replay_say_unreadable(const char *path, int err, const char *needed);
struct capture_source source_of(const struct options *options);
/* Says why replay_capture() failed, and returns the exit code for it. */
int replay_say_error(const struct options *options, int err);

struct report_target {
	const struct report_writer *writer;
	const char *path;  /* NULL: stdout */
	char *template;	   /* its text */
	bool says_written; /* names the file and the verdict even if stderr is no terminal */
	/* Open during the recording only if it is no regular file: a regular file was tried. */
	struct output output;
};

/* EXIT_OK, EXIT_USAGE (unknown format) or EXIT_FAILED (cannot be written). */
int report_target_open(struct report_target *target, const struct options *options);
/* Analyzes and writes. EXIT_OK, EXIT_FINDINGS (--fail-on) or EXIT_FAILED; a report that cannot be
 * written to its file goes to the terminal, so that the measurement is not lost. */
int report_target_write(struct report_target *target, struct aggregate *aggregate,
			const struct options *options);
void report_target_close(struct report_target *target);
/* -o, but for "-"; NULL: stdout. */
const char *output_path(const struct options *options);
/* Or that the path is a directory. */
void say_unknown_suffix(const char *path, struct format_table *table);
/* The verb's format, by -f, by the suffix of -o, or text; NULL after a message. */
const void *output_format(struct format_table *table, const char *verb,
			  const struct options *options);
/* EXIT_OK, also where stdout's reader has seen enough; EXIT_FAILED. */
int output_result(const char *path, int err);
/* Closes a stream of open_memstream() (NULL: it could not be opened), writes its text and frees it;
 * err: of making the text. As output_result. */
int output_whole(const char *path, FILE *stream, char **text, const size_t *size, int err);
/* Is stdout, which gets the output, a terminal? Its width (0: unknown), and whether it has colors.
 */
void output_terminal(const char *path, unsigned *width, bool *color);

#endif
