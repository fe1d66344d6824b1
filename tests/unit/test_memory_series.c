// SPDX-License-Identifier: BSD-2-Clause
/* Over time: peaks, windows, points, ages. Against what the plainest bookkeeping says. */
#include "memory_fixture.h"

#include <stdlib.h>

enum { SITES = 7, BLOCKS = 200 };

static const struct profile_hotspot *hotspot_of(const struct profile_memory *m, uint64_t address)
{
	for (size_t i = 0; i < m->hotspots_count; i++) {
		if (m->hotspots[i].frames_count && m->hotspots[i].frames[0]->address == address)
			return &m->hotspots[i];
	}
	return NULL;
}

static void add_sites(struct story *t)
{
	for (uint32_t site = 1; site <= SITES; site++)
		stream_stack(&t->stream, 1, site, 0, 0x400000 + site);
}

struct plain {
	uint64_t live, peak, allocated, freed, lifetimes, frees;
	uint64_t alloc_windows[PROFILE_ALLOC_WINDOWS];
};

struct book_keeping {
	struct plain sites[SITES + 1];
	uint64_t at_peak[SITES + 1];
	uint64_t live, peak, peak_at;
	struct {
		uint32_t site;
		uint64_t size, at;
	} blocks[BLOCKS];
};

static void keep_allocation(struct book_keeping *k, unsigned block, uint32_t site, uint64_t size,
			    uint64_t at)
{
	k->blocks[block].site = site;
	k->blocks[block].size = size;
	k->blocks[block].at = at;
	k->sites[site].live += size;
	k->sites[site].allocated += size;
	if (k->sites[site].live > k->sites[site].peak)
		k->sites[site].peak = k->sites[site].live;
	k->live += size;
	if (k->live <= k->peak)
		return;
	k->peak = k->live;
	k->peak_at = at;
	for (uint32_t s = 1; s <= SITES; s++)
		k->at_peak[s] = k->sites[s].live;
}

static void keep_free(struct book_keeping *k, unsigned block, uint64_t at)
{
	struct plain *site = &k->sites[k->blocks[block].site];

	site->live -= k->blocks[block].size;
	site->freed += k->blocks[block].size;
	site->lifetimes += at - k->blocks[block].at;
	site->frees++;
	k->live -= k->blocks[block].size;
	k->blocks[block].site = 0;
}

/* Some steps at random, of which each takes up to `step`. */
static void live_on(struct story *t, struct book_keeping *k, int steps, uint64_t step)
{
	for (int i = 0; i < steps; i++) {
		unsigned block = (unsigned)rand() % BLOCKS;
		uint64_t address = 0x10000 + 64 * block, at = t->at;

		if (k->blocks[block].site) {
			freed(t, address, 0, 0);
			keep_free(k, block, at);
		} else {
			uint64_t size = (uint64_t)rand() % 5000;

			t->place.stack = 1 + (uint32_t)rand() % SITES;
			allocated(t, address, size, 0);
			keep_allocation(k, block, t->place.stack, size, at);
		}
		t->at = at + (uint64_t)rand() % step;
	}
}

static void expect_site(const struct profile_memory *m, const struct book_keeping *k, uint32_t site)
{
	const struct profile_hotspot *h = hotspot_of(m, 0x400000 + site);
	const struct plain *plain = &k->sites[site];
	uint64_t oldest = PROFILE_ABSENT;

	cr_assert_not_null(h);
	for (int i = 0; i < BLOCKS; i++) {
		if (k->blocks[i].site == site && STREAM_START + k->blocks[i].at < oldest)
			oldest = STREAM_START + k->blocks[i].at;
	}
	cr_expect_eq(h->live_bytes, plain->live);
	cr_expect_eq(h->peak_bytes, plain->peak);
	cr_expect_eq(h->live_at_peak_bytes, k->at_peak[site]);
	cr_expect_eq(h->allocated_bytes.value, plain->allocated);
	cr_expect_eq(h->freed_bytes, plain->freed);
	cr_expect_eq(h->frees_count, plain->frees);
	cr_expect_eq(h->lifetime_ns, plain->lifetimes / plain->frees);
	cr_expect_eq(h->oldest_ns, oldest);
}

