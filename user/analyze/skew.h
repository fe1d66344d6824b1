/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * By how much the ranks of a job come apart. A collective ends on all ranks at nearly the same
 * moment, so calls whose times overlap and whose ends are nearest are the same one; when each rank
 * came to it shows who was the last, and how long each of the others waited for that rank.
 */
#ifndef PERFX_ANALYZE_SKEW_H
#define PERFX_ANALYZE_SKEW_H

#include "analyze/ranks.h"

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

/* The rows of one job. count 0: nothing is known. 0 or -ENOMEM. */
int skew_find(struct skew *skew, const struct profile *profile, const struct ranks *ranks,
	      size_t first_row, size_t rows_count);
void skew_clear(struct skew *skew);
/* A rank's skew; NULL: nothing is known. */
const struct skew_rank *skew_of_row(const struct ranks *ranks, const struct rank_row *row,
				    const struct skew **skew);

#endif
