// SPDX-License-Identifier: BSD-2-Clause
#include "merge/internal.h"

#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fewer pairs tell nothing. */
#define PAIRS_MIN 8
/* Ends that are laid side by side to find the lag: few enough that in some window no record is
 * lost. */
#define WINDOW_ENDS 64
/* Lags that are tried with all ends. */
#define LAGS_TRIED 16
/* Lags whose errors differ by less than this factor are equally good. */
#define CLEARLY 2.0
#define WINDOWS 8 /* from the first ends to the last */
/* Pairs are this many times the spread apart at most: others are of something else. */
#define REACH	     10
#define REACH_MIN_NS 10000.0
/* A drift is measured over at least this time, by the medians of so many parts. */
#define DRIFT_NS    10000000000u
#define DRIFT_PARTS 16

/* The half of all values that lie closest together. A thread that waits for a CPU sees an end late:
 * on a busy machine on one side more than on the other, which moves the median of all. */
struct half {
	double center, width;
};

static struct half closest_half(double *values, size_t count)
{
	size_t half = count / 2 + 1, best = 0;

	sort_median(values, count);
	for (size_t i = 1; i + half <= count; i++)
		if (values[i + half - 1] - values[i] < values[best + half - 1] - values[best])
			best = i;
	return (struct half){.center = values[best + half / 2],
			     .width = values[best + half - 1] - values[best]};
}

/* Some ends of the series that is moved, beside as many of the reference. */
struct lag {
	struct half offsets_ns;
	size_t start; /* of the ends */
};

static double difference(uint64_t a, uint64_t b)
{
	return a > b ? (double)(a - b) : -(double)(b - a);
}

ORDER(by_width, struct lag, ASCENDING(a->offsets_ns.width, b->offsets_ns.width))

/*
 * The lag nearest to the expected offset, and those with which the ends of some window vary least.
 * Which part of the ends the reference has, too, is not known: several windows are tried. 0: too
 * few ends, or no memory.
 */
static size_t find_lags(struct lag best[LAGS_TRIED], const uint64_t *reference,
			size_t reference_count, const uint64_t *ends, size_t count,
			double expected_ns)
{
	size_t shorter = min_u64(count, reference_count), tried = 0, nearest = 0;
	size_t window = shorter / 2 < WINDOW_ENDS ? shorter / 2 : WINDOW_ENDS, lags_count = 0;
	struct lag *lags;

	if (window < PAIRS_MIN)
		return 0;
	lags = malloc(WINDOWS * (reference_count - window + 1) * sizeof(*lags));
	if (!lags)
		return 0;
	for (size_t i = 0; i < WINDOWS; i++) {
		size_t start = (count - window) * i / (WINDOWS - 1);

		for (size_t at = 0; at + window <= reference_count; at++) {
			double offsets_ns[WINDOW_ENDS];

			for (size_t end = 0; end < window; end++)
				offsets_ns[end] =
					difference(reference[at + end], ends[start + end]);
			lags[lags_count++] = (struct lag){closest_half(offsets_ns, window), start};
		}
	}
	SORT_ITEMS(lags, lags_count, by_width);
	for (size_t i = 1; i < lags_count; i++)
		if (fabs(lags[i].offsets_ns.center - expected_ns) <
		    fabs(lags[nearest].offsets_ns.center - expected_ns))
			nearest = i;
	best[tried++] = lags[nearest];
	for (size_t i = 0; i < lags_count && tried < LAGS_TRIED; i++)
		best[tried++] = lags[i];
	free(lags);
	return tried;
}

struct pairs {
	double *at_ns, *differences; /* of the series that is moved, from its first end on */
	size_t count;
};

/* The value of an ascending series nearest to a time. */
static uint64_t nearest(const uint64_t *ends, size_t count, double to_ns)
{
	size_t at = PARTITION_POINT(i, count, (double)ends[i] < to_ns);

	if (at == count || (at && to_ns - (double)ends[at - 1] < (double)ends[at] - to_ns))
		at--;
	return ends[at];
}

/* Pairs ends one way from where the lag was found. Clocks drift: an end is paired by the offset of
 * the pairs before, which follows slowly, as one late end is no drift. */
static void pair_from(double *differences, size_t from, size_t to, int way,
		      const uint64_t *reference, size_t reference_count, const uint64_t *ends,
		      const struct lag *lag)
{
	double reach_ns = fmax(REACH * lag->offsets_ns.width, REACH_MIN_NS);
	double offset_ns = lag->offsets_ns.center;

	for (size_t i = from; i != to; i += (size_t)way) {
		double found = difference(
			nearest(reference, reference_count, (double)ends[i] + offset_ns), ends[i]);

		differences[i] = fabs(found - offset_ns) > reach_ns ? NAN : found;
		if (!isnan(differences[i]))
			offset_ns += (found - offset_ns) / 16;
	}
}

