/* SPDX-License-Identifier: BSD-2-Clause */
/* --trigger: which step makes the flight recorder write. */
#ifndef PERFX_SESSION_TRIGGER_H
#define PERFX_SESSION_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

/* A median of fewer steps says nothing. */
#define TRIGGER_STEPS_MIN 10
/* Files that a trigger has written, at most: a training that has become slow for good would fill
 * the disk. */
#define TRIGGER_FILES_MAX 10

/* Slower than a multiple of the median of the steps before it, or than a time; one of them is 0. */
struct trigger {
	double times;
	uint64_t ns;
};

struct slow_step {
	uint32_t process;
	uint64_t number; /* of the process's, from 1 */
	uint64_t duration_ns, median_ns;
};

/* "step>2x", "step>250ms": 0 or -EINVAL. */
int trigger_parse(const char *text, struct trigger *trigger);
/* steps_count: before it. */
bool trigger_fires(const struct trigger *trigger, const struct slow_step *step,
		   uint64_t steps_count);

#endif
