// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps as SVG: a bar for each, in the order of time, divided by what its time went into; with
 * more of them than bars fit, a bar is the mean of some that follow each other, and a line above it
 * reaches to the longest. Slow ones have a mark. Pointing at a bar tells its numbers; the table
 * below has the same.
 */
#include "report/html.h"

#include "analyze/steps.h"
#include "base/quantity.h"
#include "base/units.h"

/* Of the drawing, and of the plot in it: the rest is for labels. */
#define WIDTH	   960
#define HEIGHT	   230
#define LEFT	   70
#define RIGHT	   880
#define TOP	   22
#define BOTTOM	   190
#define LABEL_DOWN 18
#define BARS_MAX   220
#define BAR_WIDTH  26.0 /* at most */
#define TICKS	   4
/* A step far beyond the others would press them flat: it is cut there, marked, and named. */
#define CUT 5

struct drawing {
	struct text *into;
	const struct profile *profile;
	const struct profile_steps *steps;
	struct profile_step bars[BARS_MAX];
	uint64_t first[BARS_MAX]; /* number of a bar's first step */
	size_t bars_count;
	double top_ns; /* at TOP */
};

static void put_together(struct drawing *d)
{
	const struct profile_steps *steps = d->steps;
	size_t each = (steps->series_count + BARS_MAX - 1) / BARS_MAX;
	uint64_t number = 1;

	for (size_t i = 0; i < steps->series_count; i++) {
		const struct profile_step *step = &steps->series[i];
		struct profile_step *bar = &d->bars[i / each];

		if (i % each == 0) {
			d->first[d->bars_count++] = number;
			*bar = (struct profile_step){.from_ns = step->from_ns};
		}
		bar->count += step->count;
		bar->to_ns = step->to_ns;
		bar->total_ns += step->total_ns;
		bar->max_ns = step->max_ns > bar->max_ns ? step->max_ns : bar->max_ns;
		for (int phase = 0; phase < PROFILE_PHASES; phase++)
			bar->phases[phase] += step->phases[phase];
		bar->flops += step->flops;
		number += step->count;
	}
}

static double down(const struct drawing *d, double ns)
{
	double share = ns / d->top_ns;

	return BOTTOM - (BOTTOM - TOP) * (share > 1 ? 1 : share);
}

/* 1, 2 or 5 times a power of ten: TICKS of them at most. */
static double tick_of(double top_ns)
{
	double tick = 1;

	while (tick * TICKS < top_ns) {
		if (tick * 2 * TICKS >= top_ns)
			return tick * 2;
		if (tick * 5 * TICKS >= top_ns)
			return tick * 5;
		tick *= 10;
	}
	return tick;
}

static void draw_grid(struct drawing *d)
{
	double tick = tick_of(d->top_ns);

	for (double ns = 0; ns <= d->top_ns; ns += tick) {
		text_printf(d->into, "<path class=grid d=\"M%d %.1fH%d\"/>", LEFT, down(d, ns),
			    RIGHT);
		text_printf(d->into, "<text x=%d y=%.1f class=end>", LEFT - 6, down(d, ns) + 4);
		add_ns(d->into, (uint64_t)ns);
		text_add(d->into, "</text>");
	}
}

static void draw_median(struct drawing *d)
{
	double y = down(d, (double)d->steps->p50_ns);

	text_printf(d->into, "<path class=median d=\"M%d %.1fH%d\"/>", LEFT, y, RIGHT);
	text_printf(d->into, "<text x=%d y=%.1f>median</text>", RIGHT + 6, y - 2);
	text_printf(d->into, "<text x=%d y=%.1f>", RIGHT + 6, y + 12);
	add_ns(d->into, d->steps->p50_ns);
	text_add(d->into, "</text>");
}

static void add_title(struct drawing *d, const struct profile_step *bar, uint64_t number)
{
	double mfu = steps_mfu(d->profile, d->steps, bar);
	struct text *into = d->into;

	text_printf(into, "<title>Step %llu", (unsigned long long)number);
	if (bar->count > 1)
		text_printf(into, " to %llu, on average",
			    (unsigned long long)(number + bar->count - 1));
	text_add(into, ": ");
	add_ns(into, bar->total_ns / bar->count);
	if (bar->count > 1) {
		text_add(into, ", longest ");
		add_ns(into, bar->max_ns);
	}
	text_add(into, ", at ");
	add_ns(into, bar->from_ns > d->profile->start_ns ? bar->from_ns - d->profile->start_ns : 0);
	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--) {
		text_printf(into, "; %s ", profile_phase_name((enum profile_phase)phase));
		add_ns(into, bar->phases[phase] / bar->count);
	}
	if (d->steps->cost.counted_count) {
		text_add(into, "; ");
		add_si(into, (double)bar->flops / (double)bar->count, "FLOP");
	}
	if (mfu >= 0) {
		text_add(into, ", MFU ");
		add_percent(into, mfu);
	}
	text_add(into, "</title>");
}

