// SPDX-License-Identifier: BSD-2-Clause
/*
 * --wait: the program says what is recorded. The BPF programs turn themselves on and off; here what
 * belongs to it is done when that is heard of: the recording begins with the first window, and in
 * between no samples are taken.
 */
#include "record/recorder_internal.h"
#include "record/totals.h"

void recording_begin(struct recorder *recorder, uint64_t start_ns)
{
	recorder->begun = true;
	recorder->start_ns = start_ns;
	totals_host(recorder->sink, recorder->options, start_ns);
	books__hold(recorder->books, false);
	books__sample(recorder->books, true);
	recorder->next_sample_ns = start_ns + recorder->options->interval_ns;
	meter_threads(recorder);
	tell_meters(recorder);
	memory__start(recorder->memory, start_ns);
}

static void opens(struct recorder *recorder, const struct perfx_window *window)
{
	recorder->paused = false;
	recorder->windowed = true;
	if (!recorder->begun) {
		recording_begin(recorder, window->time_ns);
		return;
	}
	books__hold(recorder->books, false);
	memory__paused(recorder->memory, recorder->paused_ns, window->time_ns);
}

static void closes(struct recorder *recorder, const struct perfx_window *window)
{
	recorder->paused = true;
	recorder->paused_ns = window->time_ns;
	books__sample(recorder->books, true);
	books__hold(recorder->books, true);
}

void window_turns(struct recorder *recorder, const struct perfx_window *window)
{
	if (window->flags & PERFX_WINDOW_OPENS)
		opens(recorder, window);
	else
		closes(recorder, window);
	say_turned(window);
}
