/* SPDX-License-Identifier: BSD-2-Clause */
/* The points of a roofline plot: functions, each labelled with a letter, and their roofs. */
#ifndef PERFX_REPORT_ROOFLINE_POINTS_H
#define PERFX_REPORT_ROOFLINE_POINTS_H

#include "analyze/roofline.h"
#include "report/plot.h"

#define MARKS 8

struct roofline_point {
	const struct profile_row *row;
	struct roofline line;
};

struct roofline_points {
	struct roofline_point marks[MARKS];
	size_t count;
	struct roof roofs[MARKS]; /* one for each type of data that has a peak */
	size_t roofs_count;
};

/* The functions with a cost of their own in which most time went. */
void roofline_points_find(struct roofline_points *marks, const struct profile *profile,
			  const struct profile_process *process);
/* As they are plotted: MARKS of each at most. */
void roofline_points_plot(const struct roofline_points *marks, struct plot_point *points,
			  struct plot_roof *roofs);

static inline char plot_label(size_t i)
{
	return (char)('A' + i);
}

#endif
