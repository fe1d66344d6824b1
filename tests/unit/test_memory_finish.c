// SPDX-License-Identifier: BSD-2-Clause
#include "memory_fixture.h"

#include <limits.h>
#include <stdlib.h>

/* Who it was: stacks, frames, calling contexts, allocators; and records that lie about it. */

static void expect_frame(const struct profile_frame *frame, const char *function,
			 const char *module_base, const char *file, uint32_t line, uint64_t address)
{
	cr_expect_str_eq(frame->function, function);
	cr_expect_str_eq(frame->module_base, module_base);
	cr_expect_str_eq(frame->file, file);
	cr_expect_eq(frame->line, line);
	cr_expect_eq(frame->address, address);
}

Test(memory_places, frames_innermost_first_with_inlined_ones)
{
	struct story t = story_begin();
	struct aggregate *aggregate = aggregate__new();
	const struct profile_hotspot *h;

	stream_stack(&t.stream, 1, 1, PERFX_STACK_CUT, 0x111, 0x222, 0x333);
	allocated(&t, 0x1000, 1, 0);
	/* the outer one is heard of first; nobody knows 0x222 */
	stream_frame(&t.stream, 1, 0x111, 2, "outer", "/opt/a.so", 0x11, "a.c", 30);
	stream_frame(&t.stream, 1, 0x111, 0, "inner", "/opt/a.so", 0x11, "a.h", 10);
	stream_frame(&t.stream, 1, 0x333, 0, "main", "/bin/a", 0x33, "", 0);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	h = &host_memory(aggregate)->hotspots[0];
	cr_assert_eq(h->frames_count, 4);
	cr_expect(h->stack_flags & PERFX_STACK_CUT);
	expect_frame(h->frames[0], "inner", "a.so", "a.h", 10, 0x111);
	expect_frame(h->frames[1], "outer", "a.so", "a.c", 30, 0x111);
	expect_frame(h->frames[2], "", "", "", 0, 0x222);
	expect_frame(h->frames[3], "main", "a", "", 0, 0x333);
	cr_expect_eq(h->frames[0]->offset, 0x11);
	cr_expect_eq(h->frames[0]->module, h->frames[1]->module, "one copy");

	/* in mid-stream: what is described later is known later */
	stream_clear(&t.stream);
	stream_frame(&t.stream, 1, 0x111, 1, "between", "/opt/a.so", 0x11, "a.h", 20);
	stream_frame(&t.stream, 1, 0x222, 0, "middle", "/bin/a", 0x22, "", 0);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	h = &host_memory(aggregate)->hotspots[0];
	cr_assert_eq(h->frames_count, 5);
	expect_frame(h->frames[1], "between", "a.so", "a.h", 20, 0x111);
	expect_frame(h->frames[3], "middle", "a", "", 0, 0x222);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 0);
	stream_clear(&t.stream);
	aggregate__free(aggregate);
}

/* The same addresses, and the same stack's number, mean something else in another process. */
Test(memory_places, addresses_are_a_processs_own)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile *profile;

	stream_process(&t.stream, 2, 200, "b", "b");
	stream_stack(&t.stream, 1, 1, 0, 0x111);
	stream_stack(&t.stream, 2, 1, 0, 0x111);
	stream_frame(&t.stream, 1, 0x111, 0, "one", "", 0, "", 0);
	stream_frame(&t.stream, 2, 0x111, 0, "two", "", 0, "", 0);
	allocated(&t, 0x1000, 1, 0);
	t.place.process = 2;
	allocated(&t, 0x1000, 1, 0);
	aggregate = story_aggregate(&t);
	profile = aggregate__finish(aggregate);
	cr_expect_str_eq(memory_in(profile, 1, HOST)->hotspots[0].frames[0]->function, "one");
	cr_expect_str_eq(memory_in(profile, 2, HOST)->hotspots[0].frames[0]->function, "two");
	aggregate__free(aggregate);
}

