// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values below 32 have a bucket each (octave 0). Above, the octave of a value is the position of
 * its highest bit and the bucket the five bits below that:
 *
 *   value   0 … 31   32 33 … 63   64 65 | 66 67 | …   128 … 131 | …
 *   octave     0          1              2                3
 *   bucket  0 … 31    0  1 … 31      0       1            0
 */
#include "aggregate/statistics.h"

#include "base/grow.h"
#include "base/order.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

uint64_t median_u64(const uint64_t *values, size_t count)
{
	uint64_t *sorted = count ? malloc(count * sizeof(*sorted)) : NULL, median;

	if (!sorted)
		return 0;
	memcpy(sorted, values, count * sizeof(*sorted));
	SORT_ITEMS(sorted, count, compare_u64);
	median = sorted[(count - 1) / 2];
	free(sorted);
	return median;
}

#define SUB_BITS 5
#define SUB	 (1u << SUB_BITS)

struct octave {
	uint64_t counts[SUB];
};

void *thinned_point(struct thinning *thinning, void *points, size_t *count, size_t point_size,
		    size_t max)
{
	char *list;

	errno = 0;
	if (!thinning->stride)
		thinning->stride = 1;
	if (thinning->skipped++ % thinning->stride)
		return NULL;
	memcpy(&list, points, sizeof(list));
	if (*count == max) {
		for (size_t i = 2; i < max; i += 2)
			memcpy(list + i / 2 * point_size, list + i * point_size, point_size);
		*count = (max + 1) / 2;
		thinning->stride *= 2;
	}
	return grow_to(points, &thinning->capacity, count, *count, point_size);
}

struct sketch {
	uint64_t count;
	/* octaves first … first + octaves_count - 1 */
	unsigned first, octaves_count;
	struct octave *octaves;
};

struct sketch *sketch__new(void)
{
	return calloc(1, sizeof(struct sketch));
}

void sketch__free(struct sketch *sketch)
{
	if (!sketch)
		return;
	free(sketch->octaves);
	free(sketch);
}

static unsigned octave_of(uint64_t value)
{
	return value < SUB ? 0 : 64u - SUB_BITS - (unsigned)__builtin_clzll(value);
}

static unsigned bucket_of(uint64_t value, unsigned octave)
{
	return (octave ? value >> (octave - 1) : value) & (SUB - 1);
}

static uint64_t middle_of(unsigned octave, unsigned bucket)
{
	if (octave == 0)
		return bucket;
	return ((uint64_t)(SUB + bucket) << (octave - 1)) + (octave > 1 ? 1ULL << (octave - 2) : 0);
}

/* Makes the range of octaves contain [low, high]. */
static int reach(struct sketch *sketch, unsigned low, unsigned high)
{
	unsigned before, count;
	struct octave *octaves;

	if (sketch->octaves_count) {
		if (low > sketch->first)
			low = sketch->first;
		if (high < sketch->first + sketch->octaves_count - 1)
			high = sketch->first + sketch->octaves_count - 1;
	} else {
		sketch->first = low;
	}
	before = sketch->first - low;
	count = high - low + 1;
	if (count == sketch->octaves_count)
		return 0;

	octaves = calloc(count, sizeof(*octaves));
	if (!octaves)
		return -ENOMEM;
	if (sketch->octaves_count)
		memcpy(octaves + before, sketch->octaves, sketch->octaves_count * sizeof(*octaves));
	free(sketch->octaves);
	sketch->octaves = octaves;
	sketch->octaves_count = count;
	sketch->first = low;
	return 0;
}

int sketch__add(struct sketch *sketch, uint64_t value)
{
	unsigned octave = octave_of(value);

	/* one comparison for both ends: below first wraps round */
	if (octave - sketch->first >= sketch->octaves_count && reach(sketch, octave, octave))
		return -ENOMEM;
	sketch->octaves[octave - sketch->first].counts[bucket_of(value, octave)]++;
	sketch->count++;
	return 0;
}

