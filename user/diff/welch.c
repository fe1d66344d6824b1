// SPDX-License-Identifier: BSD-2-Clause
#include "diff/welch.h"

#include <float.h>
#include <math.h>

#define TERMS_MAX 500
#define TINY	  1e-300

/* One step of Lentz's method for continued fractions (Abramowitz, Stegun: 5.2; Thompson, Barnett:
 * J. Comput. Phys. 64, 1986). */
static double lentz(double term, double *c, double *d)
{
	*d = 1 + term * *d;
	*d = 1 / (fabs(*d) < TINY ? TINY : *d);
	*c = 1 + term / *c;
	if (fabs(*c) < TINY)
		*c = TINY;
	return *c * *d;
}

/* The continued fraction of the incomplete beta function (Abramowitz, Stegun: 26.5.8), which
 * converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), fraction;

	d = 1 / (fabs(d) < TINY ? TINY : d);
	fraction = d;
	for (int i = 1; i <= TERMS_MAX; i++) {
		double even = i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i));
		double odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1));
		double step = lentz(even, &c, &d);

		step *= lentz(odd, &c, &d);
		fraction *= step;
		if (fabs(step - 1) < DBL_EPSILON * 4)
			break;
	}
	return fraction;
}

/* The regularised incomplete beta function I_x(a, b). */
static double beta_share(double x, double a, double b)
{
	double front;

	if (x <= 0 || x >= 1)
		return x >= 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(x, a, b) / a;
	return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double student_two_sided(double t, double df)
{
	if (isinf(t))
		return 0;
	return beta_share(df / (df + t * t), df / 2, 0.5);
}

static bool is_enough(const struct sample *sample)
{
	return sample->count >= WELCH_COUNT_MIN && sample->stddev >= 0;
}

/* Of the mean; the variance of the population is put right for its being estimated. */
static double variance_of_mean(const struct sample *sample)
{
	return sample->stddev * sample->stddev / (double)(sample->count - 1);
}

struct welch welch_test(const struct sample *a, const struct sample *b)
{
	double va, vb, sum;
	struct welch welch = {.known = is_enough(a) && is_enough(b)};

	if (!welch.known)
		return welch;
	va = variance_of_mean(a);
	vb = variance_of_mean(b);
	sum = va + vb;
	if (sum <= 0) {
		welch.t = a->mean == b->mean ? 0 : b->mean > a->mean ? INFINITY : -INFINITY;
		welch.df = (double)(a->count + b->count - 2);
	} else {
		welch.t = (b->mean - a->mean) / sqrt(sum);
		welch.df = sum * sum /
			   (va * va / (double)(a->count - 1) + vb * vb / (double)(b->count - 1));
	}
	welch.p = student_two_sided(welch.t, welch.df);
	return welch;
}
