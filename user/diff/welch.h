/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Do two means differ by more than the spread of what they are means of explains? Welch's t-test
 * (Biometrika 34, 1947): no equal variances, no equal numbers needed.
 */
#ifndef PERFX_DIFF_WELCH_H
#define PERFX_DIFF_WELCH_H

#include <stdbool.h>
#include <stdint.h>

/* Means of fewer are not compared. */
#define WELCH_COUNT_MIN 5

struct sample {
	uint64_t count;
	double mean, stddev; /* stddev: of the population; < 0: not known */
};

struct welch {
	bool known;
	/* p: how often chance alone would make the means differ as much; two-sided. Where neither
	 * side has a spread, t is infinite or 0. */
	double t, df, p;
};

struct welch welch_test(const struct sample *a, const struct sample *b);

/* The probability of |T| >= t for Student's T with df degrees of freedom. */
double student_two_sided(double t, double df);

#endif