/* A line through the medians of parts; its slope, and the offset at the first end. */
static bool fit_line(const struct pairs *pairs, double *part, double *slope, double *offset_ns)
{
	double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0;
	size_t each = pairs->count / DRIFT_PARTS;

	if (each < PAIRS_MIN || pairs->at_ns[pairs->count - 1] - pairs->at_ns[0] < (double)DRIFT_NS)
		return false;
	for (size_t i = 0; i < DRIFT_PARTS; i++) {
		double x = pairs->at_ns[i * each + each / 2], y;

		memcpy(part, pairs->differences + i * each, each * sizeof(*part));
		y = sort_median(part, each);
		sx += x;
		sy += y;
		sxx += x * x;
		sxy += x * y;
		n++;
	}
	*slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
	*offset_ns = (sy - *slope * sx) / n;
	return isfinite(*slope) && fabs(*slope) < 1e-3;
}

/* Half of all pairs are nearer than this to the line. */
static double deviation(const struct pairs *pairs, double *scratch, double slope, double offset_ns)
{
	for (size_t i = 0; i < pairs->count; i++)
		scratch[i] = fabs(pairs->differences[i] - offset_ns - slope * pairs->at_ns[i]);
	return sort_median(scratch, pairs->count);
}

/* A drift counts where with it the pairs deviate clearly less. */
static bool fit(struct alignment *alignment, const struct pairs *pairs)
{
	double *scratch = malloc(pairs->count * sizeof(*scratch));
	double offset_ns, line_ns, slope, plain, with_drift;

	if (!scratch)
		return false;
	memcpy(scratch, pairs->differences, pairs->count * sizeof(*scratch));
	offset_ns = closest_half(scratch, pairs->count).center;
	plain = deviation(pairs, scratch, 0, offset_ns);
	alignment->drift = 0;
	if (fit_line(pairs, scratch, &slope, &line_ns)) {
		with_drift = deviation(pairs, scratch, slope, line_ns);
		if (with_drift < plain / 1.2) {
			alignment->drift = slope;
			offset_ns = line_ns;
			plain = with_drift;
		}
	}
	free(scratch);
	alignment->offset_ns = llround(offset_ns);
	alignment->error_ns = (uint64_t)llround(plain);
	alignment->pairs_count = pairs->count;
	return true;
}

/* False: too few ends fit. */
static bool align_by_lag(struct alignment *alignment, struct pairs *pairs,
			 const uint64_t *reference, size_t reference_count, const uint64_t *ends,
			 size_t count, const struct lag *lag)
{
	pairs->count = 0;
	pair_from(pairs->differences, lag->start, count, 1, reference, reference_count, ends, lag);
	if (lag->start)
		pair_from(pairs->differences, lag->start - 1, SIZE_MAX, -1, reference,
			  reference_count, ends, lag);
	for (size_t i = 0; i < count; i++) {
		if (isnan(pairs->differences[i]))
			continue;
		pairs->at_ns[pairs->count] = (double)(ends[i] - ends[0]);
		pairs->differences[pairs->count++] = pairs->differences[i];
	}
	alignment->from_ns = ends[0];
	return pairs->count >= PAIRS_MIN && fit(alignment, pairs);
}

/* The smallest error; among equally good ones, the nearest to the expected offset, of which only
 * that offset says that it is not another: the error covers what it is off. */
static struct alignment choose(const struct alignment *tried, size_t count, int64_t expected_ns,
			       double gap_ns)
{
	struct alignment best = tried[0];
	uint64_t off_ns;
	double enough_ns;

	for (size_t i = 1; i < count; i++)
		if (tried[i].error_ns < best.error_ns)
			best = tried[i];
	enough_ns = CLEARLY * (double)best.error_ns;
	for (size_t i = 0; i < count; i++)
		if ((double)tried[i].error_ns <= enough_ns &&
		    llabs(tried[i].offset_ns - expected_ns) < llabs(best.offset_ns - expected_ns))
			best = tried[i];
	off_ns = (uint64_t)llabs(best.offset_ns - expected_ns);
	for (size_t i = 0; i < count; i++)
		if ((double)tried[i].error_ns <= enough_ns && off_ns > best.error_ns &&
		    (double)llabs(tried[i].offset_ns - best.offset_ns) > gap_ns / 4)
			best.error_ns = off_ns;
	return best;
}

