// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values below 32 have a bucket each (octave 0). Above, the octave of a value is the position of
 * its highest bit and the bucket the five bits below that:
 *
 *   value   0 … 31   32 33 … 63   64 65 | 66 67 | …   128 … 131 | …
 *   octave     0          1              2                3
 *   bucket  0 … 31    0  1 … 31      0       1            0
 */
#include "aggregate/sketch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS 5
#define SUB	 (1u << SUB_BITS)

struct octave {
	uint64_t counts[SUB];
};

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

int sketch__merge(struct sketch *into, const struct sketch *from)
{
	if (!from->octaves_count)
		return 0;
	if (reach(into, from->first, from->first + from->octaves_count - 1))
		return -ENOMEM;
	for (unsigned i = 0; i < from->octaves_count; i++) {
		struct octave *octave = &into->octaves[from->first - into->first + i];

		for (unsigned j = 0; j < SUB; j++)
			octave->counts[j] += from->octaves[i].counts[j];
	}
	into->count += from->count;
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
	if (rank < 1)
		rank = 1;
	if (rank > sketch->count)
		rank = sketch->count;
	for (unsigned i = 0; i < sketch->octaves_count; i++) {
		for (unsigned j = 0; j < SUB; j++) {
			seen += sketch->octaves[i].counts[j];
			if (seen >= rank)
				return middle_of(sketch->first + i, j);
		}
	}
	return 0;
}
