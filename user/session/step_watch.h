/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps while they are recorded, counted as the report counts them. --steps N: the recording ends
 * when a process has done so many. --trigger: a step that was slow makes the flight recorder write.
 */
#ifndef PERFX_SESSION_STEP_WATCH_H
#define PERFX_SESSION_STEP_WATCH_H

#include "replay/replay.h"

#include <stdbool.h>
#include <stdint.h>

/* A median of fewer steps is not meaningful. */
#define TRIGGER_STEPS_MIN 10
/* Files that a trigger has written, at most: a training that has become slow for good would fill
 * the disk. */
#define TRIGGER_FILES_MAX 10

/* Slower than a multiple of the median of the steps before it, or than a time; or no step for so
 * long: one of them is not 0. */
struct trigger {
	double times;
	uint64_t ns;
	uint64_t stall_ns;
};

static inline bool trigger_is_set(const struct trigger *trigger)
{
	return trigger->ns || trigger->times > 0 || trigger->stall_ns;
}

struct slow_step {
	uint32_t process;
	uint64_t number; /* of the process's, from 1 */
	uint64_t duration_ns, median_ns;
	uint64_t to_ns; /* when it ended */
};

/* "step>2x", "step>250ms", "stall>60s": 0 or -EINVAL. */
int trigger_parse(const char *text, struct trigger *trigger);
/* steps_count: before it. */
bool trigger_fires(const struct trigger *trigger, const struct slow_step *step,
		   uint64_t steps_count);

struct step_watch;

bool step_watch__done(const struct step_watch *watch);
/* Steps of the process with the most; 0 for no watch. */
uint64_t step_watch__count(const struct step_watch *watch);
/* The first that was too slow since the last call; false: none was. */
bool step_watch__slow(struct step_watch *watch, struct slow_step *step);

struct stall {
	uint32_t process;
	uint64_t steps_count; /* that it has done */
	uint64_t since_ns;    /* the end of its last step */
};

/* A process that has done steps and none for as long as the trigger says, once until its next step.
 * False: there is none. */
bool step_watch__stalled(struct step_watch *watch, uint64_t now_ns, struct stall *stall);

#endif
