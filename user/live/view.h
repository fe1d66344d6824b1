/* SPDX-License-Identifier: BSD-2-Clause */
/* The lists of a snapshot: what has happened in its period. */
#ifndef PERFX_LIVE_VIEW_H
#define PERFX_LIVE_VIEW_H

#include "live/growth.h"
#include "live/live.h"
#include "live/run.h"

struct view {
	struct live_process *processes;
	size_t processes_count, processes_capacity;
	struct live_row *rows;
	size_t rows_count, rows_capacity;
	struct live_line *lines;
	size_t lines_count, lines_capacity;
	struct live_thread *threads;
	size_t threads_count, threads_capacity;
	struct live_wait *waits;
	size_t waits_count, waits_capacity;
};

/* Fills it with what the profile has grown by, which is added to the run. 0 or -ENOMEM. */
int view_fill(struct view *view, struct run *run, struct growth *growth,
	      const struct profile *profile, uint64_t epoch, uint64_t to_ns);
void view_clear(struct view *view);

#endif
