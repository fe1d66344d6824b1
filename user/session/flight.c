// SPDX-License-Identifier: BSD-2-Clause
/*
 * The flight recorder (--flight), and segments, which every capture has.
 *
 * A capture in memory forgets by itself (replay/flight_buffer.h). Here is when it is written: on
 * SIGUSR1, some time after a step that was slow, at the end; into run.perfx, run.2.perfx and so on.
 * What a file needs to be whole is made for it: names of stacks that have come since the last one,
 * and what closes a capture, which goes into the file alone.
 */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/message.h"
#include "base/output.h"
#include "base/text.h"
#include "base/units.h"
#include "session/recorder_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a flight buffer so many segments at least, for it forgets by whole ones. */
#define SEGMENTS_MIN   16
#define SEGMENT_NS_MAX 1000000000u
#define SEGMENT_NS_MIN 50000000u
/* And of its memory. */
#define SEGMENT_SHARE 16
/* After a slow step a third of the buffer's time, 5 s at most, is left to what follows it. */
#define AFTER_SHARE  3
#define AFTER_NS_MAX 5000000000u

static bool is_flight(const struct recorder *recorder)
{
	return recorder->options->flight_ns;
}

/* --- segments --- */

static uint64_t segment_length_ns(const struct recorder *recorder)
{
	uint64_t length_ns = recorder->options->flight_ns / SEGMENTS_MIN;

	if (!is_flight(recorder) || length_ns > SEGMENT_NS_MAX)
		return SEGMENT_NS_MAX;
	return length_ns < SEGMENT_NS_MIN ? SEGMENT_NS_MIN : length_ns;
}

/* In a flood a segment may be more than memory can spare. */
static bool is_large(const struct recorder *recorder)
{
	return is_flight(recorder) && capture_writer__segment_bytes(recorder->pipeline->capture) >
					      recorder->options->flight_bytes / SEGMENT_SHARE;
}

static void end_segment(struct recorder *recorder, uint64_t now_ns)
{
	/* so that usage is that of the flight buffer's time */
	if (is_flight(recorder))
		process_table__sample(recorder->processes, true);
	thread_counters__report(recorder->thread_counters, recorder->tracer, recorder->sink);
	memory__report(recorder->memory);
	operations__report(recorder->operations, false);
	totals__emit(recorder->totals);
	totals__segment(recorder->totals, now_ns);
	recorder->next_segment_ns = now_ns + segment_length_ns(recorder);
}

/* --- files --- */