Test(memory_places, a_hotspot_is_stack_context_and_allocator)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	stream_function(&t.stream, 7, "forward", "/bin/a", PERFX_SOURCE_SYMBOL);
	stream_context(&t.stream, 3, 0, 7, 1);
	stream_allocator(&t.stream, 1, HOST, "libc", "/lib/libc.so.6");
	stream_allocator(&t.stream, 2, HOST, "jemalloc", "/lib/libjemalloc.so.2");
	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x2000, 100, 0);
	t.place.context = 3;
	allocated(&t, 0x3000, 40, 0);
	t.place.allocator = 2;
	allocated(&t, 0x4000, 30, 0);
	t.place.stack = 2;
	allocated(&t, 0x5000, 20, 0);
	freed(&t, 0x5000, 0, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_assert_eq(m->hotspots_count, 4);
	cr_expect_eq(m->hotspots[0].allocs.value, 2);
	cr_expect_eq(m->hotspots[0].function, 0);
	cr_expect_eq(m->hotspots[1].function, 7);
	cr_expect_eq(m->hotspots[1].context, 3);
	cr_expect_str_eq(m->hotspots[1].allocator, "libc");
	cr_expect_str_eq(m->hotspots[2].allocator, "jemalloc");
	cr_expect_eq(m->hotspots[3].temporary_count, 1);
	cr_assert_eq(m->allocators_count, 2);
	cr_expect_str_eq(m->allocators[0].name, "libc");
	cr_expect_str_eq(m->allocators[0].module, "/lib/libc.so.6");
	cr_expect_eq(m->allocators[0].allocs_count, 3);
	cr_expect_eq(m->allocators[0].live_bytes, 240);
	cr_expect_eq(m->allocators[1].allocated_bytes, 50);
	cr_expect_eq(m->allocators[1].frees_count, 1);
	cr_expect_eq(m->allocators[1].live_bytes, 30);
	aggregate__free(aggregate);
}

static uint64_t alloc_bytes_of(const struct profile *profile, uint32_t function)
{
	const struct profile_process *p = &profile->processes[0];

	for (size_t i = 0; i < p->rows_count; i++) {
		if (p->rows[i].function == function)
			return p->rows[i].alloc_bytes;
	}
	cr_assert_fail("no row");
	return 0;
}

Test(memory_places, bytes_by_innermost_function)
{
	static const enum perfx_domain order[] = {GPU, HOST, TENSOR};

	/* each domain comes before those that were there until then */
	for (size_t domains = 0; domains <= 3; domains++) {
		struct story t = story_begin();
		struct aggregate *aggregate;
		uint64_t expected = PROFILE_ABSENT;

		for (uint32_t f = 1; f <= 2; f++) {
			stream_function(&t.stream, f, "f", "/bin/a", PERFX_SOURCE_SYMBOL);
			stream_context(&t.stream, f, f - 1, f, 1);
			stream_call(&t.stream, f, 100, 0, 10, 5, 0);
		}
		stream_context(&t.stream, 3, 0, 2, 1);
		for (size_t i = 0; i < domains; i++) {
			t.place.domain = order[i];
			t.place.context = 2;
			expected = 100 * (i + 1);
			allocated(&t, 0x1000, expected - 7, 0);
			t.place.context = 3;
			allocated(&t, 0x2000, 7, 0);
		}
		aggregate = story_aggregate(&t);
		cr_expect_eq(alloc_bytes_of(aggregate__finish(aggregate), 2), expected, "%zu",
			     domains);
		/* self: what it called is not in it */
		cr_expect_eq(alloc_bytes_of(aggregate__finish(aggregate), 1),
			     domains ? 0 : PROFILE_ABSENT);
		aggregate__free(aggregate);
	}
}

#define expect_refused(t, count) expect_refused_at(__LINE__, t, count)

static void expect_refused_at(int line, struct story *t, uint64_t count)
{
	struct aggregate *aggregate = story_aggregate(t);

	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], count,
		     "line %d: %lu", line,
		     aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED]);
	cr_expect_eq(aggregate__finish(aggregate)->memory_records_count, 0, "line %d", line);
	aggregate__free(aggregate);
}

Test(memory_places, allocations_that_cannot_be)
{
	struct story t = story_begin();
	const struct stream_place honest = t.place;

	t.place.process = 0;
	allocated(&t, 0x1000, 1, 0);
	t.place.process = AGGREGATE_PROCESSES_MAX + 1;
	allocated(&t, 0x1000, 1, 0);
	freed(&t, 0x1000, 0, 0);
	t.place = honest;
	t.place.context = AGGREGATE_CONTEXTS_MAX + 1;
	allocated(&t, 0x1000, 1, 0);
	t.place = honest;
	t.place.allocator = AGGREGATE_ALLOCATORS_MAX + 1;
	allocated(&t, 0x1000, 1, 0);
	t.place = honest;
	allocated(&t, 0x1000, 1ULL << 48, 0);
	allocated(&t, 0x1000, UINT64_MAX, 0);
	allocated(&t, UINT64_MAX - 10, 11, MAPPED);
	allocated(&t, 0x1000, 0, MAPPED);
	allocated(&t, 0x1000, 0, SAMPLED);
	allocated(&t, 0x1000, 8, SAMPLED); /* at a rate that nothing gave */
	expect_refused(&t, 11);
}

