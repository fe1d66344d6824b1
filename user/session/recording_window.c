// SPDX-License-Identifier: BSD-2-Clause
/*
 * --wait: the program says what is recorded. The BPF programs turn themselves on and off; here what
 * belongs to it is done when that is heard of: the recording begins with the first window, and in
 * between no samples are taken.
 */
#include "base/clock.h"
#include "base/grow.h"
#include "session/recorder_internal.h"
#include "session/totals.h"

void recording_begin(struct recorder *recorder, uint64_t start_ns)
{
	recorder->begun = true;
	recorder->start_ns = start_ns;
	recorder->begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	flight_begin(recorder);
	totals_host(recorder->sink, recorder->options, start_ns);
	process_table__hold(recorder->processes, false);
	process_table__sample(recorder->processes, true);
	recorder->next_sample_ns = start_ns + recorder->options->interval_ns;
	count_threads(recorder);
	emit_perf_counters(recorder);
	memory__start(recorder->memory, start_ns);
}

/* Control records are read before others: what was recorded before the pause may still be on its
 * way. */
static void note_pause(struct recorder *recorder, uint64_t from_ns, uint64_t to_ns)
{
	if (++recorder->pauses_emitted >= PERFX_RECORDING_WINDOWS_MAX)
		return;
	if (grow_array(&recorder->pauses, &recorder->pauses_capacity, recorder->pauses_count + 1,
		       sizeof(*recorder->pauses)))
		return;
	recorder->pauses[recorder->pauses_count++] = (struct recording_pause){from_ns, to_ns};
}

void recording_window_settle(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->pauses_count; i++)
		memory__paused(recorder->memory, recorder->pauses[i].from_ns,
			       recorder->pauses[i].to_ns);
	recorder->pauses_count = 0;
}

/* /proc counts in units of this; and a program may turn so often that there is no time for more. */
#define TURN_SAMPLE_NS 10000000u

static void opens(struct recorder *recorder, const struct perfx_recording_window *recording_window)
{
	bool paused = recorder->paused;

	recorder->paused = false;
	recorder->windowed = true;
	recorder->opened_ns = recording_window->time_ns;
	if (!recorder->begun) {
		recording_begin(recorder, recording_window->time_ns);
		return;
	}
	/* the record of the pause's beginning may be behind that of its end */
	if (!paused)
		return;
	process_table__hold(recorder->processes, false);
	note_pause(recorder, recorder->paused_ns, recording_window->time_ns);
}

static void closes(struct recorder *recorder, const struct perfx_recording_window *recording_window)
{
	if (recording_window->time_ns < recorder->opened_ns) {
		note_pause(recorder, recording_window->time_ns, recorder->opened_ns);
		return;
	}
	recorder->paused = true;
	recorder->paused_ns = recording_window->time_ns;
	if (recording_window->time_ns >= recorder->next_turn_sample_ns) {
		process_table__sample(recorder->processes, true);
		recorder->next_turn_sample_ns = recording_window->time_ns + TURN_SAMPLE_NS;
	}
	process_table__hold(recorder->processes, true);
}

void recording_window_turns(struct recorder *recorder,
			    const struct perfx_recording_window *recording_window)
{
	if (recording_window->flags & PERFX_RECORDING_WINDOW_OPENS)
		opens(recorder, recording_window);
	else
		closes(recorder, recording_window);
	say_turned(recorder, recording_window);
}
