// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perf events of calls, beside what their arguments say:
 *
 *     Perf counters
 *         Value  A call  Estimate  Differs  Counter       Function
 *     12.3 G     6.1 M          -        -  instructions  (all threads)
 *     4.10 G     2.0 M     4.00 G   +2.5 %  flops         cblas_sgemm
 */
#include "analyze/roofline.h"
#include "base/escape.h"
#include "base/units.h"
#include "report/document/compose.h"
#include "report/document/plot.h"

#include <math.h>

#define FUNCTIONS_SHOWN 8

static bool any_perf_counter(const struct profile *profile)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name)
			return true;
	return false;
}

/* calls_count: 0 of all threads. function: NULL, or whose calls. */
static void compose_rows(struct composer *c, const struct profile_process *p,
			 const uint64_t values[PERFX_PERF_COUNTERS], uint64_t calls_count,
			 const struct flops_check *flops, const struct profile_row *function)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++) {
		const struct profile_perf_counter *counter = &c->profile->perf_counters[i];
		bool checked = counter->is_flops && flops->known;

		if (!counter->name)
			continue;
		document_row(c->document,
			     /* of the same calls as the estimate */
			     as_si((double)(checked ? flops->counted : values[i]), ""),
			     calls_count ? as_si((double)values[i] / (double)calls_count, "") : "-",
			     checked ? as_si((double)flops->estimated, "") : "-",
			     checked ? document_format(c->document, "%+.1f %%",
						       flops_check_difference(flops) * 100)
				     : "-",
			     document_name(c->document, counter->name, 0),
			     function ? compose_function(c, p, function->function)
				      : "(all threads)");
	}
}

static void compose_table(struct composer *c, const struct profile_process *p)
{
	struct flops_check flops = flops_check_of_process(c->profile, p);
	uint64_t calls_count = 0, missed_count = 0;
	unsigned shown = 0;
	struct text text = {0};

	document_say(c->document, BLOCK_CAPTION, "Perf counters");
	document_headings(c->document, 0, NUMBERS("Value"), NUMBERS("Per call", .rank = 1),
			  NUMBERS("Estimate"), NUMBERS("Differs"), WORDS("Counter"),
			  REST("Function"));
	if (p->perf.threads_count)
		compose_rows(c, p, p->perf.values, 0, &flops, NULL);
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_call_counters *perf = p->rows[i].perf;

		if (!perf)
			continue;
		calls_count += perf->calls_count;
		missed_count += perf->missed_count;
		if (!perf->calls_count || shown++ >= FUNCTIONS_SHOWN)
			continue;
		flops = flops_check_of_row(c->profile, &p->rows[i]);
		compose_rows(c, p, perf->values, perf->calls_count, &flops, &p->rows[i]);
	}
	text_add(&text, "A function's counts are those of the calling threads, callees included; "
			"work that other threads do for it is only in the line of all threads.");
	if (missed_count)
		text_printf(&text,
			    " %s of %s calls are not included: their threads were too new, or the "
			    "hardware counters were in use.",
			    as_count(missed_count), as_count(missed_count + calls_count));
	if (perf_share(&p->perf) < 0.995)
		text_printf(&text,
			    " The hardware counters were available for %.0f %% of the time; values "
			    "of all threads are scaled up.",
			    perf_share(&p->perf) * 100);
	document_add(c->document, BLOCK_NOTE, &text);
}

static bool has_perf_counters(const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count; i++)
		if (p->rows[i].perf)
			return true;
	return p->perf.threads_count;
}

void compose_counters(struct composer *c, const struct profile_process *p)
{
	if (any_perf_counter(c->profile) && has_perf_counters(p)) {
		compose_details(c, "Perf counters of functions");
		compose_table(c, p);
		compose_details_end(c);
	}
	if (!c->profile->perf_counters_why || !(p->compute.measured || has_perf_counters(p)))
		return;
	document_printf(c->document, BLOCK_NOTE, "%s: %s.",
			any_perf_counter(c->profile) ? "Not counted" : "No hardware counters",
			compose_mark(c, c->profile->perf_counters_why));
}

