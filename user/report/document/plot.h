/* SPDX-License-Identifier: BSD-2-Clause */
/* The roofline as text: both axes logarithmic, roofs in braille dots, points as letters.
 *
 *         │           ⢀⣀⠤⠒⠊⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉
 *   100 G ┤     ⢀⡠⠔⠊⠁  A
 *         │⢀⡠⠔⠊⠁
 *    10 G ┤         B
 *         └┬─────────────┬─────────────┬
 *          1            10           100
 */
#ifndef PERFX_REPORT_DOCUMENT_PLOT_H
#define PERFX_REPORT_DOCUMENT_PLOT_H

#include "analyze/roofline.h"
#include "base/text.h"
#include "base/units.h"

#include <stdint.h>

/* The points of a roofline plot: functions, each labelled with a letter, and their roofs. */

#define ROOFLINE_POINTS 8

struct roofline_point {
	const struct profile_row *row;
	struct roofline line;
};

struct roofline_points {
	/* where two share a place, the second is drawn to the right of it */
	struct roofline_point points[ROOFLINE_POINTS];
	size_t count;
	struct roof roofs[ROOFLINE_POINTS]; /* one for each type of data that has a peak */
	size_t roofs_count;
};

/* The functions with a cost of their own in which most time went. */
void roofline_points_find(struct roofline_points *found, const struct profile *profile,
			  const struct profile_process *process);

static inline char plot_label(size_t i)
{
	return (char)('A' + i);
}

/* Powers of ten, whole decades. */
struct plot_axis {
	double from, to;
};

/* Axes that show all ridges and points, or the upper decades if there are too many. */
void plot_axes(struct plot_axis *x, struct plot_axis *y, const struct roofline_points *shown);

/* "10 G": a power of ten without decimals. Returns the buffer. */
const char *plot_power(char buffer[UNITS_MAX], double power);

#define PLOT_COLUMNS_MIN 30

/* Adds lines of at most `columns`, each with its end. Needs a roof or a point. */
void plot_roofline(struct text *into, unsigned columns, const struct roofline_points *shown);

/* A row of bars for a series: ▁▂▃▄▅▆▇█ */

/* Heights by share of the largest value; "·" for 0. */
void spark(struct text *text, const uint64_t *values, size_t count);

#endif