bool align_ends(struct alignment *alignment, const uint64_t *reference, size_t reference_count,
		const uint64_t *ends, size_t count, int64_t expected_ns)
{
	struct lag lags[LAGS_TRIED];
	struct alignment tried[LAGS_TRIED];
	size_t lags_count = find_lags(lags, reference, reference_count, ends, count,
				      (double)expected_ns),
	       tried_count = 0;
	struct pairs pairs = {.at_ns = malloc(count * sizeof(double)),
			      .differences = malloc(count * sizeof(double))};
	double gap_ns = count > 1 ? (double)(ends[count - 1] - ends[0]) / (double)(count - 1) : 0;

	if (lags_count && pairs.at_ns && pairs.differences)
		for (size_t i = 0; i < lags_count; i++) {
			tried[tried_count] = *alignment;
			tried_count += align_by_lag(&tried[tried_count], &pairs, reference,
						    reference_count, ends, count, &lags[i]);
		}
	free(pairs.at_ns);
	free(pairs.differences);
	if (!tried_count)
		return false;
	*alignment = choose(tried, tried_count, expected_ns, gap_ns);
	/* ends that vary as much as the calls are apart are not of the same call */
	return (double)alignment->error_ns < gap_ns / 4;
}

static int64_t wall_clock_offset(const struct survey *reference, const struct survey *capture)
{
	int64_t unix_ns = (int64_t)(capture->host.start_unix_ns - reference->host.start_unix_ns);
	int64_t monotonic_ns = (int64_t)(capture->host.start_ns - reference->host.start_ns);

	return unix_ns - monotonic_ns;
}

/* The series of the process that called a function most. NULL: there is none. */
static const struct series *longest(const struct survey *survey, enum perfx_alignment by,
				    const char *name)
{
	const struct series *most = NULL;

	FOR_EACH (series, survey->series)
		if (series->by == by && !strcmp(series->name, name) &&
		    (!most || series->count > most->count))
			most = series;
	return most;
}

/* Aligns by the function with the smallest error. */
static bool align_by(struct alignment *best, const struct survey *reference,
		     const struct survey *capture, enum perfx_alignment by)
{
	int64_t expected_ns = wall_clock_offset(reference, capture);
	bool found = false;

	FOR_EACH (b, capture->series) {
		const struct series *a = longest(reference, by, b->name);
		struct alignment alignment = {.by = by, .name = b->name};

		if (!a || b != longest(capture, by, b->name) ||
		    !align_ends(&alignment, a->list, a->count, b->list, b->count, expected_ns) ||
		    (found && alignment.error_ns >= best->error_ns))
			continue;
		*best = alignment;
		found = true;
	}
	return found;
}

struct alignment align_captures(const struct survey *reference, const struct survey *capture)
{
	struct alignment alignment = {.by = PERFX_ALIGNMENT_SAME_BOOT};

	if (capture->host_strings[2][0] &&
	    !strcmp(reference->host_strings[2], capture->host_strings[2]))
		return alignment;
	if (align_by(&alignment, reference, capture, PERFX_ALIGNMENT_COLLECTIVES) ||
	    align_by(&alignment, reference, capture, PERFX_ALIGNMENT_BACKWARD))
		return alignment;
	return (struct alignment){.by = PERFX_ALIGNMENT_WALL_CLOCK,
				  .offset_ns = wall_clock_offset(reference, capture),
				  .error_ns = UINT64_MAX};
}

struct alignment align_through(const struct alignment *outer, struct alignment inner)
{
	inner.offset_ns += outer->offset_ns +
			   llround(outer->drift * ((double)inner.from_ns + (double)inner.offset_ns -
						   (double)outer->from_ns));
	inner.drift += outer->drift;
	if (inner.error_ns != UINT64_MAX)
		inner.error_ns = outer->error_ns == UINT64_MAX ? UINT64_MAX
							       : inner.error_ns + outer->error_ns;
	if (outer->by == PERFX_ALIGNMENT_REFERENCE)
		return inner;
	if (outer->by == PERFX_ALIGNMENT_WALL_CLOCK || inner.by == PERFX_ALIGNMENT_SAME_BOOT) {
		inner.by = outer->by;
		inner.name = outer->name;
		inner.pairs_count = outer->pairs_count;
	}
	return inner;
}

uint64_t align_time(const struct alignment *alignment, uint64_t time_ns)
{
	int64_t moved_ns = alignment->offset_ns;

	if (alignment->drift != 0)
		moved_ns += llround(alignment->drift * difference(time_ns, alignment->from_ns));
	if (moved_ns < 0 && (uint64_t)-moved_ns >= time_ns)
		return 1; /* 0 is no time */
	return time_ns + (uint64_t)moved_ns;
}
