// SPDX-License-Identifier: BSD-2-Clause
/* Where a maximum is reached: what is given up, and that it is said. The maxima are too large to
 * fill, so the counts are set. */
#include "aggregate/state.h"
#include "memory_fixture.h"

static struct aggregate *aggregate_so_far(struct story *t, struct aggregate *aggregate)
{
	if (!aggregate)
		aggregate = aggregate__new();
	cr_assert_eq(stream_replay(&t->stream, aggregate), 0);
	stream_clear(&t->stream);
	return aggregate;
}

static void add_fork(struct story *t)
{
	stream_plain(&t->stream, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START,
		     .process = 2, .parent_process = 1, .pid = 200, .ppid = 100);
}

/* Ended processes give their blocks back, and keep their numbers. */
Test(memory_full, blocks_of_ended_processes)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *ended;

	add_fork(&t);
	t.place.process = 2;
	t.at = 1 * S;
	allocated(&t, 0x1000, 100, 0);
	t.at = 7 * S;
	allocated(&t, 0x2000, 10, 0);
	allocated(&t, 0x100000, 0x1000, MAPPED);
	stream_plain(&t.stream, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 8 * S,
		     .process = 2, .pid = 200);
	aggregate = aggregate_so_far(&t, NULL);
	aggregate->memory.blocks.chunks.count = AGGREGATE_BLOCKS_MAX + 1;

	t.place.process = 1;
	t.at = 9 * S;
	for (uint64_t i = 0; i < 3; i++)
		allocated(&t, 0x1000 + 16 * i, 1, 0);
	aggregate_so_far(&t, aggregate);
	/* two found room */
	cr_expect_eq(host_memory(aggregate)->current_count, 2);
	cr_expect_eq(host_memory(aggregate)->allocs.value, 3);
	cr_expect_eq(host_memory(aggregate)->bound, PROFILE_MEMORY_LOST_ALLOCS);
	ended = memory_in(aggregate__finish(aggregate), 2, HOST);
	cr_expect_eq(ended->bound, 0);
	cr_expect_eq(ended->current_bytes, 0x1000 + 110);
	cr_expect_eq(ended->current_count, 3);
	cr_expect_eq(ended->hotspots[0].oldest_ns, STREAM_START + 1 * S);
	cr_expect_eq(ended->hotspots[0].old_bytes, 100);
	aggregate__free(aggregate);
}

Test(memory_full, mappings)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	allocated(&t, 0x100000, 0x4000, MAPPED);
	aggregate = aggregate_so_far(&t, NULL);
	aggregate->memory.mappings_count += AGGREGATE_MAPPINGS_MAX;
	allocated(&t, 0x200000, 0x1000, MAPPED);
	freed(&t, 0x101000, 0x1000, UNMAP); /* no room for what stays */
	aggregate_so_far(&t, aggregate);
	aggregate->memory.mappings_count -= AGGREGATE_MAPPINGS_MAX;
	m = host_memory(aggregate);
	cr_expect_eq(m->allocs.value, 2);
	cr_expect_eq(m->bound, PROFILE_MEMORY_LOST_ALLOCS);
	cr_expect_eq(m->current_bytes, 0);
	cr_expect_eq(m->peak_bytes, 0x4000);
	aggregate__free(aggregate);
}

/* More threads than are remembered: reallocations that are under way are. */
Test(memory_full, threads)
{
	struct story t = story_begin();
	struct aggregate *aggregate = NULL;

	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	for (uint32_t i = 0; i < AGGREGATE_THREADS_MAX + 10; i++) {
		t.place.tid = 1000 + i;
		freed(&t, 0x1000, 0, 0);
		aggregate = aggregate_so_far(&t, aggregate);
	}
	t.place.tid = 100;
	allocated(&t, 0x1000, 50, RESIZED);
	aggregate_so_far(&t, aggregate);
	cr_expect_eq(host_memory(aggregate)->frees_count, 1);
	cr_expect_eq(host_memory(aggregate)->current_bytes, 50);
	cr_expect_eq(host_memory(aggregate)->unknown_frees_count, AGGREGATE_THREADS_MAX + 10);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(aggregate);
}

Test(memory_full, modes)
{
	struct story t = story_begin();
	struct aggregate *aggregate;

	for (uint64_t i = 0; i < AGGREGATE_MODES_MAX + 3; i++)
		stream_memory_mode(&t.stream, i, HOST, PERFX_MEMORY_SAMPLED, 1000 + i);
	allocated(&t, 0x1000, 10, SAMPLED);
	aggregate = aggregate_so_far(&t, NULL);
	cr_expect_eq(host_memory(aggregate)->sample_bytes, 999 + AGGREGATE_MODES_MAX);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 3);
	aggregate__free(aggregate);
}
