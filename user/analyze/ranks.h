/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of one job that train together. They meet in each step, so all have the same step
 * time; what they differ by is how much of it they wait for each other. A rank's own time is its
 * step less that waiting; the others wait for the one with the most.
 *
 */
#ifndef PERFX_ANALYZE_RANKS_H
#define PERFX_ANALYZE_RANKS_H

#include "aggregate/profile.h"
#include "analyze/step_time.h"

struct rank_row {
	size_t process;			 /* place in the profile */
	const struct profile_rank *rank; /* borrowed from the profile, as is `job` */
	const char *job;
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

#define SKEW_WINDOWS 12
/* Larger jobs do not record which rank waited for which. */
#define SKEW_PAIRS_RANKS_MAX 512

struct skew_window {
	uint64_t from_ns, to_ns;
	size_t count;			     /* collectives that end in it */
	double least_ns, median_ns, most_ns; /* from the first to come to the last */
};

/* One rank. */
struct skew_rank {
	size_t row;	   /* of struct ranks */
	size_t last_count; /* collectives that it came to last */
	double late_ns;	   /* it comes so much later than the first, on average */
	double wait_ns;	   /* it waited for the last one: all of them */
	size_t most;	   /* of skew->ranks: for which it waited most; itself: for none */
	double most_wait_ns;
};

/* One job. */
struct skew {
	struct skew_rank *ranks; /* those that have collectives, by rank */
	size_t ranks_count;
	size_t count; /* collectives that all of them were in */
	double median_ns, most_ns;
	double trend_ns; /* the median of their later half, less that of the earlier one */
	struct skew_window windows[SKEW_WINDOWS];
	size_t windows_count;
	double *waits; /* ranks × ranks: how long one waited for another; NULL: too many */
};

struct ranks {
	struct rank_row *rows; /* by job, then rank */
	size_t count;
	struct skew *skews; /* one for each job of several ranks */
	size_t skews_count;
};

/* Processes with steps and a rank in a world of several; a worker that inherited its rank does not
 * count. times: as profile->processes. 0 or -ENOMEM. */
int ranks_find(struct ranks *ranks, const struct profile *profile, const struct step_time *times);
void ranks_clear(struct ranks *ranks);
/* How many processes of a process's job were traced, itself included; 0: it has no rank. */
size_t ranks_of_job(const struct profile *profile, const struct profile_process *process);
/* Do both have a rank in the same job? */
bool rank_is_same_job(const struct profile_rank *a, const struct profile_rank *b);
/* NULL: the process has no rank. */
const struct rank_row *ranks_of_process(const struct ranks *ranks, size_t process);
/* A rank's skew; NULL: nothing is known. */
const struct skew_rank *skew_of_row(const struct ranks *ranks, const struct rank_row *row,
				    const struct skew **skew);

#endif
