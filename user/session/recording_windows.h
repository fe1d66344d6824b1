/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --wait: the program starts and stops what is recorded. The BPF programs turn themselves on and
 * off; their records of that are put in order here, for they may come late, the end of a window
 * after the beginning of the next one.
 */
#ifndef PERFX_SESSION_RECORDING_WINDOWS_H
#define PERFX_SESSION_RECORDING_WINDOWS_H

#include "attach/memory.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recording_windows {
	bool any;		 /* one was open; all of a recording without --wait is one */
	bool paused;		 /* none is */
	uint64_t paused_ns;	 /* since then */
	uint64_t opened_ns;	 /* the last one */
	uint64_t next_sample_ns; /* /proc is not read at the end of a window before */
	size_t turns_count;	 /* beginnings and ends */
	size_t pauses_emitted;	 /* between windows, to memory */
	struct recording_pause {
		uint64_t from_ns, to_ns;
	} * pauses; /* that memory does not know of yet */
	size_t pauses_count, pauses_capacity;
};

enum window_turn {
	WINDOW_FIRST, /* the recording begins */
	WINDOW_OPENS,
	WINDOW_CLOSES,
	WINDOW_PAST, /* nothing changes: it came after what followed it */
};

/* A RECORDING_WINDOW record: what it means now. */
enum window_turn recording_windows_turn(struct recording_windows *windows,
					const struct perfx_recording_window *window);
/* Shall /proc be read now that a window closes? It counts in units of 10 ms, and a program may turn
 * often. */
bool recording_windows_sample(struct recording_windows *windows, uint64_t closed_ns);
/* To be called when the rings have been read: control records are read before others, which may be
 * of before the pause. */
void recording_windows_report(struct recording_windows *windows, struct memory *memory);
void recording_windows_clear(struct recording_windows *windows);

#endif
