// SPDX-License-Identifier: BSD-2-Clause
/*
 * The flight recorder (--flight), and segments, which every capture has.
 *
 * A capture in memory forgets by itself (replay/replay.h). Here is when it is written: on
 * SIGUSR1, some time after a step that was slow, at the end; into run.perfx, run.2.perfx and so on.
 * A watcher of the recording (top, serve) gets its own files instead, each time that it asks.
 * Each file is complete: names of new stacks are emitted before it, and the records that close a
 * capture go into the file alone.
 */
#include "session/recording.h"

#include "attach/reader.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/message.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "capture/capture.h"
#include "session/dump.h"
#include "session/follow.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/step_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A flight buffer has so many segments at least, because it drops whole ones. */
#define SEGMENTS_MIN   16
#define SEGMENT_NS_MAX 1000000000u
#define SEGMENT_NS_MIN 50000000u
/* And of its memory. */
#define SEGMENT_SHARE 16
/* Naming frames for a watcher may take at most this share of the time: the first new address of a
 * file opens it and sorts its symbols, 0.1 s in PyTorch. */
#define NAMES_SHARE 0.02
/* Time recorded after a slow step: a third of the buffer's, 5 s at most. */
#define AFTER_SHARE  3
#define AFTER_NS_MAX 5000000000u

struct flight {
	struct recording *recording;
	uint64_t start_ns; /* of the recording */
	uint64_t next_segment_ns;
	uint64_t next_names_ns;	   /* for who watches */
	unsigned files, triggered; /* how many were asked for */
	unsigned signals;	   /* acted upon */
	uint64_t asked_ns;	   /* when a file was asked for that is not made yet; 0: none is */
	uint64_t due_ns;	   /* when a slow step's is to be; 0: none is */
	char why[160];
	struct captured_step step; /* as `why` */
	bool dumping;		   /* a stall's file waits for the end of the dump */
	char *dumping_path;	   /* likewise, the watcher's; NULL: none does */
	bool failed;
};

static uint64_t segment_length_ns(const struct flight *flight)
{
	uint64_t length_ns = flight->recording->options->flight_ns / SEGMENTS_MIN;

	return length_ns ? max_u64(min_u64(length_ns, SEGMENT_NS_MAX), SEGMENT_NS_MIN)
			 : SEGMENT_NS_MAX;
}

static void end_segment(struct flight *flight, uint64_t now_ns)
{
	/* so that the file has the usage of its own time */
	if (flight->recording->options->flight_ns)
		process_table__sample(flight->recording->processes, true);
	totals__emit(flight->recording->totals, now_ns, false);
	totals__segment(flight->recording->totals, now_ns);
	flight->next_segment_ns = now_ns + segment_length_ns(flight);
}

static void name_frames(struct flight *flight, uint64_t now_ns)
{
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;

	frames__emit(flight->recording->frames);
	took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	flight->next_names_ns = now_ns + (uint64_t)((double)took_ns / NAMES_SHARE);
}

/* run.perfx, run.2.perfx, … */
static char *path_of(const struct flight *flight, unsigned number)
{
	const char *path = flight->recording->options->flight_path, *name = strrchr(path, '/');
	const char *dot = strrchr(name ? name : path, '.');
	char *numbered = NULL;

	if (number == 1)
		return strdup(path);
	if (!dot || dot == path || dot[-1] == '/')
		dot = path + strlen(path);
	if (asprintf(&numbered, "%.*s.%u%s", (int)(dot - path), path, number, dot) < 0)
		return NULL;
	return numbered;
}

struct closing {
	struct sink sink;
	struct text records;
};

static void add_closing(struct sink *sink, const void *record, size_t size)
{
	struct closing *closing = (struct closing *)sink; /* its first member */

	text_add_bytes(&closing->records, record, size);
}

/* Asks for a file of all up to the segment that has just ended; takes the path over. 0 or -errno.
 */
static int ask(struct flight *flight, char *path, const char *why, const struct ending *ending)
{
	struct closing closing = {.sink.record = add_closing};
	struct capture_dump *dump = calloc(1, sizeof(*dump));
	bool failed;

	totals__close(flight->recording->totals, &closing.sink, ending);
	failed = closing.records.failed;
	if (!dump) {
		free(path);
		text_clear(&closing.records);
		return -ENOMEM;
	}
	*dump = (struct capture_dump){.path = path,
				      .why = strdup(why),
				      .recording_ns = flight->start_ns,
				      .to_ns = ending->end_ns,
				      .closing_bytes = closing.records.length};
	dump->closing = text_take(&closing.records);
	if (why == flight->why)
		dump->step = flight->step;
	if (dump->path && dump->why && !failed)
		return capture_writer__dump(flight->recording->pipeline->capture, dump);
	capture_dump__free(dump);
	return -ENOMEM;
}

