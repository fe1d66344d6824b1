/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the user sees while a recording is made. Messages, one line each; and on a terminal a line
 * that changes:
 *
 *     attaching 738 probes…
 *     8 s left · 12 steps · 30,261 calls · Ctrl-C stops and reports
 */
#ifndef PERFX_SESSION_PROGRESS_H
#define PERFX_SESSION_PROGRESS_H

#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/thread_counters.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- the line that changes --- */

void progress_attaching(const struct plan *plan);

struct progress {
	uint64_t now_ns, start_ns, end_ns; /* end: UINT64_MAX: not by the clock */
	bool paused;			   /* --wait: by the program */
	uint64_t steps_count, calls_count;
	bool reports; /* its end is a report, not a capture alone */
};

void progress_show(const struct progress *progress);

/* --- messages --- */

/* err: what plan__scan has returned. */
void say_scan_error(pid_t pid, ssize_t err, size_t functions_max);
/* Patterns of files that are not mapped yet. */
void say_waiting(const struct plan *plan);
/* --wait: nothing is recorded until the program starts it. */
void say_program_decides(const struct plan *plan);
/* The program has started or stopped the recording; turns_count: how often before. */
void say_turned(const struct perfx_recording_window *window, size_t turns_count);

struct tracing_summary {
	const struct plan *plan;
	const struct skipped_list *skipped;
	const struct probes *probes;
	const struct memory *memory;
	const struct thread_counters *thread_counters;
	const pid_t *pids; /* all traced processes */
	size_t pids_count;
	pid_t main_pid; /* 0: none of them comes first */
	bool has_samples;
	bool all;
};

void say_tracing(const struct tracing_summary *summary);

#endif