/*
 * Values that the traced program reports itself:
 *
 *     Counters
 *      Value      Sum        Rate   Lowest  Highest  Samples  Course         Name
 *     0.3125    26.41     2.64 /s   0.3125    1.207       40  █▆▅▃▂▂▁▁▁·     loss
 *      1,280    1,280   127.6 /s       32       32       40  ·▁▂▃▄▄▅▆▇█     tokens
 */

#define COURSE_COLUMNS 16
/* Of a bar's height above 0, in spark's integers. */
#define COURSE_HEIGHT 1000

static const char *cell_number(struct composer *c, double number, const char *unit)
{
	char buffer[UNITS_MAX * 2];

	/* "0.3125" "-12.3 M" "1.5e-07" */
	if (isnan(number))
		snprintf(buffer, sizeof(buffer), "-");
	else if (isinf(number))
		snprintf(buffer, sizeof(buffer), number > 0 ? "∞" : "-∞");
	else if (fabs(number) < 1e6 || fabs(number) >= 1e18)
		snprintf(buffer, sizeof(buffer), "%.4g", number);
	else
		snprintf(buffer, sizeof(buffer), "%s%s", number < 0 ? "-" : "",
			 as_si(fabs(number), ""));
	if (fabs(number) < 1e6 && fabs(number) >= 1e4)
		snprintf(buffer, sizeof(buffer), "%.6g", number);
	return document_format(c->document, "%s%s", buffer, isnan(number) ? "" : unit);
}

/* Bars: the value at the end of each of COURSE_COLUMNS equal parts of the time. */
static const char *cell_course(struct composer *c, const struct profile_process *p,
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
			p->from_ns + u64_of((double)wall_ns * (double)(i + 1) / COURSE_COLUMNS);

		while (at < value->points_count && value->points[at].time_ns <= end_ns)
			at++;
		heights[i] = at && most > least
				     ? u64_of((value->points[at - 1].value / 2 - least / 2) /
					      (most / 2 - least / 2) * COURSE_HEIGHT)
				     : 0;
	}
	if (most > least)
		spark(&text, heights, COURSE_COLUMNS);
	return document_words(c->document, &text);
}

void compose_values(struct composer *c, const struct profile_process *p)
{
	uint64_t strange = 0, lost = 0, unsummed = 0;
	struct text text = {0};

	if (!p->values_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Counters");
	document_headings(c->document, 0, NUMBERS("Value"), NUMBERS("Sum", .rank = 2),
			  NUMBERS("Rate", .rank = 1), NUMBERS("Lowest", .rank = 1),
			  NUMBERS("Highest", .rank = 1), NUMBERS("Samples"),
			  WORDS("Trend", .rank = 3), REST("Name"));
	for (size_t i = 0; i < p->values_count; i++) {
		const struct profile_user_value *value = &p->values[i];
		bool any = value->lowest <= value->highest, summed = any || value->lost_count;

		strange += value->strange_count;
		lost += value->lost_count;
		unsummed += value->unsummed_count;
		if (i >= c->limits->functions)
			continue;
		document_row(c->document, cell_number(c, value->value, ""),
			     cell_number(c, summed ? value->sum : NAN, ""),
			     cell_number(c, summed ? value->rate : NAN, " /s"),
			     cell_number(c, any ? value->lowest : NAN, ""),
			     cell_number(c, any ? value->highest : NAN, ""),
			     cell_count(value->samples_count), cell_course(c, p, value),
			     compose_name(c, value->name));
	}
	/* Samples that are missing in the table's numbers. */
	if (p->values_count > c->limits->functions)
		text_printf(&text, "%zu more in the JSON report. ",
			    p->values_count - c->limits->functions);
	if (strange)
		text_printf(&text, "Infinite or NaN samples, only counted: %s. ",
			    as_count(strange));
	if (lost)
		text_printf(
			&text,
			"Samples dropped (ring full), counted but not in Lowest and Highest: %s. ",
			as_count(lost));
	if (unsummed)
		text_printf(&text, "Of these, not in Sum: %s. ", as_count(unsummed));
	if (text.length)
		text.data[--text.length] = '\0'; /* the last space */
	document_add_any(c->document, BLOCK_NOTE, &text);
}