static int ask_now(struct flight *flight, char *path, const char *why, struct ending ending)
{
	ending.end_ns = clock_monotonic_ns();
	name_frames(flight, ending.end_ns);
	end_segment(flight, ending.end_ns);
	gpu_work__name(flight->recording->gpu_work);
	return ask(flight, path, why, &ending);
}

/* "run.perfx: the last 30.2 s of 12.1 min, 4.20 MiB" */
static void say_dump(struct flight *flight, const struct capture_dump *dump)
{
	char length[UNITS_MAX], all[UNITS_MAX], size[UNITS_MAX];

	if (dump->err) {
		flight->failed = true;
		msg_say("%s: %s", dump->path, output_error(dump->err));
		return;
	}
	msg_say("%s: the last %s of %s, %s%s", dump->path,
		format_ns(length, dump->to_ns - dump->from_ns),
		format_ns(all, dump->to_ns - dump->recording_ns), format_bytes(size, dump->bytes),
		dump->full ? "; memory limit reached (--max-size)" : "");
}

static void report_dumps(struct flight *flight, bool wait)
{
	const struct recorder_watcher *watcher = flight->recording->options->watcher;
	struct capture_dump *dump;

	while ((dump = capture_writer__dumped(flight->recording->pipeline->capture, wait))) {
		if (!watcher)
			say_dump(flight, dump);
		else if (watcher->captured)
			watcher->captured(watcher->ctx, dump->path, dump->err);
		capture_dump__free(dump);
	}
}

/* Counts the files of the trigger. False: there are enough. */
static bool may_write(struct flight *flight)
{
	if (flight->triggered == TRIGGER_FILES_MAX) {
		msg_say("%s: not written: limit of %u files reached; SIGUSR1 still writes one",
			flight->why, TRIGGER_FILES_MAX);
		flight->triggered++;
	}
	if (flight->triggered > TRIGGER_FILES_MAX)
		return false;
	flight->triggered++;
	return true;
}

/* A stalled process: what its threads do is recorded first. */
static void note_stall(struct flight *flight, uint64_t now_ns)
{
	struct recording *recording = flight->recording;
	struct stall stall;
	pid_t pid;

	if (flight->dumping && !dump__is_running(recording)) {
		flight->dumping = false;
		flight->due_ns = now_ns;
	}
	if (flight->due_ns || flight->dumping ||
	    !step_watch__stalled(recording->steps, now_ns, &stall))
		return;
	pid = process_table__pid(recording->processes, stall.process);
	if (!pid) /* it has ended */
		return;
	snprintf(flight->why, sizeof(flight->why), "no step of process %d for %s, after %llu steps",
		 (int)pid, as_ns(now_ns - stall.since_ns), (unsigned long long)stall.steps_count);
	flight->step = (struct captured_step){0};
	if (!may_write(flight))
		return;
	flight->dumping = dump__begin(recording);
	if (!flight->dumping)
		flight->due_ns = now_ns;
	msg_say("%s: what each thread does is recorded, and written at once", flight->why);
}

static void note_slow(struct flight *flight, uint64_t now_ns)
{
	struct recording *recording = flight->recording;
	uint64_t after_ns = min_u64(recording->options->flight_ns / AFTER_SHARE, AFTER_NS_MAX);
	char took[UNITS_MAX], median[UNITS_MAX], after[UNITS_MAX], times[64] = "", *path;
	struct slow_step step;

	if (flight->due_ns || !step_watch__slow(recording->steps, &step))
		return;
	if (step.median_ns)
		snprintf(times, sizeof(times), ", %.1f times the median of %s",
			 (double)step.duration_ns / (double)step.median_ns,
			 format_ns(median, step.median_ns));
	snprintf(flight->why, sizeof(flight->why), "step %llu of process %d took %s%s",
		 (unsigned long long)step.number,
		 (int)process_table__pid(recording->processes, step.process),
		 format_ns(took, step.duration_ns), times);
	flight->step = (struct captured_step){.process = step.process,
					      .from_ns = step.to_ns - step.duration_ns,
					      .to_ns = step.to_ns};
	if (!may_write(flight))
		return;
	flight->due_ns = now_ns + after_ns;
	path = path_of(flight, flight->files + 1);
	msg_say("%s: will be written to %s in %s", flight->why, path ? path : "a file",
		format_ns(after, after_ns));
	free(path);
}

/* Notes that a file could not be written. An error of the capture is reported when it is closed. */
static void note_failed_write(struct flight *flight, int err)
{
	flight->failed = true;
	if (!capture_writer__flush(flight->recording->pipeline->capture))
		msg_say("%s: %s", flight->recording->options->flight_path, output_error(err));
}

