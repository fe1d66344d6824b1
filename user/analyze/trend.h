/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines through series. */
#ifndef PERFX_ANALYZE_TREND_H
#define PERFX_ANALYZE_TREND_H

#include "aggregate/profile.h"

#define TREND_POINTS (PROFILE_ALLOC_WINDOWS + 1)

/* Theil and Sen's slope through (x[0], y[0]), (x[1], y[1]), …, x ascending: at most TREND_POINTS of
 * them; 0 for fewer than two of different x. */
double trend_theil_sen(const double *x, const double *y, size_t count);

struct line {
	double growth;	     /* over the whole series, bytes */
	double straightness; /* R² */
	double first;	     /* bytes at its beginning, as measured */
	size_t points_count; /* 0: there is no line */
};

/* Least squares through the samples of resident memory: all of it or the anonymous part. */
/* A line that says that memory grows: by enough, and steadily. */
#define GROWTH_BYTES	(16ULL << 20)
#define GROWTH_SHARE	0.05 /* of what there was at first */
#define GROWTH_STRAIGHT 0.80 /* R² */
bool growth_is_steady(const struct line *line);

struct line trend_rss(const struct profile_process *process, bool anon);

#endif
