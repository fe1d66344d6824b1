/* SPDX-License-Identifier: BSD-2-Clause */
/* The last collectives of each process: when it came to them, and when they ended. */
#ifndef PERFX_AGGREGATE_COLLECTIVES_H
#define PERFX_AGGREGATE_COLLECTIVES_H

#include "aggregate/profile.h"

/* What a row's function is; of one that is not described yet it is asked again. */
enum meets { MEETS_UNDECIDED = 0, MEETS_NOT, MEETS };

struct collectives {
	struct profile_collective *list; /* in the order of the stream: by their ends */
	size_t capacity, count;
};

struct aggregate;
struct row;

/* A timed call of a row that is not MEETS_NOT. 0 or -ENOMEM. */
int collectives_span(struct aggregate *aggregate, struct row *row, const struct perfx_span *span);

#endif