uint64_t sketch__count(const struct sketch *sketch)
{
	return sketch->count;
}

uint64_t sketch__quantile(const struct sketch *sketch, double q)
{
	uint64_t rank, seen = 0;

	if (!sketch->count)
		return 0;
	/* nearest rank: the smallest value with at least q × count values at or below it; a little
	 * less, for 0.07 × 100 is 7.000000000000001 */
	rank = q <= 0 ? 1 : (uint64_t)ceil(q * (double)sketch->count * (1 - 1e-12));
	rank = min_u64(max_u64(rank, 1), sketch->count);
	for (unsigned i = 0; i < sketch->octaves_count; i++) {
		for (unsigned j = 0; j < SUB; j++) {
			seen += sketch->octaves[i].counts[j];
			if (seen >= rank)
				return middle_of(sketch->first + i, j);
		}
	}
	return 0;
}

#define TAIL 0.025 /* on either side of an interval */
/* of the standard normal distribution: its quantile at 1 - TAIL */
#define NORMAL_TAIL 1.959963984540054
/* From this shape on the quantile is Wilson and Hilferty's (The distribution of chi-square, PNAS
 * 17, 1931): off by less than 1e-5 there. */
#define SHAPE_LARGE 500
#define ROUNDS_MAX  2000 /* both expansions end after some √shape terms */

double sampling_probability(uint64_t size_bytes, uint64_t sample_bytes)
{
	return -expm1(-(double)size_bytes / (double)sample_bytes);
}

void tally_exact(struct tally *tally, uint64_t size_bytes)
{
	add_up(&tally->exact_count, 1);
	add_up(&tally->exact_bytes, size_bytes);
}

void tally_sampled(struct tally *tally, uint64_t size_bytes, uint64_t sample_bytes)
{
	double p = sampling_probability(size_bytes, sample_bytes);
	double q = exp(-(double)size_bytes / (double)sample_bytes);
	double bytes = (double)size_bytes / p, missed = sqrt(q) / p;

	if (!tally->sampled_count || size_bytes < tally->smallest_bytes)
		tally->smallest_bytes = size_bytes;
	tally->largest_bytes = max_u64(tally->largest_bytes, size_bytes);
	add_up(&tally->sampled_count, 1);
	add_up(&tally->sampled_bytes, size_bytes);
	tally->count += 1 / p;
	tally->count_variance += q / (p * p);
	tally->bytes += bytes;
	tally->bytes_variance += q * bytes * bytes;
	/* √q/p is what a missed one adds to the spread: 0 where all are seen */
	tally->missed_count = fmax(tally->missed_count, missed);
	tally->missed_bytes = fmax(tally->missed_bytes, (double)sample_bytes);
}

/* x^shape e^-x / Γ(shape + 1) */
static double gamma_term(double shape, double x)
{
	int sign;

	return exp(shape * log(x) - x - lgamma_r(shape + 1, &sign));
}

/* DLMF 8.11.4: the term × (1 + x/(s+1) + x²/((s+1)(s+2)) + …), for x < s + 1 */
static double gamma_series(double shape, double x)
{
	double sum = 1, part = 1;

	for (int i = 1; i < ROUNDS_MAX && part > sum * 1e-16; i++) {
		part *= x / (shape + i);
		sum += part;
	}
	return gamma_term(shape, x) * sum;
}

/* Q(s, x) as the continued fraction DLMF 8.9.2, its even part, by the modified Lentz method (DLMF
 * 3.10(iii)); for x >= s + 1 */
static double gamma_fraction(double shape, double x)
{
	double b = x + 1 - shape, c = 1e300, d = 1 / b, value = d;

	for (int i = 1; i < ROUNDS_MAX; i++) {
		double a = -i * (i - shape), step;

		b += 2;
		d = 1 / (a * d + b);
		c = b + a / c;
		step = c * d;
		value *= step;
		if (fabs(step - 1) < 1e-15)
			break;
	}
	return gamma_term(shape, x) * shape * value;
}

