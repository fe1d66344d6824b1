/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of one job that train together. They meet in each step, so all have the same step
 * time; what they differ by is how much of it they wait for each other. A rank's own time is its
 * step less that waiting; the one with the most is who the others wait for.
 */
#ifndef PERFX_ANALYZE_RANKS_H
#define PERFX_ANALYZE_RANKS_H

#include "aggregate/profile.h"
#include "analyze/step_time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank_row {
	size_t process;	     /* place in the profile */
	const char *job;     /* borrowed of the profile */
	double step_ns;	     /* on average */
	double wait_ns;	     /* of it, for other ranks: in collectives */
	double own_ns;	     /* the rest */
	double own_error_ns; /* its standard error */
	size_t leader;	     /* of its job: the process with the most own time */
	bool leads;	     /* it is that one, */
	double lead_ns;	     /* by so much more than the next one */
	double lead_error_ns;
	double others_wait_ns; /* the others', on average */
	/* Of all classes of time except waiting for others, the one with the largest excess over
	 * the other ranks' average, and that excess. */
	enum time_class excess;
	double excess_ns;
};

struct skew;

struct ranks {
	struct rank_row *rows; /* by job, then rank */
	size_t count;
	struct skew *skews; /* skew.h: one for each job of several ranks */
	size_t skews_count;
};

/* Processes with steps and a rank in a world of several; a worker that inherited its rank does not
 * count. times: as profile->processes. 0 or -ENOMEM. */
int ranks_find(struct ranks *ranks, const struct profile *profile, const struct step_time *times);
void ranks_clear(struct ranks *ranks);
/* How many processes of a process's job were traced, itself included; 0: it has no rank. */
size_t ranks_of_job(const struct profile *profile, const struct profile_process *process);
/* NULL: the process has no rank. */
const struct rank_row *ranks_of_process(const struct ranks *ranks, size_t process);

#endif