Test(memory_series, agrees_with_plain_bookkeeping)
{
	static struct book_keeping k;
	struct story t = story_begin();
	struct aggregate *aggregate = aggregate__new();
	const struct profile_memory *m;

	srand(7);
	add_sites(&t);
	/* looked at in mid-stream, again and again */
	for (int round = 0; round < 20; round++) {
		uint64_t at_peak = 0;

		live_on(&t, &k, 1000, 1 * MS);
		cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
		stream_clear(&t.stream);
		m = host_memory(aggregate);
		cr_expect_eq(m->current_bytes, k.live);
		cr_expect_eq(m->peak_bytes, k.peak);
		cr_expect_eq(m->peak_ns, STREAM_START + k.peak_at);
		cr_assert_eq(m->hotspots_count, SITES);
		for (uint32_t site = 1; site <= SITES; site++) {
			expect_site(m, &k, site);
			at_peak += m->hotspots[site - 1].live_at_peak_bytes;
		}
		cr_expect_eq(at_peak, m->peak_bytes);
		for (uint32_t i = 1; i < SITES; i++)
			cr_expect_geq(m->hotspots[i - 1].live_at_peak_bytes,
				      m->hotspots[i].live_at_peak_bytes);
	}
	aggregate__free(aggregate);
}

/* The end of each window of a site's own making: what lived then. */
static void expect_windows(uint64_t step, uint64_t expected_ns)
{
	enum { STEPS = 4000 };
	static struct {
		uint64_t at, live[SITES + 1];
	} after[STEPS];
	static struct book_keeping k;
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	k = (struct book_keeping){0};
	add_sites(&t);
	for (int i = 0; i < STEPS; i++) {
		after[i].at = t.at;
		live_on(&t, &k, 1, step);
		for (uint32_t site = 1; site <= SITES; site++)
			after[i].live[site] = k.sites[site].live;
	}
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->alloc_window_ns, expected_ns, "%lu", m->alloc_window_ns);
	cr_expect_eq(m->alloc_windows_from_ns, STREAM_START);
	cr_assert_eq(m->alloc_windows_count, after[STEPS - 1].at / m->alloc_window_ns + 1);
	for (uint32_t site = 1; site <= SITES; site++) {
		const struct profile_hotspot *h = hotspot_of(m, 0x400000 + site);
		int i = 0;

		for (size_t w = 0; w < m->alloc_windows_count; w++) {
			uint64_t live;

			while (i < STEPS && after[i].at < (w + 1) * m->alloc_window_ns)
				i++;
			live = i ? after[i - 1].live[site] : 0;
			cr_expect_eq(h->live_windows[w], live, "site %u window %zu: %lu for %lu",
				     site, w, h->live_windows[w], live);
		}
	}
	aggregate__free(aggregate);
}

Test(memory_series, alloc_windows)
{
	srand(13);
	/* 4000 steps of half of it on average */
	expect_windows(200 * US, 50 * MS);
	expect_windows(2 * MS, 200 * MS);
	expect_windows(20 * MS, 1600 * MS);
}

/* One site grows at once and is never touched again while others make the trace long. */
Test(memory_series, an_untouched_site_has_its_last_value_in_every_window)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	add_sites(&t);
	t.at = 120 * MS;
	allocated(&t, 0x1000, 77, 0);
	t.place.stack = 2;
	for (uint64_t i = 0; i < 1000; i++) {
		t.at = 130 * MS + i * 100 * MS;
		allocated(&t, 0x2000 + 16 * i, 1, 0);
	}
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	/* 100.03 s: 50 ms × 64 = 3.2 s, × 32 = 102.4 s */
	cr_expect_eq(m->alloc_window_ns, 3200 * MS);
	cr_assert_eq(m->alloc_windows_count, 32);
	for (size_t w = 0; w < 32; w++)
		cr_expect_eq(hotspot_of(m, 0x400001)->live_windows[w], 77, "%zu", w);
	aggregate__free(aggregate);
}

Test(memory_series, windows_last_up_to_the_end)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	add_sites(&t);
	allocated(&t, 0x1000, 5, 0);
	stream_end(&t.stream, 1600 * MS, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->alloc_window_ns, 100 * MS);
	cr_expect_eq(m->alloc_windows_count, 17);
	cr_expect_eq(m->hotspots[0].live_windows[16], 5);
	aggregate__free(aggregate);
}

