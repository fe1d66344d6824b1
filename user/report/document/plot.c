// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/plot.h"

#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HEIGHT	    12 /* lines */
#define WIDTH_MAX   66
#define LABEL	    8 /* columns left of the plot, its edge included */
#define DECADES_MAX 7 /* of an axis; what is beyond is drawn at its end */
/* A cell of braille has 2 × 4 dots. */
#define DOTS_ACROSS 2
#define DOTS_DOWN   4

struct plot {
	unsigned width; /* cells */
	struct plot_axis x, y;
	uint8_t dots[HEIGHT][WIDTH_MAX]; /* as U+2800 counts them */
	char labels[HEIGHT][WIDTH_MAX];
};

static void widen(struct plot_axis *axis, double value)
{
	double power = log10(value);

	if (power < axis->from)
		axis->from = power;
	if (power > axis->to)
		axis->to = power;
}

/* Whole decades; the upper ones where there are too many. */
static void round_off(struct plot_axis *axis)
{
	axis->from = floor(axis->from);
	axis->to = ceil(axis->to);
	if (axis->to - axis->from < 2)
		axis->to = axis->from + 2;
	if (axis->to - axis->from > DECADES_MAX)
		axis->from = axis->to - DECADES_MAX;
}

void plot_axes(struct plot_axis *x, struct plot_axis *y, const struct roofline_points *shown)
{
	*x = *y = (struct plot_axis){INFINITY, -INFINITY};
	for (size_t i = 0; i < shown->roofs_count; i++) {
		widen(x, roof_ridge(&shown->roofs[i]));
		widen(y, shown->roofs[i].flops_per_s);
	}
	for (size_t i = 0; i < shown->count; i++) {
		widen(x, shown->points[i].line.intensity);
		widen(y, shown->points[i].line.flops_per_s);
	}
	round_off(x);
	round_off(y);
}

/* Where a value lies on an axis of so many places, from 0. */
static int index_on_axis(const struct plot_axis *axis, double value, unsigned places)
{
	double at = (log10(value) - axis->from) / (axis->to - axis->from) * places;

	if (at < 0)
		return 0;
	return at >= places ? (int)places - 1 : (int)at;
}