Test(memory_places, frees_that_cannot_be)
{
	struct story t = story_begin();

	freed(&t, 0x1000, 0, REALLOC_BEGIN | RESTORED);
	freed(&t, 0x1000, 0, RESTORED | SETTLED);
	freed(&t, 0x1000, 0, REALLOC_BEGIN | SETTLED | UNMAP);
	freed(&t, 0x1000, 0, UNMAP);
	freed(&t, UINT64_MAX - 10, 4096, UNMAP);
	freed(&t, 0x1000, UINT64_MAX, UNMAP);
	expect_refused(&t, 6);
}

Test(memory_places, descriptions_that_cannot_be)
{
	struct story t = story_begin();

	stream_stack(&t.stream, 1, 0, 0, 0x1);
	stream_stack(&t.stream, 0, 1, 0, 0x1);
	stream_stack(&t.stream, AGGREGATE_PROCESSES_MAX + 1, 1, 0, 0x1);
	stream_allocator(&t.stream, 0, HOST, "a", "a");
	stream_allocator(&t.stream, 2048, HOST, "a", "a");
	stream_frame(&t.stream, 1, 0x1, AGGREGATE_INLINED_MAX, "f", "", 0, "", 0);
	stream_frame(&t.stream, 0, 0x1, 0, "f", "", 0, "", 0);
	stream_overflow_memory(&t.stream, 0, HOST, 1, 1, 1);
	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_SAMPLED, 0);
	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_SAMPLED, UINT64_MAX);
	expect_refused(&t, 10);
}

/* The first word holds; saying it twice is no contradiction. */
Test(memory_places, contradictions)
{
	struct story t = story_begin();

	for (int i = 0; i < 2; i++) {
		stream_stack(&t.stream, 1, 1, 0, 0x1, 0x2);
		stream_allocator(&t.stream, 1, HOST, "libc", "/lib/libc.so.6");
		stream_frame(&t.stream, 1, 0x1, 0, "f", "/bin/a", 0x10, "a.c", 1);
	}
	stream_stack(&t.stream, 1, 1, 0, 0x1, 0x3);
	stream_stack(&t.stream, 1, 1, 0, 0x1);
	stream_stack(&t.stream, 1, 1, PERFX_STACK_CUT, 0x1, 0x2);
	stream_allocator(&t.stream, 1, HOST, "jemalloc", "/lib/libc.so.6");
	stream_allocator(&t.stream, 1, TENSOR, "libc", "/lib/libc.so.6");
	stream_frame(&t.stream, 1, 0x1, 0, "g", "/bin/a", 0x10, "a.c", 1);
	stream_frame(&t.stream, 1, 0x1, 0, "f", "/bin/a", 0x10, "a.c", 2);
	expect_refused(&t, 7);
}

/* More live than any machine has: counted once it is beyond belief, and never wrapped. */
Test(memory_places, live_bytes_do_not_wrap)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	for (uint64_t i = 0; i < 40; i++)
		allocated(&t, 0x1000 + 16 * i, (1ULL << 48) - 1, 0);
	stream_overflow_memory(&t.stream, 1, HOST, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	stream_overflow_memory(&t.stream, 1, HOST, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->current_count, 16);
	cr_expect_eq(m->current_bytes, 16 * ((1ULL << 48) - 1));
	cr_expect_eq(m->allocs.value, UINT64_MAX - 1);
	cr_expect_eq(m->frees_count, UINT64_MAX - 1);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 24);
	aggregate__free(aggregate);
}

