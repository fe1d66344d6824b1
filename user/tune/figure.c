// SPDX-License-Identifier: BSD-2-Clause
/*
 * The curve, as lines of text
 *
 *     workers=0  ████████▌                       4.21
 *     workers=2  ████████████████████████▎       11.9   within 5 % of the best
 *     workers=4  █████████████████████████       12.3   best
 *     workers=8  exit status 1: MemoryError
 *
 * and as SVG: the longest list is the axis, each combination of the others a line.
 */
#include "base/escape.h"
#include "base/units.h"
#include "tune/internal.h"

#include <math.h>
#include <stdlib.h>

#define BAR_COLUMNS   32
#define LABEL_COLUMNS 28
#define WHY_COLUMNS   48

static void add_bar(struct text *into, double share)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	unsigned length = (unsigned)lround(share * BAR_COLUMNS * 8);

	for (unsigned i = 0; i < length / 8; i++)
		text_add(into, "█");
	text_printf(into, "%s%*s", eighths[length % 8], (int)(BAR_COLUMNS - (length + 7) / 8), "");
}

static void add_label(struct text *into, const struct tune *tune, const struct tune_point *point)
{
	struct text label = {0}, shown = {0};

	tune_add_point(&label, tune, point);
	escape_display(&shown, text_peek(&label));
	utf8_shorten(into, text_peek(&shown), LABEL_COLUMNS);
	text_finish(&label, &into->failed);
	text_finish(&shown, &into->failed);
}

static unsigned label_columns(const struct tune *tune)
{
	unsigned most = 0;

	for (size_t i = 0; i < tune->points_count; i++) {
		struct text label = {0};
		unsigned columns;

		add_label(&label, tune, &tune->points[i]);
		columns = utf8_width(text_peek(&label));
		most = columns > most ? columns : most;
		text_clear(&label);
	}
	return most;
}

/* Instead of a bar. */
static void add_why(struct text *into, const struct tune_point *point)
{
	struct text shown = {0};

	escape_display(&shown, point->runs.why ? point->runs.why : "not measured");
	utf8_cut(into, text_peek(&shown), WHY_COLUMNS);
	text_finish(&shown, &into->failed);
}

void tune_plot(struct text *lines, const struct tune *tune)
{
	unsigned columns = label_columns(tune);
	double highest = 0;

	for (size_t i = 0; i < tune->points_count; i++)
		highest = fmax(highest, tune->points[i].runs.median);
	for (size_t i = 0; i < tune->points_count; i++) {
		const struct tune_point *point = &tune->points[i];
		struct text label = {0};

		add_label(&label, tune, point);
		text_printf(lines, "%s%*s  ", text_peek(&label),
			    (int)(columns - utf8_width(text_peek(&label))), "");
		text_finish(&label, &lines->failed);
		if (isnan(point->runs.median) || !(highest > 0)) {
			add_why(lines, point);
		} else {
			add_bar(lines, fmax(point->runs.median, 0) / highest);
			text_add(lines, "  ");
			tune_add_number(lines, &tune->metric, point->runs.median);
			text_add(lines, i == tune->best	    ? "   best"
					: i == tune->enough ? "   within 5 % of the best"
							    : "");
		}
		text_add(lines, "\n");
	}
}

#define WIDTH  760
#define HEIGHT 300
#define LEFT   86
#define RIGHT  600 /* the rest is for the lines' labels */
#define TOP    24
#define BOTTOM 246
#define TICKS  5

struct drawing {
	struct text *into;
	const struct tune *tune;
	size_t across; /* the list that is the axis */
	size_t stride; /* points from one of its values to the next */
	size_t count;  /* its values */
	double top;
};

static struct drawing drawing_of(struct text *into, const struct tune *tune)
{
	struct drawing d = {.into = into, .tune = tune, .stride = 1};

	for (size_t i = 1; i < tune->lists_count; i++)
		if (tune->lists[i].values_count > tune->lists[d.across].values_count)
			d.across = i;
	d.count = tune->lists[d.across].values_count;
	for (size_t i = d.across + 1; i < tune->lists_count; i++)
		d.stride *= tune->lists[i].values_count;
	for (size_t i = 0; i < tune->points_count; i++)
		d.top = fmax(d.top, tune->points[i].runs.highest);
	return d;
}

static double across(const struct drawing *d, size_t at)
{
	return LEFT + (RIGHT - LEFT) * ((double)at + 0.5) / (double)d->count;
}

static double down(const struct drawing *d, double value)
{
	return BOTTOM - (BOTTOM - TOP) * fmax(value, 0) / d->top;
}

/* 1, 2 or 5 times a power of ten. */
static double tick_of(double top)
{
	double power = pow(10, floor(log10(top / TICKS)));

	for (double factor = 1; factor < 10; factor = factor == 2 ? 5 : 2 * factor)
		if (factor * power * TICKS >= top)
			return factor * power;
	return 10 * power;
}

