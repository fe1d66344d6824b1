/* SPDX-License-Identifier: BSD-2-Clause */
/* Quantiles of durations, and estimates from samples. */
#ifndef PERFX_AGGREGATE_STATISTICS_H
#define PERFX_AGGREGATE_STATISTICS_H

#include "base/order.h"

#include <stddef.h>
#include <stdint.h>

static inline uint64_t add_capped(uint64_t a, uint64_t b)
{
	uint64_t sum;

	/* PROFILE_ABSENT is no sum */
	return __builtin_add_overflow(a, b, &sum) || sum == UINT64_MAX ? UINT64_MAX - 1 : sum;
}

/* The same in place. */
static inline void add_up(uint64_t *sum, uint64_t more)
{
	*sum = add_capped(*sum, more);
}

/* a - b, or 0 where b is larger. */
static inline uint64_t sub_capped(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Of values in any order, the lower one of two in the middle; 0: of none, or no memory. */
uint64_t median_u64(const uint64_t *values, size_t count);

/* A series of points over time: when they are as many as it may have, every second one goes. */
struct thinning {
	size_t capacity;
	uint64_t stride, skipped; /* every stride-th sample is a point */
};

/* The next point, for the caller to fill. NULL with errno: ENOMEM; 0: this sample is no point. */
void *thinned_point(struct thinning *thinning, void *points, size_t *count, size_t point_size,
		    size_t max);
#define THINNED_POINT(of, max)                                                    \
	thinned_point(&(of)->points_thinning, &(of)->points, &(of)->points_count, \
		      sizeof(*(of)->points), (max))

/*
 * A mergeable histogram of durations with a stated error: an octave has 32 buckets, so a quantile
 * is at most 1/64 = 1.6 % away from a value of that rank. Memory is bounded: 256 bytes for each
 * octave between the smallest value and the largest, 60 octaves at most (a function's durations
 * usually span two to eight).
 */
#define SKETCH_ERROR (1.0 / 64)

struct sketch;

struct sketch *sketch__new(void);
void sketch__free(struct sketch *sketch);
/* 0 or -ENOMEM; then the value is not in. */
int sketch__add(struct sketch *sketch, uint64_t value);
uint64_t sketch__count(const struct sketch *sketch);
/* The value at quantile q in [0, 1]: nearest rank, middle of its bucket; 0 when empty. */
uint64_t sketch__quantile(const struct sketch *sketch, double q);

/*
 * From a sample back to the whole. Where a thread's allocations are sampled by the points of a
 * Poisson process over their bytes, one every R on average, an allocation of size S is in the
 * sample with probability p = 1 - exp(-S/R), each independently of the others (the process has no
 * memory). The Horvitz-Thompson estimate of a sum of x over all allocations is the sum of x/p over
 * the sampled ones: unbiased, its variance estimated without bias by the sum of (1-p)(x/p)².
 *
 * The intervals are those of Fay and Feuer (Confidence intervals for directly standardized rates,
 * Statistics in Medicine 16, 1997) for a weighted sum of Poisson counts: gamma quantiles matched to
 * estimate and variance, the upper limit as if one more of the heaviest had come. With equal
 * weights that is the exact Poisson interval (Garwood 1936), with many samples the normal one. Two
 * things differ. A place of which nothing was sampled is not shown, so the lower limit is that of a
 * Poisson count known not to be 0; and no limit lies below what was seen. For bytes the heaviest
 * that can have been missed is known, R. For counts there is none, for a tiny block stands for any
 * number: where a place's sample is of several sizes, the smallest block sampled anywhere in the
 * domain is taken to occur there too; where it is all of one size, so is the place.
 */

/* An estimate from a sample: the true value lies in [low, high] 19 times out of 20. Exact numbers
 * have low == high == value. */
struct profile_estimate {
	uint64_t value, low, high;
};

/* Larger R are refused: the weight of a byte would exceed an integer. */
#define SAMPLING_BYTES_MAX (1ULL << 40)

/* Exact and sampled allocations of one place. All-zero: none. */
struct tally {
	uint64_t exact_count, exact_bytes;
	uint64_t sampled_count, sampled_bytes; /* as they were seen, not weighted */
	double count, count_variance;	       /* estimates over the sampled ones */
	double bytes, bytes_variance;
	double missed_count, missed_bytes;	/* weight of the heaviest that may be missed */
	uint64_t smallest_bytes, largest_bytes; /* of the sampled ones */
};

/* 1 - exp(-size/sample_bytes), of sizes above 0. */
double sampling_probability(uint64_t size_bytes, uint64_t sample_bytes);

void tally_exact(struct tally *tally, uint64_t size_bytes);
void tally_sampled(struct tally *tally, uint64_t size_bytes, uint64_t sample_bytes);

/* The estimates alone, for series. */
uint64_t tally_count_value(const struct tally *tally);
uint64_t tally_bytes_value(const struct tally *tally);
/* Exact numbers: low == value == high. all: of the domain that the tally is a part of. */
struct profile_estimate tally_count(const struct tally *tally, const struct tally *all);
struct profile_estimate tally_bytes(const struct tally *tally);

/* Regularized lower incomplete gamma function P(shape, x): DLMF 8.2.4. */
double sampling_gamma(double shape, double x);
/* Where it is q. */
double sampling_gamma_quantile(double shape, double q);

#endif
