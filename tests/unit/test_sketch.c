// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/statistics.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* A duration of any magnitude. */
static uint64_t any_value(void)
{
	uint64_t value = (uint64_t)rand() << 31 | (uint64_t)rand();

	return value >> (rand() % 62);
}

static void check_quantiles(const struct sketch *sketch, const uint64_t *sorted, size_t count)
{
	static const double quantiles[] = {0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1};

	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		double q = quantiles[i];
		size_t rank = (size_t)ceil(q * (double)count - 1e-9);
		double truth = (double)sorted[rank ? rank - 1 : 0];
		double got = (double)sketch__quantile(sketch, q);

		cr_expect_leq(fabs(got - truth), truth * SKETCH_ERROR, "q %g: %g, true %g", q, got,
			      truth);
	}
}

Test(sketch, error_is_bounded)
{
	uint64_t values[5000];
	struct sketch *sketch = sketch__new();

	srand(4);
	for (size_t i = 0; i < 5000; i++) {
		values[i] = any_value();
		cr_assert_eq(sketch__add(sketch, values[i]), 0);
	}
	qsort(values, 5000, sizeof(values[0]), compare);
	cr_expect_eq(sketch__count(sketch), 5000);
	check_quantiles(sketch, values, 5000);
	sketch__free(sketch);
}

Test(sketch, each_value_is_within_the_error_of_itself)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int around = -1; around <= 1; around++) {
			uint64_t value = (1ULL << bit) + (uint64_t)around;
			struct sketch *sketch = sketch__new();
			double got;

			sketch__add(sketch, value);
			got = (double)sketch__quantile(sketch, 0.5);
			cr_expect_leq(fabs(got - (double)value), (double)value * SKETCH_ERROR,
				      "%llu: %g", (unsigned long long)value, got);
			sketch__free(sketch);
		}
	}
}

Test(sketch, ends)
{
	struct sketch *sketch = sketch__new();

	cr_expect_eq(sketch__quantile(sketch, 0.5), 0);
	/* the largest first: the range grows downwards */
	cr_assert_eq(sketch__add(sketch, UINT64_MAX), 0);
	cr_assert_eq(sketch__add(sketch, 0), 0);
	cr_assert_eq(sketch__add(sketch, 31), 0);
	cr_expect_eq(sketch__quantile(sketch, 0), 0);
	cr_expect_eq(sketch__quantile(sketch, 0.5), 31);
	cr_expect_gt(sketch__quantile(sketch, 1), UINT64_MAX / 64 * 63);
	sketch__free(sketch);
	sketch__free(NULL);
}

Test(sketch, merged_is_as_if_added)
{
	for (int round = 0; round < 50; round++) {
		struct sketch *a = sketch__new(), *b = sketch__new(), *both = sketch__new();

		srand((unsigned)round);
		for (int i = 0; i < round * 3; i++) {
			uint64_t value = any_value();

			sketch__add(i % 3 ? a : b, value);
			sketch__add(both, value);
		}
		cr_assert_eq(sketch__merge(a, b), 0);
		cr_expect_eq(sketch__count(a), sketch__count(both));
		for (double q = 0; q <= 1; q += 0.05)
			cr_expect_eq(sketch__quantile(a, q), sketch__quantile(both, q));
		sketch__free(a);
		sketch__free(b);
		sketch__free(both);
	}
}