static void draw_grid(struct drawing *d)
{
	double tick = tick_of(d->top);
	const struct tune_list *list = &d->tune->lists[d->across];

	for (double value = 0; value <= d->top * 1.0001; value += tick) {
		text_printf(d->into,
			    "<path class=grid d=\"M%d %.1fH%d\"/><text x=%d y=%.1f class=end>",
			    LEFT, down(d, value), RIGHT, LEFT - 8, down(d, value) + 4);
		if (value > 0 && (tune_less_is_better(&d->tune->metric) || value >= 1000))
			tune_add_number(d->into, &d->tune->metric, value);
		else
			text_printf(d->into, "%.3g", value);
		text_add(d->into, "</text>");
	}
	for (size_t i = 0; i < d->count; i++) {
		text_printf(d->into, "<text x=%.1f y=%d class=mid>", across(d, i), BOTTOM + 20);
		escape_html(d->into, list->values[i]);
		text_add(d->into, "</text>");
	}
	text_printf(d->into, "<text x=%d y=%d class=mid>", (LEFT + RIGHT) / 2, BOTTOM + 42);
	escape_html(d->into, list->name);
	text_add(d->into, "</text>");
}

static void draw_point(struct drawing *d, size_t number, size_t at)
{
	const struct tune_point *point = &d->tune->points[number];
	const struct tune_runs *runs = &point->runs;
	struct text name = {0};

	text_printf(d->into, "<g%s><title>",
		    number == d->tune->best	? " class=best"
		    : number == d->tune->enough ? " class=enough"
						: "");
	tune_add_point(&name, d->tune, point);
	escape_html(d->into, text_peek(&name));
	text_add(d->into, ": ");
	tune_add_value(d->into, &d->tune->metric, runs->median);
	text_add(d->into, ", runs ");
	tune_add_number(d->into, &d->tune->metric, runs->lowest);
	text_add(d->into, " to ");
	tune_add_number(d->into, &d->tune->metric, runs->highest);
	text_printf(d->into,
		    "</title><path class=spread d=\"M%.1f %.1fV%.1fm-4 0h8M%.1f %.1fh8\"/><circle "
		    "cx=%.1f cy=%.1f r=%d /></g>",
		    across(d, at), down(d, runs->lowest), down(d, runs->highest), across(d, at) - 4,
		    down(d, runs->lowest), across(d, at), down(d, runs->median),
		    number == d->tune->best ? 6 : 4);
	text_finish(&name, &d->into->failed);
}

/* At the line's end: the values that it has in common. */
static void draw_line_label(struct drawing *d, size_t first, size_t last, size_t at)
{
	const struct tune_point *point = &d->tune->points[first];

	if (d->tune->lists_count < 2)
		return;
	text_printf(d->into, "<text x=%.1f y=%.1f>", across(d, at) + 12,
		    down(d, d->tune->points[last].runs.median) + 4);
	for (size_t i = 0, shown = 0; i < d->tune->lists_count; i++) {
		struct text value = {0};

		if (i == d->across)
			continue;
		text_printf(&value, "%s%s=%s", shown++ ? " " : "", d->tune->lists[i].name,
			    point->values[i]);
		escape_html(d->into, text_peek(&value));
		text_finish(&value, &d->into->failed);
	}
	text_add(d->into, "</text>");
}

static void draw_line(struct drawing *d, size_t first)
{
	size_t last = TUNE_NONE, last_at = 0;

	text_add(d->into, "<path class=line d=\"");
	for (size_t at = 0; at < d->count; at++) {
		size_t number = first + at * d->stride;
		double median = d->tune->points[number].runs.median;

		if (isnan(median))
			continue;
		text_printf(d->into, "%c%.1f %.1f", last == TUNE_NONE ? 'M' : 'L', across(d, at),
			    down(d, median));
		last = number;
		last_at = at;
	}
	text_add(d->into, "\"/>");
	if (last == TUNE_NONE)
		return;
	for (size_t at = 0; at < d->count; at++)
		if (!isnan(d->tune->points[first + at * d->stride].runs.median))
			draw_point(d, first + at * d->stride, at);
	draw_line_label(d, first, last, last_at);
}

void tune_figure(struct text *figure, const struct tune *tune)
{
	struct drawing d = drawing_of(figure, tune);

	if (!(d.top > 0))
		return;
	text_add(figure, "<figure class=curve><figcaption>A dot is the median of the runs, its "
			 "line goes from the lowest to the highest: <span class=key><span "
			 "class=\"dot optimizer\"></span>best</span>");
	if (tune->enough != tune->best)
		text_add(figure, " <span class=key><span class=\"dot data\"></span>the first "
				 "within 5 % of it</span>");
	text_printf(figure,
		    "</figcaption><div class=graph><svg viewBox=\"0 0 %d %d\" role=img "
		    "aria-label=\"The curve; its numbers are in the table below\">",
		    WIDTH, HEIGHT);
	draw_grid(&d);
	for (size_t i = 0; i < tune->points_count; i++)
		if (i / d.stride % d.count == 0)
			draw_line(&d, i);
	text_add(figure, "</svg></div></figure>\n");
}
