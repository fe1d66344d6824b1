// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/trend.h"

#include <stdlib.h>

static int by_value(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

double trend_theil_sen(const double *x, const double *y, size_t count)
{
	double slopes[TREND_POINTS * (TREND_POINTS - 1) / 2];
	size_t pairs = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = i + 1; j < count; j++) {
			if (x[j] > x[i])
				slopes[pairs++] = (y[j] - y[i]) / (x[j] - x[i]);
		}
	}
	if (!pairs)
		return 0;
	qsort(slopes, pairs, sizeof(slopes[0]), by_value);
	return (slopes[pairs / 2] + slopes[(pairs - 1) / 2]) / 2;
}

/* Fewer samples make no line. */
#define RSS_POINTS 5

static uint64_t rss_of(const struct profile_usage_point *point, bool anon)
{
	return anon ? point->rss_anon_bytes : point->rss_bytes;
}

static bool is_usable(const struct profile_process *p, bool anon)
{
	if (p->points_count < RSS_POINTS)
		return false;
	for (size_t i = 0; i < p->points_count; i++) {
		if (rss_of(&p->points[i], anon) == PROFILE_ABSENT ||
		    (i && p->points[i].time_ns <= p->points[i - 1].time_ns))
			return false;
	}
	return true;
}

struct line trend_rss(const struct profile_process *p, bool anon)
{
	double n = (double)p->points_count, sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0, xx, yy, xy;
	struct line line = {0};
	double span;

	if (!is_usable(p, anon))
		return line;
	line.first = (double)rss_of(&p->points[0], anon);
	line.points_count = p->points_count;
	span = (double)(p->points[p->points_count - 1].time_ns - p->points[0].time_ns);
	for (size_t i = 0; i < p->points_count; i++) {
		double x = (double)(p->points[i].time_ns - p->points[0].time_ns) / span;
		double y = (double)rss_of(&p->points[i], anon) - line.first;

		sx += x;
		sy += y;
		sxx += x * x;
		syy += y * y;
		sxy += x * y;
	}
	xx = n * sxx - sx * sx;
	yy = n * syy - sy * sy;
	xy = n * sxy - sx * sy;
	if (xx > 0 && yy > 0) {
		line.growth = xy / xx;
		line.straightness = xy * xy / (xx * yy);
	}
	return line;
}

bool growth_is_steady(const struct line *line)
{
	return line->points_count && line->growth >= (double)GROWTH_BYTES &&
	       line->growth >= GROWTH_SHARE * line->first && line->straightness >= GROWTH_STRAIGHT;
}