double sampling_gamma(double shape, double x)
{
	if (x <= 0)
		return 0;
	return x < shape + 1 ? gamma_series(shape, x) : 1 - gamma_fraction(shape, x);
}

static double quantile_large(double shape, double z)
{
	double third = 1 / (9 * shape), root = 1 - third + z * sqrt(third);

	return shape * root * root * root;
}

/* Where a rising function of (shape, x) reaches q: by bisection. */
static double invert(double (*rising)(double shape, double x), double shape, double q)
{
	double low = 0, high = shape + 10;

	while (rising(shape, high) < q)
		high *= 2;
	for (int i = 0; i < 100 && high - low > 1e-12 * high; i++) {
		double middle = low + (high - low) / 2;

		if (rising(shape, middle) < q)
			low = middle;
		else
			high = middle;
	}
	return low + (high - low) / 2;
}

double sampling_gamma_quantile(double shape, double q)
{
	return invert(sampling_gamma, shape, q);
}

/* P(count >= shape) of a Poisson count with mean x that is not 0. */
static double seen_at_least(double shape, double x)
{
	return x > 0 ? sampling_gamma(shape, x) / -expm1(-x) : 0;
}

static double low_of(double shape)
{
	if (shape >= SHAPE_LARGE)
		return quantile_large(shape, -NORMAL_TAIL);
	/* one sample, or less than one's worth: whatever there is, it has been seen */
	return shape > 1 ? invert(seen_at_least, shape, TAIL) : 0;
}

static double high_of(double shape)
{
	if (shape >= SHAPE_LARGE)
		return quantile_large(shape, NORMAL_TAIL);
	return sampling_gamma_quantile(shape, 1 - TAIL);
}

/* Without the exact part. seen: what is certain; missed: see struct tally. */
struct part {
	double value, variance, seen, missed;
};

static double low_limit(const struct part *part)
{
	double scale, low;

	/* nothing, or all of it was certain to be seen */
	if (part->variance <= 1e-12 * part->value * part->value)
		return part->value;
	scale = part->variance / part->value;
	low = scale * low_of(part->value / scale);
	return fmax(low, part->seen);
}

static double high_limit(const struct part *part)
{
	double value = part->value + part->missed;
	double variance = part->variance + part->missed * part->missed;

	if (variance <= 1e-12 * value * value)
		return value;
	return variance / value * high_of(value * value / variance);
}

static uint64_t whole(double value)
{
	return value < 0x1p63 ? (uint64_t)llround(value) : 1ULL << 63;
}

uint64_t tally_count_value(const struct tally *tally)
{
	return add_capped(tally->exact_count, whole(tally->count));
}

uint64_t tally_bytes_value(const struct tally *tally)
{
	return add_capped(tally->exact_bytes, whole(tally->bytes));
}

static struct profile_estimate estimate(uint64_t exact, const struct part *part)
{
	struct profile_estimate result = {
		.value = add_capped(exact, whole(part->value)),
		.low = add_capped(exact, whole(floor(low_limit(part)))),
		.high = add_capped(exact, whole(ceil(high_limit(part)))),
	};

	/* floor and ceil of a number that rounds the other way */
	result.low = min_u64(result.low, result.value);
	result.high = max_u64(result.high, result.value);
	return result;
}

struct profile_estimate tally_count(const struct tally *tally, const struct tally *all)
{
	bool one_size = tally->smallest_bytes == tally->largest_bytes;

	return estimate(tally->exact_count,
			&(struct part){
				.value = tally->count,
				.variance = tally->count_variance,
				.seen = (double)tally->sampled_count,
				.missed = one_size ? tally->missed_count : all->missed_count,
			});
}

struct profile_estimate tally_bytes(const struct tally *tally)
{
	return estimate(tally->exact_bytes, &(struct part){
						    .value = tally->bytes,
						    .variance = tally->bytes_variance,
						    .seen = (double)tally->sampled_bytes,
						    .missed = tally->missed_bytes,
					    });
}
