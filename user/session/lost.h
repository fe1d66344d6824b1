/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes whose end found no room in the ring of control records. Their entries in the kernel's
 * table went after their records had been tried, so one that was missing at the last check and is
 * still known here has no record to come.
 */
#ifndef PERFX_SESSION_LOST_H
#define PERFX_SESSION_LOST_H

#include "attach/tracer.h"

#include <sys/types.h>

#define LOST_MAX 64 /* found at a time */

/* All zero at first. */
struct lost {
	uint64_t next_ns;
	pid_t missing[LOST_MAX]; /* at the last check */
	size_t missing_count;
};

/* Those of some pids, some seconds after they have ended; how many there are. To be called after
 * the rings were drained. */
size_t lost_find(struct lost *lost, const struct tracer *tracer, const pid_t *pids, size_t count,
		 uint64_t now_ns, pid_t found[LOST_MAX]);

#endif