static void write_asked(struct flight *flight, uint64_t now_ns, const struct ending *so_far)
{
	bool by_signal = flight->signals != interrupt_dumps_asked();
	struct reader *reader = flight->recording->reader;
	int err;

	if (!by_signal && (!flight->due_ns || now_ns < flight->due_ns))
		return;
	/* A file contains all records from before it was asked for. This tick may have read the
	 * rings earlier, as the tracer may have lost its CPU since. */
	if (!flight->asked_ns)
		flight->asked_ns = clock_monotonic_ns();
	reader__drain(reader);
	if (reader__drained_ns(reader) < flight->asked_ns)
		return;
	flight->asked_ns = 0;
	err = ask_now(flight, path_of(flight, flight->files + 1),
		      by_signal ? "SIGUSR1" : flight->why, *so_far);
	flight->files += !err;
	if (err == -EBUSY) /* too many files wait to be written */
		return;
	if (by_signal)
		flight->signals++;
	else
		flight->due_ns = 0;
	if (err)
		note_failed_write(flight, err);
}

static void tick_recording(struct flight *flight, uint64_t now_ns, const struct ending *so_far)
{
	const struct recorder_options *options = flight->recording->options;
	struct capture_writer *capture = flight->recording->pipeline->capture;

	/* without a capture there are no segments */
	if (!capture)
		return;
	/* many records in a short time make a segment too large for the buffer */
	if (now_ns >= flight->next_segment_ns ||
	    (options->flight_ns &&
	     capture_writer__segment_bytes(capture) > options->flight_bytes / SEGMENT_SHARE)) {
		/* a watcher gets names during the recording, if not at once */
		if (options->watcher && now_ns >= flight->next_names_ns)
			name_frames(flight, now_ns);
		end_segment(flight, now_ns);
		if (options->watcher)
			gpu_work__name(flight->recording->gpu_work);
	}
	if (!options->flight_ns)
		return;
	if (options->flight_path) {
		note_slow(flight, now_ns);
		note_stall(flight, now_ns);
		write_asked(flight, now_ns, so_far);
	}
	report_dumps(flight, false);
}

static void write_for_watcher(struct flight *flight, const struct ending *so_far)
{
	const struct recorder_watcher *watcher = flight->recording->options->watcher;
	char *path = flight->dumping_path, *kept;
	int err = -EAGAIN;

	if (path && dump__is_running(flight->recording))
		return;
	flight->dumping_path = NULL;
	if (!path && watcher && watcher->wants_capture) {
		path = watcher->wants_capture(watcher->ctx);
		if (path && watcher->wants_dump && watcher->wants_dump(watcher->ctx) &&
		    recording_is_on(flight->recording) && dump__begin(flight->recording)) {
			flight->dumping_path = path;
			return;
		}
	}
	if (!path)
		return;
	kept = strdup(path);
	if (recording_is_on(flight->recording))
		err = ask_now(flight, path, "", *so_far);
	else
		free(path);
	if (err && watcher->captured)
		watcher->captured(watcher->ctx, kept ? kept : "", err);
	free(kept);
}

static void tick(struct recording *recording)
{
	const struct follow_result *followed = follow__result(recording->follow);
	struct ending so_far = {.goes_on = true,
				.maps_read_count = followed->maps_read_count,
				.untraced_read_count = followed->untraced_read_count};

	if (recording_is_on(recording))
		tick_recording(recording->flight, recording->now_ns, &so_far);
	write_for_watcher(recording->flight, &so_far);
}

static void begin(struct recording *recording)
{
	struct flight *flight = recording->flight;
	char length[UNITS_MAX];

	if (flight->recording->options->flight_path && flight->recording->options->flight_ns)
		msg_say("keeping the last %s in memory: kill -USR1 %d writes it to %s",
			format_ns(length, flight->recording->options->flight_ns), (int)getpid(),
			flight->recording->options->flight_path);
	flight->start_ns = recording->start_ns;
	flight->next_segment_ns = recording->start_ns + segment_length_ns(flight);
}

int flight__finish(struct flight *flight, const struct ending *ending)
{
	const char *why = flight->due_ns ? flight->why : "";
	int err = 0;

	totals__segment(flight->recording->totals, ending->end_ns);
	report_dumps(flight, true);
	if (flight->recording->options->flight_path)
		err = ask(flight, path_of(flight, flight->files + 1), why, ending);
	report_dumps(flight, true);
	if (err)
		note_failed_write(flight, err);
	return flight->failed ? EXIT_FAILED : EXIT_OK;
}

static int open_flight(struct recording *recording)
{
	recording->flight = calloc(1, sizeof(*recording->flight));
	if (!recording->flight)
		return -ENOMEM;
	recording->flight->recording = recording;
	return 0;
}

static void close_flight(struct recording *recording)
{
	if (recording->flight)
		free(recording->flight->dumping_path);
	free(recording->flight);
}

const struct recording_part flight_part = {.name = "the flight recorder",
					   .open = open_flight,
					   .begin = begin,
					   .tick = tick,
					   .close = close_flight};
