// SPDX-License-Identifier: BSD-2-Clause
/* What leaks are judged by, from records on: what lives by the window of its allocation, and frees
 * of unknown blocks by window. */
#include "analyze/analyze.h"
#include "memory_fixture.h"

/* Windows of 10 s are 400 ms long. */
#define WINDOW (400 * MS)

Test(memory_kept, by_the_window_of_allocation)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;
	const struct profile_hotspot *h;

	/* 64 bytes kept at 0.1 s, 1 MiB at 5 s, half a mapping at 9.9 s; the rest goes */
	for (uint64_t i = 0; i < 100; i++) {
		t.at = i * 100 * MS;
		allocated(&t, 0x1000, 100, 0);
		freed(&t, 0x1000, 0, 0);
		if (i == 1)
			allocated(&t, 0x2000, 64, 0);
		if (i == 50)
			allocated(&t, 0x3000, 1 << 20, 0);
		if (i == 99)
			allocated(&t, 0x7000000, 8192, MAPPED);
	}
	freed(&t, 0x7000000, 4096, UNMAP);
	stream_end(&t.stream, 10 * S, 0);
	aggregate = story_aggregate(&t);
	/* what is made in mid-stream changes nothing */
	host_memory(aggregate);
	m = host_memory(aggregate);
	cr_assert_eq(m->alloc_window_ns, WINDOW);
	cr_assert_eq(m->hotspots_count, 1);
	h = &m->hotspots[0];
	for (size_t i = 0; i < PROFILE_ALLOC_WINDOWS; i++) {
		uint64_t kept = i == 0 ? 64 : i == 12 ? 1 << 20 : i == 24 ? 4096 : 0;

		cr_expect_eq(h->kept_windows[i], kept, "window %zu: %lu", i, h->kept_windows[i]);
	}
	aggregate__free(aggregate);
}

/* Windows grow from 50 ms to 400 ms meanwhile; nothing is lost in it. */
Test(memory_kept, unknown_frees_by_window)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	for (uint64_t i = 0; i < 1000; i++) {
		t.at = i * 10 * MS;
		freed(&t, 0x1000, 0, 0);
	}
	/* of an unknown block to be reallocated; an unknown mapping is nobody's */
	t.at = 9999 * MS;
	freed(&t, 0x5000, 0, REALLOC_BEGIN);
	allocated(&t, 0x6000, 10, RESIZED);
	freed(&t, 0x70000000, 4096, UNMAP);
	stream_end(&t.stream, 10 * S, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_assert_eq(m->alloc_windows_count, 26);
	for (size_t i = 0; i < 24; i++)
		cr_expect_eq(m->unknown_frees_windows[i], 40, "window %zu: %lu", i,
			     m->unknown_frees_windows[i]);
	cr_expect_eq(m->unknown_frees_windows[24], 41);
	cr_expect_eq(m->unknown_frees_count, 1001);
	aggregate__free(aggregate);
}

static bool leaks(struct story *t)
{
	struct aggregate *aggregate;
	struct analysis *analysis;
	bool leak;

	stream_end(&t->stream, 10 * S, 0);
	aggregate = story_aggregate(t);
	analysis = analyze(aggregate__finish(aggregate));
	cr_assert_eq(analysis->processes[0].memory_count, 1);
	cr_expect_null(analysis->processes[0].memory[0].unjudged);
	leak = analysis->processes[0].memory[0].leaks_count > 0;
	analysis__free(analysis);
	aggregate__free(aggregate);
	return leak;
}

/* Each step of 70 ms reads twenty blocks of 1 MiB and frees them; one more is kept, or takes the
 * place of one from before the trace. */
static struct story steps(bool keeps, bool replaces)
{
	struct story t = story_begin();

	for (uint64_t step = 0; step < 142; step++) {
		t.at = step * 70 * MS;
		for (uint64_t i = 0; i < 20; i++)
			allocated(&t, 0x10000000 + (i << 24), 1 << 20, 0);
		if (keeps)
			allocated(&t, 0x100000 + (step << 12), 4000, 0);
		if (replaces)
			freed(&t, 0x7f0000000000 + (step << 12), 0, 0);
		t.at += 60 * MS;
		for (uint64_t i = 0; i < 20; i++)
			freed(&t, 0x10000000 + (i << 24), 0, 0);
	}
	return t;
}

Test(memory_kept, a_leak_of_a_block_a_step)
{
	struct story steady = steps(false, false), leaky = steps(true, false);
	struct story queue = steps(true, true);

	cr_expect(!leaks(&steady));
	cr_expect(leaks(&leaky));
	cr_expect(!leaks(&queue));
}
