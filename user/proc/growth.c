// SPDX-License-Identifier: BSD-2-Clause
#include "proc/growth.h"

#include <math.h>
#include <string.h>

/* The time that is judged: several steps of a training. */
#define WINDOW_NS 3000000000u
/* Less time says nothing; growth is steady after so much at least, where it is clear or not; what
 * is not steady after so much is none. */
#define SOON_NS	  100000000u
#define CLEAR_NS  500000000u
#define STEADY_NS 1000000000u
#define LONG_NS	  1500000000u

/* Less growth is noise, of half of the window and of all of it; so is less than this share of what
 * comes and goes within a part. Several times as much is clear. */
#define HALF_BYTES   (256 << 10)
#define WHOLE_BYTES  (1 << 20)
#define SPREAD_SHARE 0.75
#define CLEAR_SHARE  2.0
/* Each part of the window grows by this share of an even one. */
#define PARTS	   4
#define PART_SHARE 0.5

struct range {
	double least, most;
};

static bool range_between(const struct growth_watch *watch, uint64_t from_ns, uint64_t to_ns,
			  struct range *range)
{
	*range = (struct range){INFINITY, 0};
	for (size_t i = 0; i < watch->count; i++) {
		const struct growth_sample *sample = &watch->samples[i];

		if (sample->time_ns < from_ns || sample->time_ns > to_ns)
			continue;
		range->least = fmin(range->least, (double)sample->bytes);
		range->most = fmax(range->most, (double)sample->bytes);
	}
	return range->most >= range->least;
}

/* The parts of the window; false: one has no sample. */
static bool range_parts(const struct growth_watch *watch, uint64_t from_ns, size_t count,
			struct range *parts)
{
	uint64_t part_ns = (watch->samples[watch->count - 1].time_ns - from_ns) / count;

	for (size_t i = 0; i < count; i++)
		if (!range_between(watch, from_ns + i * part_ns, from_ns + (i + 1) * part_ns,
				   &parts[i]))
			return false;
	return true;
}

static bool has_grown(const struct growth_watch *watch, uint64_t from_ns)
{
	struct range halves[2];

	return range_parts(watch, from_ns, 2, halves) &&
	       halves[1].least - halves[0].least >= HALF_BYTES;
}

static bool grows_evenly(const struct growth_watch *watch, uint64_t from_ns, double share)
{
	struct range parts[PARTS];
	double growth, spread;

	if (!range_parts(watch, from_ns, PARTS, parts))
		return false;
	growth = parts[PARTS - 1].least - parts[0].least;
	spread = parts[0].most - parts[0].least;
	for (size_t i = 1; i < PARTS; i++) {
		spread = fmax(spread, parts[i].most - parts[i].least);
		if (parts[i].least - parts[i - 1].least < PART_SHARE * growth / (PARTS - 1))
			return false;
	}
	return growth >= fmax(WHOLE_BYTES, share * spread);
}

/* Steady growth remains steady as long as memory grows in the window, though not evenly: samples of
 * long steps seldom see the least. */
static bool is_steady(const struct growth_watch *watch, uint64_t from_ns, uint64_t now_ns)
{
	uint64_t watched_ns = now_ns - watch->begun_ns;

	if (watch->growth == GROWTH_STEADY)
		return has_grown(watch, from_ns);
	return watched_ns >= CLEAR_NS &&
	       grows_evenly(watch, from_ns, watched_ns < STEADY_NS ? CLEAR_SHARE : SPREAD_SHARE);
}

static enum growth judge(const struct growth_watch *watch, uint64_t now_ns)
{
	uint64_t first_ns = watch->samples[0].time_ns, watched_ns = now_ns - watch->begun_ns;
	uint64_t from_ns = now_ns - first_ns > WINDOW_NS ? now_ns - WINDOW_NS : first_ns;

	if (watched_ns < SOON_NS)
		return GROWTH_POSSIBLE;
	if (is_steady(watch, from_ns, now_ns))
		return GROWTH_STEADY;
	return watched_ns < LONG_NS && has_grown(watch, from_ns) ? GROWTH_POSSIBLE : GROWTH_NONE;
}

void growth_add(struct growth_watch *watch, uint64_t time_ns, uint64_t bytes)
{
	if (!watch->count)
		watch->begun_ns = time_ns;
	if (watch->count == GROWTH_SAMPLES) {
		memmove(watch->samples, watch->samples + 1,
			sizeof(watch->samples) - sizeof(*watch->samples));
		watch->count--;
	}
	watch->samples[watch->count++] = (struct growth_sample){time_ns, bytes};
	watch->growth = judge(watch, time_ns);
}
