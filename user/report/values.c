// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values of the program's own:
 *
 *     Counters
 *      Value      Sum        Rate   Lowest  Highest  Samples  Course         Name
 *     0.3125    26.41     2.64 /s   0.3125    1.207       40  █▆▅▃▂▂▁▁▁·     loss
 *      1,280    1,280   127.6 /s       32       32       40  ·▁▂▃▄▄▅▆▇█     tokens
 */
#include "base/escape.h"
#include "base/units.h"
#include "report/compose.h"
#include "report/sparkline.h"

#include <math.h>

#define COURSE_COLUMNS 16
/* Of a bar's height above 0, in spark's integers. */
#define COURSE_HEIGHT 1000

/* "0.3125" "-12.3 M" "1.5e-07" */
static void format_number(char *buffer, size_t size, double number)
{
	char units[UNITS_MAX];

	if (isnan(number))
		snprintf(buffer, size, "-");
	else if (isinf(number))
		snprintf(buffer, size, number > 0 ? "∞" : "-∞");
	else if (fabs(number) < 1e6 || fabs(number) >= 1e18)
		snprintf(buffer, size, "%.4g", number);
	else
		snprintf(buffer, size, "%s%s", number < 0 ? "-" : "",
			 format_si(units, fabs(number), ""));
	if (fabs(number) < 1e6 && fabs(number) >= 1e4)
		snprintf(buffer, size, "%.6g", number);
}

static void cell_number(struct composer *c, double number, const char *unit)
{
	char buffer[UNITS_MAX * 2];

	format_number(buffer, sizeof(buffer), number);
	document_cell_printf(c->document, "%s%s", buffer, isnan(number) ? "" : unit);
}

/* What the value was at the end of each of so many parts of the time, by height. */
static void cell_course(struct composer *c, const struct profile_process *p,
			const struct profile_user_value *value)
{
	uint64_t heights[COURSE_COLUMNS], wall_ns = profile_wall_ns(p);
	double least = INFINITY, most = -INFINITY;
	struct text text = {0};
	size_t at = 0;

	for (size_t i = 0; i < value->points_count; i++) {
		least = fmin(least, value->points[i].value);
		most = fmax(most, value->points[i].value);
	}
	for (size_t i = 0; i < COURSE_COLUMNS; i++) {
		uint64_t end_ns =
			p->from_ns + (uint64_t)((double)wall_ns * (double)(i + 1) / COURSE_COLUMNS);

		while (at < value->points_count && value->points[at].time_ns <= end_ns)
			at++;
		heights[i] = at && most > least
				     ? (uint64_t)((value->points[at - 1].value / 2 - least / 2) /
						  (most / 2 - least / 2) * COURSE_HEIGHT)
				     : 0;
	}
	if (most > least)
		spark(&text, heights, COURSE_COLUMNS);
	document_cell(c->document, &text);
}

static void compose_row(struct composer *c, const struct profile_process *p,
			const struct profile_user_value *value)
{
	bool any = value->lowest <= value->highest;

	cell_number(c, value->value, "");
	cell_number(c, any || value->lost_count ? value->sum : NAN, "");
	cell_number(c, any || value->lost_count ? value->rate : NAN, " /s");
	cell_number(c, any ? value->lowest : NAN, "");
	cell_number(c, any ? value->highest : NAN, "");
	document_cell_count(c->document, value->samples_count);
	cell_course(c, p, value);
	document_cell_name(c->document, value->name, c->limits->name_columns);
}

/* What is not in the table, or not all of it. */
static void compose_note(struct composer *c, const struct profile_process *p)
{
	uint64_t strange = 0, lost = 0, unsummed = 0;
	struct text text = {0};
	char buffer[UNITS_MAX];

	for (size_t i = 0; i < p->values_count; i++) {
		strange += p->values[i].strange_count;
		lost += p->values[i].lost_count;
		unsummed += p->values[i].unsummed_count;
	}
	if (p->values_count > c->limits->functions)
		text_printf(&text, "%zu more in the JSON report. ",
			    p->values_count - c->limits->functions);
	if (strange)
		text_printf(&text,
			    "Samples that are infinite or no numbers (NaN), only counted: %s. ",
			    format_count(buffer, strange));
	if (lost)
		text_printf(&text,
			    "Samples that found no room in the ring, counted and not in lowest and "
			    "highest: %s. ",
			    format_count(buffer, lost));
	if (unsummed)
		text_printf(&text, "Of these in no sum: %s. ", format_count(buffer, unsummed));
	if (!text.length)
		return;
	text.length--; /* the last space */
	text.data[text.length] = '\0';
	document_add(c->document, BLOCK_NOTE, &text);
}

void compose_values(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Value", .right = true},
		{.title = "Sum", .right = true, .rank = 2},
		{.title = "Rate", .right = true, .rank = 1},
		{.title = "Lowest", .right = true, .rank = 1},
		{.title = "Highest", .right = true, .rank = 1},
		{.title = "Samples", .right = true},
		{.title = "Course", .rank = 3},
		{.title = "Name", .takes_rest = true},
	};

	if (!p->values_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Counters");
	document_table(c->document, columns);
	for (size_t i = 0; i < p->values_count && i < c->limits->functions; i++)
		compose_row(c, p, &p->values[i]);
	compose_note(c, p);
}
