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
#ifndef PERFX_REPORT_PLOT_H
#define PERFX_REPORT_PLOT_H

#include "base/text.h"

/* What can be reached at x is the lower of flat and slope × x. */
struct plot_roof {
	double flat, slope;
};

/* All positive; where two share a place, the second is drawn to the right of it. */
struct plot_point {
	double x, y;
	char mark;
};

/* Powers of ten, whole decades. */
struct plot_axis {
	double from, to;
};

/* What shows all roofs' ridges and all points; the upper decades where there are too many. */
void plot_axes(struct plot_axis *x, struct plot_axis *y, const struct plot_roof *roofs,
	       size_t roofs_count, const struct plot_point *points, size_t points_count);

#define PLOT_COLUMNS_MIN 30

/* Adds lines of at most `columns`, each with its end. Needs a roof or a point. */
void plot_roofline(struct text *into, unsigned columns, const struct plot_roof *roofs,
		   size_t roofs_count, const struct plot_point *points, size_t points_count);

#endif