Test(memory_series, points_are_bounded_ordered_and_true)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	/* one byte more each 0.1 ms */
	for (uint64_t i = 0; i < 100000; i++) {
		t.at = i * 100 * US;
		allocated(&t, 0x1000 + 16 * i, 1, 0);
	}
	stream_end(&t.stream, 20 * S, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_leq(m->points_count, PROFILE_POINTS_MAX);
	cr_expect_geq(m->points_count, PROFILE_POINTS_MAX / 4);
	cr_expect_eq(m->points[0].time_ns, STREAM_START);
	cr_expect_eq(m->points[0].live_bytes, 0);
	for (size_t i = 1; i + 1 < m->points_count; i++) {
		uint64_t at = m->points[i].time_ns - STREAM_START;

		cr_expect_gt(m->points[i].time_ns, m->points[i - 1].time_ns);
		/* all that came before that instant */
		cr_expect_eq(m->points[i].live_bytes, at / (100 * US), "point %zu at %lu", i, at);
		cr_expect_eq(m->points[i].allocs_count, m->points[i].live_bytes);
	}
	cr_expect_eq(m->points[m->points_count - 1].time_ns, STREAM_START + 20 * S);
	cr_expect_eq(m->points[m->points_count - 1].live_bytes, 100000);
	aggregate__free(aggregate);
}

/* Nothing happens for a second: the line is flat. */
Test(memory_series, a_pause_has_a_point_at_either_end)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	t.at = 10 * MS + 500 * US;
	allocated(&t, 0x1000, 10, 0);
	t.at = 1 * S + 500 * US;
	allocated(&t, 0x2000, 5, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_assert_eq(m->points_count, 4);
	cr_expect_eq(m->points[0].time_ns, STREAM_START + 10 * MS);
	cr_expect_eq(m->points[0].live_bytes, 0);
	cr_expect_eq(m->points[1].time_ns, STREAM_START + 11 * MS);
	cr_expect_eq(m->points[1].live_bytes, 10);
	cr_expect_eq(m->points[2].time_ns, STREAM_START + 1 * S);
	cr_expect_eq(m->points[2].live_bytes, 10);
	cr_expect_eq(m->points[3].live_bytes, 15);
	aggregate__free(aggregate);
}

Test(memory_series, sizes)
{
	static const struct {
		uint64_t size;
		unsigned class;
	} rows[] = {
		{0, 0},		  {1, 1},     {2, 2},		{3, 3},
		{4, 3},		  {5, 4},     {8, 4},		{9, 5},
		{1024, 11},	  {1025, 12}, {1ULL << 39, 40}, {(1ULL << 39) + 1, 40},
		{1ULL << 41, 40},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct story t = story_begin();
		struct aggregate *aggregate;
		const struct profile_memory *m;

		allocated(&t, 0x1000, rows[i].size, 0);
		aggregate = story_aggregate(&t);
		m = host_memory(aggregate);
		for (unsigned class = 0; class < PROFILE_SIZES; class ++)
			cr_expect_eq(m->sizes[class], class == rows[i].class, "%lu in %u",
				     rows[i].size, class);
		aggregate__free(aggregate);
	}
}

Test(memory_series, ages)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_hotspot *h;

	add_sites(&t);
	t.at = 1 * S;
	allocated(&t, 0x1000, 100, 0);
	t.at = 2 * S;
	allocated(&t, 0x10000, 0x1000, MAPPED);
	t.at = 3 * S;
	allocated(&t, 0x2000, 10, 0);
	freed(&t, 0x2000, 0, REALLOC_BEGIN); /* lives until it is known that it does not */
	t.place.tid = 101;
	t.at = 7 * S;
	allocated(&t, 0x3000, 1, 0);
	t.at = 8 * S;
	freed(&t, 0x1000, 0, 0);
	stream_end(&t.stream, 10 * S, 0);
	aggregate = story_aggregate(&t);
	h = &host_memory(aggregate)->hotspots[0];
	cr_expect_eq(h->live_bytes, 0x1000 + 10 + 1);
	cr_expect_eq(h->oldest_ns, STREAM_START + 2 * S);
	cr_expect_eq(h->old_bytes, 0x1000 + 10);
	cr_expect_eq(h->lifetime_ns, 7 * S);
	aggregate__free(aggregate);
}