/* run.perfx, run.2.perfx, … */
static char *path_of(const struct recorder *recorder, unsigned number)
{
	const char *path = recorder->options->flight_path, *name = strrchr(path, '/');
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

/* --- closing records: kept apart, for they go into the file alone --- */

struct closing {
	struct sink sink;
	struct text records;
};

static void add_closing(struct sink *sink, const void *record, size_t size)
{
	struct closing *closing = (struct closing *)sink; /* its first member */

	text_add_bytes(&closing->records, record, size);
}

/* Takes the closing records over. NULL: out of memory. */
static struct capture_dump *dump_new(struct recorder *recorder, struct text *closing,
				     const char *why, uint64_t to_ns)
{
	struct capture_dump *dump = calloc(1, sizeof(*dump));
	bool failed = closing->failed;

	if (!dump) {
		text_clear(closing);
		return NULL;
	}
	dump->path = path_of(recorder, recorder->flight.files + 1);
	dump->why = strdup(why);
	dump->recording_ns = recorder->start_ns;
	dump->to_ns = to_ns;
	dump->closing_bytes = closing->length;
	dump->closing = text_take(closing);
	if (dump->path && dump->why && !failed)
		return dump;
	capture_dump__free(dump);
	return NULL;
}

/* Asks for a file of all up to the segment that has just ended. 0 or -errno. */
static int ask(struct recorder *recorder, const char *why, const struct ending *ending)
{
	struct closing closing = {.sink.record = add_closing};
	struct capture_dump *dump;
	int err = -ENOMEM;

	totals__close(recorder->totals, &closing.sink, ending);
	dump = dump_new(recorder, &closing.records, why, ending->end_ns);
	if (dump)
		err = capture_writer__dump(recorder->pipeline->capture, dump);
	if (!err)
		recorder->flight.files++;
	return err;
}

static int ask_now(struct recorder *recorder, const char *why)
{
	struct ending ending = {.goes_on = true,
				.looks_count = recorder->looks_count,
				.untraced_read_count = recorder->untraced_read_count};

	if (recorder->frames)
		frames__emit(recorder->frames);
	ending.end_ns = clock_monotonic_ns();
	end_segment(recorder, ending.end_ns);
	return ask(recorder, why, &ending);
}

/* "run.perfx: the last 30.2 s of 12.1 min, 4.20 MiB" */
static void say_dump(struct recorder *recorder, const struct capture_dump *dump)
{
	char length[UNITS_MAX], all[UNITS_MAX], size[UNITS_MAX];

	if (dump->err) {
		recorder->flight.failed = true;
		msg_say("%s: %s", dump->path, output_error(dump->err));
		return;
	}
	msg_say("%s: the last %s of %s, %s%s", dump->path,
		format_ns(length, dump->to_ns - dump->from_ns),
		format_ns(all, dump->to_ns - dump->recording_ns), format_bytes(size, dump->bytes),
		dump->full ? "; memory holds no more (--max-size)" : "");
}

static void say_dumps(struct recorder *recorder, bool wait)
{
	struct capture_dump *dump;

	while ((dump = capture_writer__dumped(recorder->pipeline->capture, wait))) {
		say_dump(recorder, dump);
		capture_dump__free(dump);
	}
}

/* --- slow steps --- */

static void describe_slow(struct recorder *recorder, const struct slow_step *step)
{
	char took[UNITS_MAX], median[UNITS_MAX], times[64] = "";

	if (step->median_ns)
		snprintf(times, sizeof(times), ", %.1f times the median of %s",
			 (double)step->duration_ns / (double)step->median_ns,
			 format_ns(median, step->median_ns));
	snprintf(recorder->flight.why, sizeof(recorder->flight.why),
		 "step %llu of process %d took %s%s", (unsigned long long)step->number,
		 (int)process_table__pid(recorder->processes, step->process),
		 format_ns(took, step->duration_ns), times);
}

static void note_slow(struct recorder *recorder, uint64_t now_ns)
{
	uint64_t after_ns = recorder->options->flight_ns / AFTER_SHARE;
	struct slow_step step;
	char after[UNITS_MAX], *path;

	if (recorder->flight.due_ns || !step_watch__slow(recorder->steps, &step))
		return;
	describe_slow(recorder, &step);
	if (recorder->flight.triggered == TRIGGER_FILES_MAX) {
		msg_say("%s: no more files after %u; a signal still writes one",
			recorder->flight.why, TRIGGER_FILES_MAX);
		recorder->flight.triggered++;
	}
	if (recorder->flight.triggered > TRIGGER_FILES_MAX)
		return;
	if (after_ns > AFTER_NS_MAX)
		after_ns = AFTER_NS_MAX;
	recorder->flight.triggered++;
	recorder->flight.due_ns = now_ns + after_ns;
	path = path_of(recorder, recorder->flight.files + 1);
	msg_say("%s: to be written to %s in %s", recorder->flight.why, path ? path : "a file",
		format_ns(after, after_ns));
	free(path);
}

/* --- what the recording calls --- */

static void write_asked(struct recorder *recorder, uint64_t now_ns)
{
	int err = 0;

	if (recorder->flight.signals != interrupt_dumps_asked()) {
		err = ask_now(recorder, "SIGUSR1");
		if (err != -EBUSY) /* those asked for before are not written yet */
			recorder->flight.signals++;
	} else if (recorder->flight.due_ns && now_ns >= recorder->flight.due_ns) {
		err = ask_now(recorder, recorder->flight.why);
		if (err != -EBUSY)
			recorder->flight.due_ns = 0;
	}
	if (err && err != -EBUSY) {
		recorder->flight.failed = true;
		msg_say("%s: %s", recorder->options->flight_path, output_error(err));
	}
}

void flight_tick(struct recorder *recorder, uint64_t now_ns)
{
	/* a report that is made at once needs no parts, and of a pause there are none */
	if (!recorder->pipeline->capture || !recorder->begun || recorder->paused)
		return;
	if (now_ns >= recorder->next_segment_ns || is_large(recorder))
		end_segment(recorder, now_ns);
	if (!is_flight(recorder))
		return;
	note_slow(recorder, now_ns);
	write_asked(recorder, now_ns);
	say_dumps(recorder, false);
}

void flight_begin(struct recorder *recorder)
{
	char length[UNITS_MAX];

	if (is_flight(recorder))
		msg_say("keeping the last %s in memory: kill -USR1 %d writes it to %s",
			format_ns(length, recorder->options->flight_ns), (int)getpid(),
			recorder->options->flight_path);
	recorder->next_segment_ns = recorder->start_ns + segment_length_ns(recorder);
}

int flight_finish(struct recorder *recorder, const struct ending *ending)
{
	const char *why = recorder->flight.due_ns ? recorder->flight.why : "";
	int err;

	totals__segment(recorder->totals, ending->end_ns);
	say_dumps(recorder, true);
	err = ask(recorder, why, ending);
	say_dumps(recorder, true);
	if (err) {
		recorder->flight.failed = true;
		msg_say("%s: %s", recorder->options->flight_path, output_error(err));
	}
	return recorder->flight.failed ? EXIT_FAILED : EXIT_OK;
}