static void set_dot(struct plot *plot, unsigned column, unsigned line)
{
	static const uint8_t bits[DOTS_DOWN][DOTS_ACROSS] = {
		{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

	plot->dots[line / DOTS_DOWN][column / DOTS_ACROSS] |=
		bits[line % DOTS_DOWN][column % DOTS_ACROSS];
}

static void draw_roof(struct plot *plot, const struct roof *roof)
{
	unsigned across = plot->width * DOTS_ACROSS, down = HEIGHT * DOTS_DOWN;
	double step = (plot->x.to - plot->x.from) / across;
	int before = -1;

	for (unsigned column = 0; column < across; column++) {
		double x = pow(10, plot->x.from + step * (column + 0.5));
		double y = fmin(roof->bytes_per_s * x, roof->flops_per_s);
		int height = index_on_axis(&plot->y, y, down);

		if (log10(y) < plot->y.from)
			continue;
		/* no gaps where it is steep */
		for (int at = before < 0 ? height : before + 1; at < height; at++)
			set_dot(plot, column, down - 1 - (unsigned)at);
		set_dot(plot, column, down - 1 - (unsigned)height);
		before = height;
	}
}

const char *plot_power(char buffer[UNITS_MAX], double power)
{
	char *point;

	format_si(buffer, pow(10, power), "");
	point = strstr(buffer, ".0");
	if (point)
		memmove(point, point + strspn(point, ".0"),
			strlen(point + strspn(point, ".0")) + 1);
	return buffer;
}

static void add_line(struct text *into, const struct plot *plot, int line)
{
	unsigned end = plot->width;
	double power = plot->y.from;
	char buffer[UNITS_MAX];

	while (end && !plot->labels[line][end - 1] && !plot->dots[line][end - 1])
		end--;
	/* "100 G" at the lines in which a decade begins */
	while (power <= plot->y.to &&
	       HEIGHT - 1 - index_on_axis(&plot->y, pow(10, power), HEIGHT) != line)
		power++;
	if (power <= plot->y.to)
		text_printf(into, "%*s ┤", LABEL - 2, plot_power(buffer, power));
	else
		text_printf(into, "%*s│", LABEL - 1, "");
	for (unsigned i = 0; i < end; i++) {
		if (plot->labels[line][i])
			text_add_bytes(into, &plot->labels[line][i], 1);
		else if (plot->dots[line][i]) {
			const char bytes[3] = {'\xe2', (char)(0xa0 + (plot->dots[line][i] >> 6)),
					       (char)(0x80 + (plot->dots[line][i] & 0x3f))};

			text_add_bytes(into, bytes, sizeof(bytes));
		} else
			text_add(into, " ");
	}
	text_add(into, "\n");
}

static void add_axis(struct text *into, const struct plot *plot)
{
	char labels[WIDTH_MAX + 1], label[16];
	bool decades[WIDTH_MAX] = {0};

	memset(labels, ' ', sizeof(labels));
	for (double power = plot->x.from; power <= plot->x.to; power++) {
		int column = index_on_axis(&plot->x, pow(10, power) * 1.0001, plot->width);
		int length = snprintf(label, sizeof(label), "%.10g", pow(10, power));
		int from = column - length / 2;

		decades[column] = true;
		if (length > 7)
			length = snprintf(label, sizeof(label), "1e%.0f", power);
		if (from < 0)
			from = 0;
		if (from + length > (int)plot->width)
			from = (int)plot->width - length;
		memcpy(labels + from, label, (size_t)length);
	}
	labels[plot->width] = '\0';
	text_printf(into, "%*s└", LABEL - 1, "");
	for (unsigned i = 0; i < plot->width; i++)
		text_add(into, decades[i] ? "┬" : "─");
	text_printf(into, "\n%*s%s\n", LABEL, "", labels);
}

void plot_roofline(struct text *into, unsigned columns, const struct roofline_points *shown)
{
	struct plot plot = {0};

	if (columns < PLOT_COLUMNS_MIN)
		columns = PLOT_COLUMNS_MIN;
	plot.width = columns - LABEL < WIDTH_MAX ? columns - LABEL : WIDTH_MAX;
	plot_axes(&plot.x, &plot.y, shown);
	for (size_t i = 0; i < shown->roofs_count; i++)
		draw_roof(&plot, &shown->roofs[i]);
	for (size_t i = 0; i < shown->count; i++) {
		const struct roofline *at = &shown->points[i].line;
		unsigned column = (unsigned)index_on_axis(&plot.x, at->intensity, plot.width);
		int line = HEIGHT - 1 - index_on_axis(&plot.y, at->flops_per_s, HEIGHT);

		/* to the right of a label that is there already */
		while (column < plot.width && plot.labels[line][column])
			column++;
		if (column < plot.width)
			plot.labels[line][column] = plot_label(i);
	}
	for (int line = 0; line < HEIGHT; line++)
		add_line(into, &plot, line);
	add_axis(into, &plot);
}

void roofline_points_find(struct roofline_points *found, const struct profile *profile,
			  const struct profile_process *process)
{
	size_t at;

	*found = (struct roofline_points){0};
	for (size_t i = 0; i < process->rows_count && found->count < ROOFLINE_POINTS; i++) {
		const struct profile_row *row = &process->rows[i];
		struct roofline line;

		if (!row->cost.flops)
			continue;
		line = roofline_of_row(profile, process, row);
		if (line.flops_per_s > 0 && line.intensity > 0)
			found->points[found->count++] = (struct roofline_point){row, line};
	}
	for (size_t i = 0; i < found->count; i++) {
		const struct roof *roof = &found->points[i].line.roof;

		for (at = 0; at < found->roofs_count && found->roofs[at].dtype != roof->dtype; at++)
			;
		if (at == found->roofs_count && roof->flops_per_s > 0 && roof->bytes_per_s > 0)
			found->roofs[found->roofs_count++] = *roof;
	}
}

void spark(struct text *text, const uint64_t *values, size_t count)
{
	static const char *const bars[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	uint64_t largest = 0;

	for (size_t i = 0; i < count; i++)
		largest = values[i] > largest ? values[i] : largest;
	for (size_t i = 0; i < count; i++) {
		double share = values[i] ? (double)values[i] / (double)largest : 0;
		unsigned height = (unsigned)(share * 8);

		/* (0, 1/8] is the lowest bar, (7/8, 1] the highest */
		if (height < 8 && values[i] && (share * 8 > height || !height))
			height++;
		text_add(text, bars[height]);
	}
}
