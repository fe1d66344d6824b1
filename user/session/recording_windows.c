// SPDX-License-Identifier: BSD-2-Clause
#include "session/recording.h"

#include "base/grow.h"

#include <stdlib.h>

/* /proc counts in units of this. */
#define TURN_SAMPLE_NS 10000000u

static void note_pause(struct recording_windows *windows, uint64_t from_ns, uint64_t to_ns)
{
	if (++windows->pauses_emitted < PERFX_RECORDING_WINDOWS_MAX)
		(void)LIST_ADD(windows->pauses, (struct recording_pause){from_ns, to_ns});
}

static enum window_turn open_window(struct recording_windows *windows, uint64_t time_ns)
{
	bool first = !windows->any, paused = windows->paused;

	windows->paused = false;
	windows->any = true;
	windows->opened_ns = time_ns;
	if (first)
		return WINDOW_FIRST;
	/* the record of a pause's end may come before that of its beginning */
	if (!paused)
		return WINDOW_PAST;
	note_pause(windows, windows->paused_ns, time_ns);
	return WINDOW_OPENS;
}

static enum window_turn close_window(struct recording_windows *windows, uint64_t time_ns)
{
	if (time_ns < windows->opened_ns) {
		note_pause(windows, time_ns, windows->opened_ns);
		return WINDOW_PAST;
	}
	windows->paused = true;
	windows->paused_ns = time_ns;
	return WINDOW_CLOSES;
}

enum window_turn recording_windows_turn(struct recording_windows *windows,
					const struct perfx_recording_window *window)
{
	windows->turns_count++;
	if (window->flags & PERFX_RECORDING_WINDOW_OPENS)
		return open_window(windows, window->time_ns);
	return close_window(windows, window->time_ns);
}

bool recording_windows_sample(struct recording_windows *windows, uint64_t closed_ns)
{
	if (closed_ns < windows->next_sample_ns)
		return false;
	windows->next_sample_ns = closed_ns + TURN_SAMPLE_NS;
	return true;
}

void recording_windows_report(struct recording_windows *windows, struct memory *memory)
{
	for (size_t i = 0; i < windows->pauses_count; i++)
		memory__paused(memory, windows->pauses[i].from_ns, windows->pauses[i].to_ns);
	windows->pauses_count = 0;
}

void recording_windows_clear(struct recording_windows *windows)
{
	free(windows->pauses);
	*windows = (struct recording_windows){0};
}
