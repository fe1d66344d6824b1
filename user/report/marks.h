/* SPDX-License-Identifier: BSD-2-Clause */
/* What a roofline shows: functions, each with a letter, and the roofs above them. */
#ifndef PERFX_REPORT_MARKS_H
#define PERFX_REPORT_MARKS_H

#include "analyze/roofline.h"
#include "report/plot.h"

#define MARKS 8

struct mark {
	const struct profile_row *row;
	struct roofline line;
};

struct marks {
	struct mark marks[MARKS];
	size_t count;
	struct roof roofs[MARKS]; /* one for each type of data that has a peak */
	size_t roofs_count;
};

/* The functions with a figure of their own in which most time went. */
void marks_find(struct marks *marks, const struct profile *profile,
		const struct profile_process *process);
/* As they are plotted: MARKS of each at most. */
void marks_plot(const struct marks *marks, struct plot_point *points, struct plot_roof *roofs);

static inline char marks_letter(size_t i)
{
	return (char)('A' + i);
}

#endif
