/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of a capture, and the files of the flight recorder (--flight), or of its watcher. */
#ifndef PERFX_SESSION_FLIGHT_H
#define PERFX_SESSION_FLIGHT_H

#include "capture/capture.h"
#include "session/frames.h"
#include "session/gpu_work.h"
#include "session/process_table.h"
#include "session/recorder.h"
#include "session/step_watch.h"
#include "session/totals.h"

struct flight;

/* What it works on, all borrowed. */
struct flight_parts {
	const struct recorder_options *options;
	struct capture_writer *capture; /* NULL: none is written */
	struct totals *totals;
	struct process_table *processes;
	struct frames *frames;
	struct gpu_work *gpu_work;
	struct step_watch *steps; /* NULL: no step makes it write */
};

/* NULL: out of memory. */
struct flight *flight__new(const struct flight_parts *parts);
void flight__free(struct flight *flight);

/* The recording begins. */
void flight__begin(struct flight *flight, uint64_t start_ns);
/* At each tick of the recording: ends segments, writes the files that were asked for, reports those
 * that have been written. so_far: the ending that they get, since the recording goes on. */
void flight__tick(struct flight *flight, uint64_t now_ns, const struct ending *so_far);
/* At each tick, also in a pause: the watcher's captures. */
void flight__watched(struct flight *flight, bool is_recording, const struct ending *so_far);
/* The recording is over and all sums are emitted: writes and reports the files still asked for.
 * EXIT_OK, or EXIT_FAILED if any file could not be written. */
int flight__finish(struct flight *flight, const struct ending *ending);

#endif
