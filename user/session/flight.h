/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of a capture, and the files of the flight recorder (--flight), or of its watcher. */
#ifndef PERFX_SESSION_FLIGHT_H
#define PERFX_SESSION_FLIGHT_H

#include "session/recording.h"

/* The recording is over and all sums are emitted: writes and reports the files still asked for.
 * EXIT_OK, or EXIT_FAILED if any file could not be written. */
int flight__finish(struct flight *flight, const struct ending *ending);

#endif
