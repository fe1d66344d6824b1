// SPDX-License-Identifier: BSD-2-Clause
/*
 * The roofline as SVG: both axes logarithmic, a line for each type of data that has a peak, a dot
 * and a letter for each function. The letters are those of the table below; pointing at a dot tells
 * its name.
 */
#include "report/html.h"

#include "base/escape.h"
#include "base/quantity.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/roofline_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the drawing, and of the plot in it: the rest is for labels. */
#define WIDTH	   760
#define HEIGHT	   380
#define LEFT	   78
#define RIGHT	   740
#define TOP	   16
#define BOTTOM	   330
#define LETTER	   13  /* columns and lines that a letter takes */
#define LABEL	   140 /* columns that a roof's label takes */
#define LABEL_DOWN 18  /* of the x axis, below it */

struct drawing {
	struct text *into;
	struct plot_axis x, y;
};

static double place(const struct plot_axis *axis, double value, double from, double to)
{
	double share = (log10(value) - axis->from) / (axis->to - axis->from);

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return from + share * (to - from);
}

static double across(const struct drawing *d, double value)
{
	return place(&d->x, value, LEFT, RIGHT);
}

static double down(const struct drawing *d, double value)
{
	return place(&d->y, value, BOTTOM, TOP);
}

/* Of a power of ten the decimals say nothing: "10 G", not "10.0 G". */
static void add_power(struct text *into, double power)
{
	char buffer[UNITS_MAX], *point;

	format_si(buffer, pow(10, power), "");
	point = strstr(buffer, ".0");
	if (point)
		memmove(point, point + strspn(point, ".0"),
			strlen(point + strspn(point, ".0")) + 1);
	text_add(into, buffer);
}

static void draw_grid(struct drawing *d)
{
	for (double power = d->x.from; power <= d->x.to; power++) {
		double x = across(d, pow(10, power));

		text_printf(d->into, "<path class=grid d=\"M%.1f %dV%d\"/>", x, TOP, BOTTOM);
		text_printf(d->into, "<text x=%.1f y=%d class=mid>%.10g</text>", x,
			    BOTTOM + LABEL_DOWN, pow(10, power));
	}
	for (double power = d->y.from; power <= d->y.to; power++) {
		double y = down(d, pow(10, power));

		text_printf(d->into, "<path class=grid d=\"M%d %.1fH%d\"/>", LEFT, y, RIGHT);
		text_printf(d->into, "<text x=%d y=%.1f class=end>", LEFT - 8, y + 4);
		add_power(d->into, power);
		text_add(d->into, "</text>");
	}
	text_printf(d->into, "<text x=%d y=%d class=mid>FLOP/byte</text>", (LEFT + RIGHT) / 2,
		    BOTTOM + 2 * LABEL_DOWN + 4);
	text_printf(d->into,
		    "<text transform=\"translate(14 %d) rotate(-90)\" class=mid>FLOP/s</text>",
		    (TOP + BOTTOM) / 2);
}

/* From where it enters the plot to the ridge, and flat from there on. aside: how many labels stand
 * where its own would. */
static void draw_roof(struct drawing *d, const struct roof *roof, unsigned aside)
{
	double slope = roof->bytes_per_s, flat = roof->flops_per_s;
	double left = pow(10, d->x.from), low = pow(10, d->y.from), right = pow(10, d->x.to);
	double from = slope * left < low ? low / slope : left;
	double ridge = flat / slope;

	text_printf(d->into, "<path class=roof d=\"M%.1f %.1f", across(d, from),
		    down(d, slope * from));
	if (ridge > from)
		text_printf(d->into, "L%.1f %.1f", across(d, ridge), down(d, flat));
	text_printf(d->into, "L%.1f %.1f\"/>", across(d, right), down(d, flat));
	text_printf(d->into, "<text x=%d y=%.1f class=end>%s ", RIGHT - 4 - LABEL * (int)aside,
		    down(d, flat) - 6, name_of_dtype(roof->dtype));
	add_si(d->into, flat, "FLOP/s");
	text_add(d->into, "</text>");
}

static unsigned labels_near(const struct drawing *d, const struct roof *roofs, size_t of)
{
	unsigned count = 0;

	for (size_t i = 0; i < of; i++)
		count += fabs(down(d, roofs[i].flops_per_s) - down(d, roofs[of].flops_per_s)) <
			 LETTER;
	return count;
}

static void add_title(struct text *into, const struct profile *profile, uint32_t id)
{
	const struct profile_function *function = profile_function(profile, id);
	struct text shown = {0};

	escape_display(&shown, function && function->name[0] ? function->name : "?");
	text_add(into, "<title>");
	escape_html(into, text_peek(&shown));
	text_add(into, "</title>");
	into->failed |= shown.failed;
	text_clear(&shown);
}

struct letter {
	double x, y;
};

/* To the right of the dot; further right where another letter is. */
static struct letter free_place(const struct letter *letters, size_t count, double x, double y)
{
	struct letter letter = {x + 8, y + 4};

	for (size_t i = 0; i < count; i++) {
		if (fabs(letters[i].x - letter.x) >= LETTER ||
		    fabs(letters[i].y - letter.y) >= LETTER)
			continue;
		letter.x = letters[i].x + LETTER;
		i = (size_t)-1; /* look at all again */
	}
	return letter;
}

static void draw_points(struct drawing *d, const struct profile *profile,
			const struct roofline_points *marks)
{
	struct letter letters[MARKS];

	for (size_t i = 0; i < marks->count; i++) {
		const struct roofline *line = &marks->marks[i].line;
		const char *bound = roofline_class_name(line->bound);
		double x = across(d, line->intensity), y = down(d, line->flops_per_s);

		letters[i] = free_place(letters, i, x, y);
		text_printf(d->into, "<g class=%s>", bound ? bound : "unknown");
		add_title(d->into, profile, marks->marks[i].row->function);
		text_printf(d->into, "<circle cx=%.1f cy=%.1f r=5 />", x, y);
		text_printf(d->into, "<text x=%.1f y=%.1f>%c</text></g>", letters[i].x,
			    letters[i].y, plot_label(i));
	}
}

void html_roofline(struct text *into, const struct profile *profile,
		   const struct profile_process *process)
{
	struct drawing d = {.into = into};
	struct plot_point points[MARKS];
	struct plot_roof roofs[MARKS];
	struct roofline_points marks;

	roofline_points_find(&marks, profile, process);
	if (!marks.count || !marks.roofs_count)
		return;
	roofline_points_plot(&marks, points, roofs);
	plot_axes(&d.x, &d.y, roofs, marks.roofs_count, points, marks.count);
	text_printf(into,
		    "<figure class=roofline><figcaption>Roofline: the functions of the table below "
		    "under what the host can do; hollow: below %.0f %% of it.</figcaption>"
		    "<div class=graph><svg viewBox=\"0 0 %d %d\" role=img "
		    "aria-label=\"FLOP/s by FLOP/byte; the figures are in the table below\">",
		    ROOFLINE_OVERHEAD_SHARE * 100, WIDTH, HEIGHT);
	draw_grid(&d);
	for (size_t i = 0; i < marks.roofs_count; i++)
		draw_roof(&d, &marks.roofs[i], labels_near(&d, marks.roofs, i));
	draw_points(&d, profile, &marks);
	text_add(into, "</svg></div></figure>\n");
}
