// SPDX-License-Identifier: BSD-2-Clause
/* Runs, and the significance of their differences. */
#include "tune/tune.h"

#include "base/order.h"
#include "base/text.h"
#include "diff/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double tune_median(const double *values, size_t count)
{
	double *sorted = calloc(count + 1, sizeof(*sorted)), median = NAN;
	size_t n = 0;

	for (size_t i = 0; sorted && i < count; i++)
		if (!isnan(values[i]))
			sorted[n++] = values[i];
	if (n)
		median = sort_median(sorted, n);
	free(sorted);
	return median;
}

/* The probability falls as t grows: halving finds it to the last digit. */
double student_quantile(double p, double df)
{
	double low = 0, high = 1;

	while (student_two_sided(high, df) > p && high < 1e12)
		high *= 2;
	for (int i = 0; i < 200; i++) {
		double middle = (low + high) / 2;

		if (student_two_sided(middle, df) > p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* One comparison among several. */
static double alpha_of(size_t comparisons_count)
{
	return (1 - TUNE_CONFIDENCE) / (double)(comparisons_count ? comparisons_count : 1);
}

bool tune_is_significant(const struct tune_change *change, size_t comparisons_count)
{
	return change->known && change->p < alpha_of(comparisons_count);
}

/* Mean and standard error of n differences. */
static void set_interval(struct tune_change *change, double mean, double error, double alpha)
{
	double df = (double)change->pairs_count - 1;
	double reach = error * student_quantile(alpha, df);

	change->known = true;
	change->low = expm1(mean - reach);
	change->high = expm1(mean + reach);
	if (error > 0)
		change->p = student_two_sided(mean / error, df);
	else
		change->p = mean == 0 ? 1 : 0;
}

struct tune_change tune_paired(const double *a, const double *b, size_t rounds_count,
			       size_t comparisons_count)
{
	struct tune_change change = {.change = NAN, .low = NAN, .high = NAN, .p = NAN};
	double mean = 0, squares = 0, n = 0;

	/* Welford: Note on a method for calculating corrected sums of squares, Technometrics 4,
	 * 1962 */
	for (size_t i = 0; i < rounds_count; i++) {
		double difference = log(b[i] / a[i]), from_mean = difference - mean;

		if (!isfinite(difference))
			continue;
		n++;
		mean += from_mean / n;
		squares += from_mean * (difference - mean);
	}
	change.pairs_count = (size_t)n;
	if (n > 0)
		change.change = expm1(mean);
	if (n > 1)
		set_interval(&change, mean, sqrt(squares / (n - 1) / n),
			     alpha_of(comparisons_count));
	return change;
}

int tune_runs_init(struct tune_runs *runs, size_t rounds_count)
{
	*runs = (struct tune_runs){.values = calloc(rounds_count, sizeof(*runs->values)),
				   .rounds_count = rounds_count};
	for (size_t i = 0; runs->values && i < rounds_count; i++)
		runs->values[i] = NAN;
	return runs->values ? 0 : -ENOMEM;
}

void tune_runs_clear(struct tune_runs *runs)
{
	free(runs->values);
	free(runs->why);
	*runs = (struct tune_runs){0};
}

void tune_runs_add(struct tune_runs *runs, size_t round, double value)
{
	runs->values[round] = value;
}

void tune_runs_fail(struct tune_runs *runs, char *why)
{
	runs->failed_count++;
	if (runs->why)
		free(why);
	else
		runs->why = why;
}

void tune_runs_summarize(struct tune_runs *runs)
{
	runs->measured_count = 0;
	runs->median = tune_median(runs->values, runs->rounds_count);
	runs->lowest = runs->highest = NAN;
	for (size_t i = 0; i < runs->rounds_count; i++) {
		runs->measured_count += !isnan(runs->values[i]);
		/* of a number and NAN these give the number */
		runs->lowest = fmin(runs->lowest, runs->values[i]);
		runs->highest = fmax(runs->highest, runs->values[i]);
	}
}

bool comparison_begins_with_b(size_t round)
{
	return round % 2;
}

void comparison_judge(struct comparison *comparison)
{
	struct tune_change change;

	tune_runs_summarize(&comparison->a);
	tune_runs_summarize(&comparison->b);
	change = tune_paired(comparison->a.values, comparison->b.values, comparison->rounds_count,
			     1);
	comparison->change = change;
	comparison->significant = tune_is_significant(&change, 1);
	comparison->worse =
		tune_less_is_better(&comparison->metric) ? change.change > 0 : change.change < 0;
}

bool comparison_regressed(const struct comparison *comparison, double share)
{
	double change = comparison->change.change;
	/* a rate of half takes twice as long */
	double longer = tune_less_is_better(&comparison->metric) ? change : 1 / (1 + change) - 1;

	return comparison->significant && comparison->worse && longer > share;
}
