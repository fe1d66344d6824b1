/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to the user during a recording, one line each; and on a terminal a status line:
 *
 *     attaching 738 probes…
 *     8 s left · 12 steps · 30,261 calls · Ctrl-C stops and reports
 */
#ifndef PERFX_SESSION_PROGRESS_H
#define PERFX_SESSION_PROGRESS_H

#include "session/recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void progress_attaching(const struct plan *plan);
bool progress_is_shown(const struct recording *recording);

/* err: what plan__scan has returned. */
void say_scan_error(pid_t pid, ssize_t err, size_t functions_max);

/* The program has started or stopped the recording; turns_count: how often so far. */
void say_turned(const struct perfx_recording_window *window, size_t turns_count);

/* The recording begins, or waits until the program starts it (--wait). */
void say_tracing(const struct recording *recording);

#endif