/* A context of another process, a function that was never described: not believed. */
Test(memory_places, a_context_of_another_process)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	stream_function(&t.stream, 1, "f", "/bin/a", PERFX_SOURCE_SYMBOL);
	stream_process(&t.stream, 2, 200, "b", "b");
	stream_context(&t.stream, 1, 0, 1, 2);
	stream_context(&t.stream, 2, 0, 9, 1);
	t.place.context = 1;
	allocated(&t, 0x1000, 3, 0);
	t.place.context = 2;
	allocated(&t, 0x2000, 2, 0);
	t.place.context = 63;
	allocated(&t, 0x3000, 1, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_assert_eq(m->hotspots_count, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(m->hotspots[i].function, 0);
	aggregate__free(aggregate);
}

Test(memory_places, more_hotspots_than_are_kept)
{
	struct story t = story_begin();
	struct aggregate *aggregate = aggregate__new();
	const struct profile_memory *m;

	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	stream_clear(&t.stream);
	for (uint32_t i = 1; i <= AGGREGATE_HOTSPOTS_MAX + 1000; i++) {
		struct event event = {
			.kind = PERFX_KIND_ALLOCATION,
			.allocation = {.time_ns = STREAM_START + i,
				       .address = 16ULL * i,
				       .size_bytes = 1,
				       .process = 1,
				       .tid = i,
				       .stack = i,
				       .domain = HOST},
		};

		cr_assert_eq(aggregate__add(aggregate, &event), 0);
	}
	m = host_memory(aggregate);
	cr_expect_eq(m->hotspots_count, AGGREGATE_HOTSPOTS_MAX + 1);
	cr_expect_eq(m->allocs.value, AGGREGATE_HOTSPOTS_MAX + 1000);
	cr_expect_eq(m->current_bytes, AGGREGATE_HOTSPOTS_MAX + 1000);
	cr_expect_eq(m->hotspots[0].allocs.value, 1000, "the rest is one, without a stack");
	cr_expect_eq(m->hotspots[0].frames_count, 0);
	aggregate__free(aggregate);
}

/* Each hotspot's number is rounded by itself. */
static void expect_sums(const struct profile_memory *m)
{
	uint64_t live = 0, at_peak = 0, slack = m->hotspots_count;

	if (m->current_bytes == PROFILE_ABSENT)
		return;
	for (size_t i = 0; i < m->hotspots_count; i++) {
		live += m->hotspots[i].live_bytes;
		at_peak += m->hotspots[i].live_at_peak_bytes;
		cr_expect_eq(m->hotspots[i].live_windows[m->alloc_windows_count - 1],
			     m->hotspots[i].live_bytes);
	}
	cr_expect_leq(live, m->current_bytes + slack);
	cr_expect_geq(live + slack, m->current_bytes);
	cr_expect_leq(at_peak, m->peak_bytes + slack);
	cr_expect_geq(at_peak + slack, m->peak_bytes);
	cr_expect_leq(m->allocs.low, m->allocs.value);
	cr_expect_geq(m->allocs.high, m->allocs.value);
}

/* Any events whatever: no crash, no leak, and the balance holds. */
Test(memory_places, random_events)
{
	struct aggregate *aggregate = aggregate__new();
	struct story t = story_begin();

	srand(17);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	stream_clear(&t.stream);
	for (int i = 0; i < 200000; i++) {
		struct stream_place place = {.process = 1 + (uint32_t)rand() % 3,
					     .tid = (uint32_t)rand() % 4,
					     .context = (uint32_t)rand() % 4,
					     .stack = (uint32_t)rand() % 4,
					     .allocator = (uint16_t)(rand() % 3),
					     .domain = 1 + (uint32_t)rand() % 3};
		uint64_t at = (uint64_t)rand() << rand() % 16, address = (uint64_t)rand() % 256;
		uint64_t size = (uint64_t)rand() % 64 << rand() % 44;

		switch (rand() % 24) {
		case 0:
			stream_memory_mode(&t.stream, at, place.domain, (uint32_t)rand() % 4,
					   1ULL << rand() % 41);
			break;
		case 1:
			stream_stack(&t.stream, place.process, place.stack, 0, address);
			break;
		case 2:
			stream_frame(&t.stream, place.process, address, (uint16_t)(rand() % 4), "f",
				     "m", 0, "", (uint32_t)rand() % 2);
			break;
		case 3:
			stream_allocator(&t.stream, place.allocator, place.domain, "a", "b");
			break;
		case 4:
			stream_overflow_memory(&t.stream, place.process, place.domain, at, at, at);
			break;
		default:
			if (rand() % 2)
				stream_allocation(&t.stream, &place, at, address, size,
						  (uint8_t)(rand() % 16));
			else
				stream_free(&t.stream, &place, at, address, size,
					    (uint8_t)(rand() % 16));
		}
		cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
		t.stream.bytes.length = 0;
		if (i % 200 == 0) {
			const struct profile *profile = aggregate__finish(aggregate);

			for (size_t j = 0; j < profile->processes[0].memory_count; j++)
				expect_sums(&profile->processes[0].memory[j]);
		}
	}
	stream_clear(&t.stream);
	aggregate__free(aggregate);
}

/* Over time: peaks, windows, points, ages. Against what the plainest bookkeeping says. */

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