static void draw_phases(struct drawing *d, const struct profile_step *bar, double x, double width)
{
	double from_ns = 0;

	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];
		double to_ns = from_ns + (double)bar->phases[phase] / (double)bar->count;
		double height = down(d, from_ns) - down(d, to_ns);

		if (height >= 0.05)
			text_printf(d->into,
				    "<rect x=%.1f y=%.1f width=%.1f height=%.1f class=%s />", x,
				    down(d, to_ns), width, height, profile_phase_name(phase));
		from_ns = to_ns;
	}
}

static void draw_bar(struct drawing *d, size_t i)
{
	const struct profile_step *bar = &d->bars[i];
	double slot = (double)(RIGHT - LEFT) / (double)d->bars_count, width;
	double x, middle, y = down(d, (double)bar->max_ns);

	slot = slot > BAR_WIDTH ? BAR_WIDTH : slot;
	width = slot > 4 ? slot - 1 : slot;
	x = LEFT + slot * (double)i;
	middle = x + width / 2;
	text_add(d->into, "<g>");
	add_title(d, bar, d->first[i]);
	draw_phases(d, bar, x, width);
	if (bar->count > 1)
		text_printf(d->into, "<path class=most d=\"M%.1f %.1fV%.1f\"/>", middle,
			    down(d, (double)bar->total_ns / (double)bar->count), y);
	if (steps_slow(d->steps, bar))
		text_printf(d->into, "<path class=slow d=\"M%.1f %.1fl-4 -8h8z\"/>", middle, y - 3);
	text_add(d->into, "</g>");
}

/* The numbers of the first and of the last step, where they are. */
static void draw_numbers(struct drawing *d)
{
	double slot = (double)(RIGHT - LEFT) / (double)d->bars_count;
	double right = LEFT + (slot > BAR_WIDTH ? BAR_WIDTH : slot) * (double)d->bars_count;

	text_printf(d->into, "<text x=%d y=%d>step 1</text>", LEFT, BOTTOM + LABEL_DOWN);
	if (right - LEFT > 120)
		text_printf(d->into, "<text x=%.1f y=%d class=end>%llu</text>", right,
			    BOTTOM + LABEL_DOWN, (unsigned long long)d->steps->count);
}

static void add_legend(struct text *into, const struct drawing *d)
{
	text_add(into, "<figcaption>Steps, by what their time went into: ");
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		const char *name = profile_phase_name(profile_phases_in_order[i]);

		text_printf(into, "<span class=key><span class=\"dot %s\"></span>%s</span> ", name,
			    name);
	}
	if (d->bars[0].count > 1)
		text_printf(into,
			    "A bar is the mean of %llu steps; the line reaches to the longest. ",
			    (unsigned long long)d->bars[0].count);
	text_printf(into, "▾ marks what takes more than %.1f times the median", STEPS_SLOW);
	text_add(into, (double)d->steps->max_ns > d->top_ns
			       ? "; what is far longer is cut at the top.</figcaption>"
			       : ".</figcaption>");
}

void html_steps(struct text *into, const struct profile *profile,
		const struct profile_process *process)
{
	struct drawing d = {.into = into, .profile = profile, .steps = &process->steps};

	put_together(&d);
	d.top_ns = (double)d.steps->max_ns;
	if (d.top_ns > CUT * (double)d.steps->p95_ns)
		d.top_ns = CUT * (double)d.steps->p95_ns;
	if (!d.bars_count || d.top_ns <= 0)
		return;
	text_add(into, "<figure class=steps>");
	add_legend(into, &d);
	text_printf(into,
		    "<div class=graph><svg viewBox=\"0 0 %d %d\" role=img "
		    "aria-label=\"Duration of the steps in the order of time; the figures are in "
		    "the table below\">",
		    WIDTH, HEIGHT);
	draw_grid(&d);
	for (size_t i = 0; i < d.bars_count; i++)
		draw_bar(&d, i);
	draw_median(&d);
	draw_numbers(&d);
	text_add(into, "</svg></div></figure>\n");
}
