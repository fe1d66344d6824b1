// SPDX-License-Identifier: BSD-2-Clause
#include "proc/growth.h"

#include "base/order.h"

#include <math.h>
#include <string.h>

/* The time that is judged: several steps of a training. */
#define WINDOW_NS 3000000000u
#define SOON_NS	  100000000u  /* less time says nothing */
#define CLEAR_NS  500000000u  /* then clear growth is steady, */
#define STEADY_NS 1000000000u /* and then any */
#define LONG_NS	  1500000000u /* growth that is not steady by then is none */

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

/* The parts of the window; false: one has no sample. */
static bool range_parts(const struct growth_watch *watch, uint64_t from_ns, size_t count,
			struct range *parts)
{
	uint64_t part_ns = (watch->samples[watch->count - 1].time_ns - from_ns) / count;

	for (size_t i = 0; i < count; i++) {
		uint64_t part_from_ns = from_ns + i * part_ns;

		parts[i] = (struct range){INFINITY, 0};
		for (size_t j = 0; j < watch->count; j++) {
			const struct growth_sample *sample = &watch->samples[j];

			if (sample->time_ns < part_from_ns ||
			    sample->time_ns > part_from_ns + part_ns)
				continue;
			parts[i].least = fmin(parts[i].least, (double)sample->bytes);
			parts[i].most = fmax(parts[i].most, (double)sample->bytes);
		}
		if (parts[i].most < parts[i].least)
			return false;
	}
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

void growth_add(struct growth_watch *watch, uint64_t time_ns, uint64_t bytes)
{
	uint64_t watched_ns, from_ns;
	bool steady;

	if (!watch->count)
		watch->begun_ns = time_ns;
	if (watch->count == GROWTH_SAMPLES) {
		memmove(watch->samples, watch->samples + 1,
			sizeof(watch->samples) - sizeof(*watch->samples));
		watch->count--;
	}
	watch->samples[watch->count++] = (struct growth_sample){time_ns, bytes};
	watched_ns = time_ns - watch->begun_ns;
	from_ns = max_u64(watch->samples[0].time_ns, time_ns - min_u64(time_ns, WINDOW_NS));
	/* steady growth remains steady as long as memory grows in the window, though not evenly:
	 * samples of long steps seldom see the least */
	if (watch->growth == GROWTH_STEADY)
		steady = has_grown(watch, from_ns);
	else
		steady = watched_ns >= CLEAR_NS &&
			 grows_evenly(watch, from_ns,
				      watched_ns < STEADY_NS ? CLEAR_SHARE : SPREAD_SHARE);
	if (watched_ns < SOON_NS)
		watch->growth = GROWTH_POSSIBLE;
	else if (steady)
		watch->growth = GROWTH_STEADY;
	else
		watch->growth = watched_ns < LONG_NS && has_grown(watch, from_ns) ? GROWTH_POSSIBLE
										  : GROWTH_NONE;
}
