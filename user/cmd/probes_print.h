/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of `perfx-trace probes` share: functions and allocators. */
#ifndef PERFX_CMD_PROBES_PRINT_H
#define PERFX_CMD_PROBES_PRINT_H

#include "attach/calibrate.h"
#include "base/units.h"
#include "plan/plan.h"

#include <sys/types.h>

/* A name of the traced process, harmless for a terminal; malloc'd. */
char *probes_shown(const char *name);
/* "?" where it is not known. */
const char *probes_cost(char buffer[UNITS_MAX], double ns);

#define PROBES_TEXT_MAX 96

/* "push +4" */
void probes_site(char text[PROBES_TEXT_MAX], const struct plan_function *function);
/* How a function's end is found. */
void probes_way_out(char text[PROBES_TEXT_MAX], const struct plan_function *function,
		    const struct calibration *calibration);

/* The hooks, whose malloc each process calls, what the levels of --memory cost. */
void probes_print_memory(const struct plan *plan, const struct calibration *calibration,
			 const pid_t *pids, size_t count);

#endif
