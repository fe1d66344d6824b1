// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/memory.h"
#include "analyze/analyze.h"

#include "memory_fixture.h"

#include <stdlib.h>

/* The accounting rules, each by a story with a known end. */

Test(memory, what_is_allocated_freed_and_held)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x2000, 50, 0);
	t.place.tid = 101; /* frees on other threads */
	freed(&t, 0x1000, 0, 0);
	allocated(&t, 0x3000, 0, 0); /* malloc(0) is an allocation */
	expect_outcome(&t, .allocs = 3, .bytes = 150, .frees = 1, .count = 2, .live = 50,
		       .peak = 150);
}

Test(memory, unknown_frees_never_go_below_zero)
{
	struct story t = story_begin();

	freed(&t, 0x9000, 0, 0);
	allocated(&t, 0x1000, 10, 0);
	freed(&t, 0x1000, 0, 0);
	freed(&t, 0x1000, 0, 0);
	freed(&t, 0x1008, 0, 0);
	expect_outcome(&t, .allocs = 1, .bytes = 10, .frees = 1, .unknown = 3, .temporary = 1,
		       .peak = 10);
}

Test(memory, an_address_that_was_thought_live)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x1000, 30, 0);
	expect_outcome(&t, .allocs = 2, .bytes = 130, .replaced = 1, .count = 1, .live = 30,
		       .peak = 100);
	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x1000, 120, REPLACES);
	expect_outcome(&t, .allocs = 2, .bytes = 220, .frees = 1, .count = 1, .live = 120,
		       .peak = 120);
}

Test(memory, temporary_is_freed_by_the_threads_next_call)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 1, 0);
	freed(&t, 0x1000, 0, 0); /* temporary */
	allocated(&t, 0x1000, 1, 0);
	allocated(&t, 0x2000, 1, 0);
	freed(&t, 0x1000, 0, 0); /* a call lay between */
	freed(&t, 0x2000, 0, 0); /* here too */
	allocated(&t, 0x3000, 1, 0);
	t.place.tid = 101;
	allocated(&t, 0x4000, 1, 0);
	freed(&t, 0x3000, 0, 0); /* another thread's */
	t.place.tid = 100;
	allocated(&t, 0x5000, 1, 0);
	t.place.tid = 101;
	allocated(&t, 0x6000, 1, 0);
	t.place.tid = 100;
	freed(&t, 0x5000, 0, 0); /* temporary: other threads' calls do not count */
	expect_outcome(&t, .allocs = 7, .bytes = 7, .frees = 5, .temporary = 2, .count = 2,
		       .live = 2, .peak = 3);
}

/* Thread 100 frees a block at the address of its own last one, which is another's by now. */
Test(memory, the_same_address_is_not_the_same_block)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 1, 0);
	t.place.tid = 101;
	freed(&t, 0x1000, 0, 0);
	allocated(&t, 0x1000, 1, 0);
	t.place.tid = 100;
	freed(&t, 0x1000, 0, 0);
	expect_outcome(&t, .allocs = 2, .bytes = 2, .frees = 2, .peak = 1);
}

Test(memory, realloc_is_a_free_and_an_allocation)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x7000, 1, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	/* meanwhile its address is another thread's */
	t.place.tid = 101;
	allocated(&t, 0x1000, 30, 0);
	t.place.tid = 100;
	allocated(&t, 0x2000, 300, RESIZED);
	expect_outcome(&t, .allocs = 4, .bytes = 431, .frees = 1, .count = 3, .live = 331,
		       .peak = 331);
	/* in place: both sizes are never live at once */
	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	allocated(&t, 0x1000, 120, RESIZED);
	expect_outcome(&t, .allocs = 2, .bytes = 220, .frees = 1, .temporary = 1, .count = 1,
		       .live = 120, .peak = 120);
}

Test(memory, realloc_that_fails_or_frees)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	freed(&t, 0x1000, 0, RESTORED);
	expect_outcome(&t, .allocs = 1, .bytes = 100, .count = 1, .live = 100, .peak = 100);

	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x2000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	freed(&t, 0x1000, 0, SETTLED);
	freed(&t, 0x1000, 0, 0);
	expect_outcome(&t, .allocs = 2, .bytes = 200, .frees = 1, .unknown = 1, .count = 1,
		       .live = 100, .peak = 200);
}

Test(memory, realloc_of_an_unknown_block)
{
	struct story t = story_begin();

	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	allocated(&t, 0x2000, 100, RESIZED);
	freed(&t, 0x3000, 0, REALLOC_BEGIN);
	freed(&t, 0x3000, 0, RESTORED);
	freed(&t, 0x4000, 0, REALLOC_BEGIN);
	freed(&t, 0x4000, 0, SETTLED);
	expect_outcome(&t, .allocs = 1, .bytes = 100, .unknown = 2, .count = 1, .live = 100,
		       .peak = 100);
}

Test(memory, realloc_whose_other_half_is_missing)
{
	struct story t = story_begin();

	/* the next call shows that it is over */
	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	allocated(&t, 0x2000, 10, 0);
	expect_outcome(&t, .allocs = 2, .bytes = 110, .frees = 1, .temporary = 1, .count = 1,
		       .live = 10, .peak = 100);
	/* two in a row */
	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x2000, 10, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	freed(&t, 0x2000, 0, REALLOC_BEGIN);
	expect_outcome(&t, .allocs = 2, .bytes = 110, .frees = 1, .count = 1, .live = 10,
		       .peak = 110);
	/* still running at the end; another thread's ends are not this one's */
	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	t.place.tid = 101;
	freed(&t, 0x1000, 0, RESTORED);
	allocated(&t, 0x2000, 10, RESIZED);
	expect_outcome(&t, .allocs = 2, .bytes = 110, .count = 2, .live = 110, .peak = 110);
	/* restored to where another block has come */
	t = story_begin();
	allocated(&t, 0x1000, 100, 0);
	freed(&t, 0x1000, 0, REALLOC_BEGIN);
	t.place.tid = 101;
	allocated(&t, 0x1000, 10, 0);
	t.place.tid = 100;
	freed(&t, 0x1000, 0, RESTORED);
	expect_outcome(&t, .allocs = 2, .bytes = 110, .replaced = 1, .count = 1, .live = 100,
		       .peak = 110);
}

Test(memory, domains_and_processes_are_apart)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile *profile;

	stream_plain(&t.stream, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + 1,
		     .process = 2, .parent_process = 1, .pid = 200, .ppid = 100);
	allocated(&t, 0x1000, 100, 0);
	t.place.domain = TENSOR;
	allocated(&t, 0x1000, 64, 0);
	t.place.domain = GPU;
	allocated(&t, 0x1000, 4096, 0);
	/* what a child inherits is not its own */
	t.place.domain = HOST;
	t.place.process = 2;
	freed(&t, 0x1000, 0, 0);
	allocated(&t, 0x1000, 7, 0);
	aggregate = story_aggregate(&t);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->memory_records_count, 5);
	cr_expect_eq(profile->processes[0].memory_count, 3);
	cr_expect_eq(memory_in(profile, 1, HOST)->current_bytes, 100);
	cr_expect_eq(memory_in(profile, 1, TENSOR)->current_bytes, 64);
	cr_expect_eq(memory_in(profile, 1, GPU)->current_bytes, 4096);
	cr_expect_eq(profile->processes[1].memory_count, 1);
	cr_expect_eq(memory_in(profile, 2, HOST)->current_bytes, 7);
	cr_expect_eq(memory_in(profile, 2, HOST)->unknown_frees_count, 1);
	aggregate__free(aggregate);
}

/* exec: the old process keeps what it held, the new one begins with nothing. */
Test(memory, exec_begins_anew)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile *profile;

	allocated(&t, 0x1000, 100, 0);
	stream_plain(&t.stream, PERFX_KIND_EXEC, struct perfx_exec, .time_ns = STREAM_START + 1 * S,
		     .process = 2, .old_process = 1, .pid = 100);
	t.at = 2 * S;
	t.place.process = 2;
	allocated(&t, 0x1000, 5, 0);
	aggregate = story_aggregate(&t);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(memory_in(profile, 1, HOST)->current_bytes, 100);
	cr_expect_eq(memory_in(profile, 1, HOST)->replaced_count, 0);
	cr_expect_eq(memory_in(profile, 2, HOST)->current_bytes, 5);
	cr_expect_eq(memory_in(profile, 2, HOST)->peak_bytes, 5);
	aggregate__free(aggregate);
}

Test(memory, lost_records_are_in_the_totals_and_live_is_a_bound)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	allocated(&t, 0x1000, 100, 0);
	stream_overflow_memory(&t.stream, 1, HOST, 7, 700, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->allocs.value, 8);
	cr_expect_eq(m->allocs.low, 8);
	cr_expect_eq(m->allocs.high, 8);
	cr_expect_eq(m->allocated_bytes.value, 800);
	cr_expect_eq(m->frees_count, 0);
	cr_expect_eq(m->current_bytes, 100);
	cr_expect_eq(m->bound, PROFILE_MEMORY_LOST_ALLOCS);
	cr_expect_eq(m->lost_allocs_count, 7);
	cr_expect_eq(m->lost_allocated_bytes, 700);
	aggregate__free(aggregate);

	t = story_begin();
	stream_overflow_memory(&t.stream, 1, HOST, 0, 0, 2);
	stream_overflow_memory(&t.stream, 1, HOST, 1, 10, 1);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->frees_count, 3);
	cr_expect_eq(m->lost_frees_count, 3);
	cr_expect_eq(m->bound, PROFILE_MEMORY_LOST_ALLOCS | PROFILE_MEMORY_LOST_FREES);
	aggregate__free(aggregate);
}

/* Modes under which blocks are freed unseen take the knowledge of what lives. */
Test(memory, live_is_absent_where_frees_are_not_seen)
{
	static const struct {
		enum perfx_memory_level level;
		bool before; /* a block lives when the mode begins */
		bool after;  /* one is allocated under it */
		bool absent;
	} rows[] = {
		{PERFX_MEMORY_EXACT, true, true, false},
		{PERFX_MEMORY_SAMPLED, true, true, false},
		{PERFX_MEMORY_FREES_INFERRED, true, true, false},
		{PERFX_MEMORY_OFF, true, false, true},
		{PERFX_MEMORY_OFF, false, false, false},
		{PERFX_MEMORY_SAMPLED_IN, false, true, true},
		{PERFX_MEMORY_SAMPLED_IN, true, false, true},
		{PERFX_MEMORY_SAMPLED_IN, false, false, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct story t = story_begin();
		const struct profile_memory *m;
		struct aggregate *aggregate;

		stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_EXACT, 0);
		allocated(&t, 0x1000, 10, 0);
		if (!rows[i].before)
			freed(&t, 0x1000, 0, 0);
		stream_memory_mode(&t.stream, 1 * S, HOST, rows[i].level, 1 << 19);
		t.at = 2 * S;
		if (rows[i].after)
			allocated(&t, 0x2000, 10, 0);
		/* what comes later cannot mend it */
		stream_memory_mode(&t.stream, 3 * S, HOST, PERFX_MEMORY_EXACT, 0);
		t.at = 4 * S;
		allocated(&t, 0x3000, 10, 0);
		aggregate = story_aggregate(&t);
		m = host_memory(aggregate);
		cr_expect_eq(m->current_bytes == PROFILE_ABSENT, rows[i].absent, "row %zu", i);
		cr_expect_eq(m->current_count == PROFILE_ABSENT, rows[i].absent, "row %zu", i);
		cr_expect_eq(m->peak_bytes == PROFILE_ABSENT, rows[i].absent, "row %zu", i);
		cr_expect_eq(m->peak_ns == PROFILE_ABSENT, rows[i].absent, "row %zu", i);
		cr_expect_eq(m->hotspots[0].live_bytes == PROFILE_ABSENT, rows[i].absent);
		cr_expect_eq(m->alloc_windows_count == 0, rows[i].absent, "row %zu", i);
		cr_expect_eq(m->points[m->points_count - 1].live_bytes == PROFILE_ABSENT,
			     rows[i].absent);
		aggregate__free(aggregate);
	}
}

/* A block lives until an allocation has one of its bytes. */
Test(memory, frees_are_inferred)
{
	struct story t = story_begin();

	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_EXACT, 0);
	allocated(&t, 0x1000, 0x100, 0);
	allocated(&t, 0x2000, 0x100, 0);
	allocated(&t, 0x3000, 0x100, 0);
	freed(&t, 0x3000, 0, 0);
	stream_memory_mode(&t.stream, t.at, HOST, PERFX_MEMORY_FREES_INFERRED, 0);
	allocated(&t, 0x1100, 0x100, 0); /* beside the first */
	allocated(&t, 0x10ff, 0x10, 0);	 /* the end of one, the beginning of the other */
	allocated(&t, 0x1ff0, 0x200, 0); /* all of the second */
	allocated(&t, 0x4000, 0, 0);	 /* has no byte */
	expect_outcome(&t, .allocs = 7, .bytes = 0x610, .frees = 4, .temporary = PROFILE_ABSENT,
		       .count = 2, .live = 0x210, .peak = 0x300);
}

/* Frees that were recorded while their probe was being removed, before an allocation and after. */
Test(memory, frees_that_come_although_they_are_inferred)
{
	struct story t = story_begin();

	allocated(&t, 0x1000, 100, 0);
	allocated(&t, 0x2000, 10, 0);
	stream_memory_mode(&t.stream, t.at, HOST, PERFX_MEMORY_FREES_INFERRED, 0);
	freed(&t, 0x1000, 0, 0);
	allocated(&t, 0x3000, 1, 0);
	freed(&t, 0x2000, 0, 0);
	expect_outcome(&t, .allocs = 3, .bytes = 111, .frees = 2, .temporary = PROFILE_ABSENT,
		       .count = 1, .live = 1, .peak = 110);
}

/* What lives is an upper bound: where an allocation shows it, and where nothing is allocated. */
Test(memory, inferred_frees_bound_what_lives)
{
	for (int after = 0; after < 2; after++) {
		struct story t = story_begin();
		const struct profile_memory *m;
		struct aggregate *aggregate;

		allocated(&t, 0x1000, 100, 0);
		stream_memory_mode(&t.stream, t.at, HOST, PERFX_MEMORY_FREES_INFERRED, 0);
		if (after)
			allocated(&t, 0x2000, 100, 0);
		aggregate = story_aggregate(&t);
		m = host_memory(aggregate);
		cr_expect_eq(m->bound, PROFILE_MEMORY_LOST_FREES);
		cr_expect(m->frees_inferred);
		cr_expect_eq(m->level, PERFX_MEMORY_FREES_INFERRED);
		cr_expect_not(m->sampled);
		cr_expect_eq(m->hotspots[0].temporary_count, PROFILE_ABSENT);
		cr_expect_eq(m->hotspots[0].live_bytes, after ? 200 : 100);
		aggregate__free(aggregate);
	}
}

Test(memory, a_duty_cycle_is_blind_and_recorded_in_part)
{
	struct story t = story_begin();
	const struct profile_memory *m;
	struct aggregate *aggregate;

	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_EXACT, 0);
	t.at = 1 * S;
	allocated(&t, 0x1000, 10, 0);
	stream_plain(&t.stream, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode,
		     .time_ns = STREAM_START + 4 * S, .on_ns = 100 * MS, .period_ns = 1 * S,
		     .domain = HOST, .level = PERFX_MEMORY_EXACT);
	/* not temporary: calls between may not have been seen */
	t.at = 5 * S;
	allocated(&t, 0x2000, 10, 0);
	freed(&t, 0x2000, 0, 0);
	stream_memory_mode(&t.stream, 8 * S, HOST, PERFX_MEMORY_OFF, 0);
	stream_end(&t.stream, 10 * S, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->recorded_ns, 4 * S + 400 * MS);
	cr_expect_eq(m->level, PERFX_MEMORY_OFF);
	cr_expect_eq(m->current_bytes, PROFILE_ABSENT);
	cr_expect_eq(m->temporary_count, 0);
	cr_expect_not(m->sampled);
	aggregate__free(aggregate);
}

/* 0 is a measurement: nothing was allocated. Absent: nobody looked. */
Test(memory, a_domain_in_which_nothing_happened)
{
	struct story t = story_begin();
	const struct profile *profile;
	struct aggregate *aggregate;

	stream_allocator(&t.stream, 1, HOST, "libc", "/lib/libc.so.6");
	stream_allocator(&t.stream, 2, TENSOR, "torch", "/lib/libc10.so");
	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_EXACT, 0);
	stream_memory_mode(&t.stream, 0, TENSOR, PERFX_MEMORY_OFF, 0);
	stream_memory_mode(&t.stream, 0, GPU, PERFX_MEMORY_EXACT, 0);
	stream_end(&t.stream, 10 * S, 0);
	aggregate = story_aggregate(&t);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->processes[0].memory_count, 1);
	cr_expect_eq(profile->processes[0].memory[0].domain, HOST);
	cr_expect_eq(profile->processes[0].memory[0].allocs.high, 0);
	cr_expect_eq(profile->processes[0].memory[0].current_bytes, 0);
	cr_expect_eq(profile->processes[0].memory[0].peak_ns, PROFILE_ABSENT);
	cr_expect_eq(profile->processes[0].memory[0].recorded_ns, 10 * S);
	aggregate__free(aggregate);
}

/* Beside spans: a process that is never described is left out, and said to be. */
Test(memory, a_process_that_nothing_describes)
{
	struct story t = story_begin();
	const struct profile *profile;
	struct aggregate *aggregate;

	allocated(&t, 0x1000, 1, 0);
	t.place.process = 9;
	allocated(&t, 0x1000, 1, 0);
	freed(&t, 0x1000, 0, 0);
	aggregate = story_aggregate(&t);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->processes_count, 1);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);
	cr_expect_eq(memory_in(profile, 1, HOST)->allocs.value, 1);
	aggregate__free(aggregate);
}

/* Mappings: parts of them go, others come over them. */

#define PAGE 0x1000ULL

Test(memory_mapped, munmap_of_parts)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 16 * PAGE, MAPPED);
	freed(&t, 0x14000, 4 * PAGE, UNMAP); /* a hole: two parts live on */
	expect_outcome(&t, .allocs = 1, .bytes = 16 * PAGE, .frees = 1, .count = 2,
		       .live = 12 * PAGE, .peak = 16 * PAGE);

	t = story_begin();
	allocated(&t, 0x10000, 16 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP); /* the front */
	freed(&t, 0x1f000, 4 * PAGE, UNMAP); /* the end and beyond */
	freed(&t, 0x30000, PAGE, UNMAP);     /* nothing known: not counted */
	expect_outcome(&t, .allocs = 1, .bytes = 16 * PAGE, .frees = 2, .count = 1,
		       .live = 11 * PAGE, .peak = 16 * PAGE);
}

Test(memory_mapped, munmap_over_several)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 2 * PAGE, MAPPED);
	allocated(&t, 0x12000, 2 * PAGE, MAPPED);
	allocated(&t, 0x20000, 2 * PAGE, MAPPED);
	/* half of the first, the second, half of the third: one free */
	freed(&t, 0x11000, 16 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 3, .bytes = 6 * PAGE, .frees = 1, .count = 2, .live = 2 * PAGE,
		       .peak = 6 * PAGE);
}

Test(memory_mapped, neighbours_are_not_touched)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, PAGE, MAPPED);
	allocated(&t, 0x11000, PAGE, MAPPED);
	allocated(&t, 0x12000, PAGE, MAPPED);
	freed(&t, 0x11000, PAGE, UNMAP);
	freed(&t, 0x11000, PAGE, UNMAP);
	expect_outcome(&t, .allocs = 3, .bytes = 3 * PAGE, .frees = 1, .count = 2, .live = 2 * PAGE,
		       .peak = 3 * PAGE);
}

Test(memory_mapped, a_fixed_mapping_frees_what_lay_there)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	allocated(&t, 0x12000, 4 * PAGE, MAPPED);
	expect_outcome(&t, .allocs = 2, .bytes = 8 * PAGE, .frees = 1, .count = 2, .live = 6 * PAGE,
		       .peak = 6 * PAGE);
}

Test(memory_mapped, heap_blocks_and_mappings_are_apart)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	allocated(&t, 0x10000, 16, 0);
	freed(&t, 0x10000, 0, 0);
	freed(&t, 0x11000, 0, 0); /* no block, but inside of a mapping */
	expect_outcome(&t, .allocs = 2, .bytes = 4 * PAGE + 16, .frees = 1, .unknown = 1,
		       .temporary = 1, .count = 1, .live = 4 * PAGE, .peak = 4 * PAGE + 16);
}

Test(memory_mapped, mremap)
{
	struct story t = story_begin();

	/* it moves and grows */
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x50000, 8 * PAGE, RESIZED | MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 2, .bytes = 12 * PAGE, .frees = 1, .temporary = 1, .count = 1,
		       .live = 8 * PAGE, .peak = 8 * PAGE);
	/* it fails */
	t = story_begin();
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, REALLOC_BEGIN | UNMAP);
	freed(&t, 0x10000, 0, RESTORED);
	freed(&t, 0x13000, PAGE, UNMAP);
	expect_outcome(&t, .allocs = 1, .bytes = 4 * PAGE, .frees = 1, .count = 1, .live = 3 * PAGE,
		       .peak = 4 * PAGE);
	/* of a part, and of what is not known */
	t = story_begin();
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x12000, PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x50000, PAGE, RESIZED | MAPPED);
	freed(&t, 0x90000, PAGE, REALLOC_BEGIN | UNMAP);
	allocated(&t, 0x60000, PAGE, RESIZED | MAPPED);
	expect_outcome(&t, .allocs = 3, .bytes = 6 * PAGE, .frees = 1, .unknown = 1, .count = 4,
		       .live = 5 * PAGE, .peak = 5 * PAGE);
}

Test(memory_mapped, temporary_is_all_of_it)
{
	struct story t = story_begin();

	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, 4 * PAGE, UNMAP); /* temporary */
	allocated(&t, 0x10000, 4 * PAGE, MAPPED);
	freed(&t, 0x10000, PAGE, UNMAP); /* a part */
	freed(&t, 0x11000, 3 * PAGE, UNMAP);
	expect_outcome(&t, .allocs = 2, .bytes = 8 * PAGE, .frees = 3, .temporary = 1,
		       .peak = 4 * PAGE);
}

/* Against a page table: random mmap, munmap and mremap in a small space. */
Test(memory_mapped, agrees_with_pages)
{
	enum { PAGES = 64 };
	struct story t = story_begin();
	uint64_t live = 0, peak = 0;
	bool pages[PAGES] = {false};
	struct aggregate *aggregate;

	srand(11);
	for (int i = 0; i < 20000; i++) {
		unsigned from = (unsigned)rand() % PAGES;
		unsigned count = 1 + (unsigned)rand() % 12;
		bool map = rand() % 2;

		if (from + count > PAGES)
			count = PAGES - from;
		for (unsigned p = from; p < from + count; p++) {
			live += map && !pages[p] ? PAGE : 0;
			live -= !map && pages[p] ? PAGE : 0;
			pages[p] = map;
		}
		peak = live > peak ? live : peak;
		t.place.stack = 1 + (unsigned)rand() % 5;
		if (map)
			allocated(&t, 0x100000 + from * PAGE, count * PAGE, MAPPED);
		else
			freed(&t, 0x100000 + from * PAGE, count * PAGE, UNMAP);
	}
	aggregate = story_aggregate(&t);
	cr_expect_eq(host_memory(aggregate)->current_bytes, live);
	cr_expect_eq(host_memory(aggregate)->peak_bytes, peak);
	aggregate__free(aggregate);
}

/* What leaks are judged by, from records on: what lives by the window of its allocation, and frees
 * of unknown blocks by window. */

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

/* Stacks 1 and 2 were followed; of 3 only the caller is known, which is that of both. */
Test(memory, an_allocation_without_a_stack_is_credited_to_one_that_is_alike)
{
	static const struct {
		uint32_t stack, context;
		uint64_t size;
	} calls[] = {{1, 7, 100}, {3, 7, 100}, {2, 7, 50},  {3, 7, 50},	 {3, 7, 50},
		     {3, 8, 50},  {3, 7, 51},  {2, 7, 100}, {3, 7, 100}, {1, 7, 100}};
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;
	uint64_t allocs[4] = {0}, left_out[4] = {0};

	stream_stack(&t.stream, 1, 1, PERFX_STACK_COMPLETE, 0x10, 0x20);
	stream_stack(&t.stream, 1, 2, PERFX_STACK_COMPLETE, 0x10, 0x30, 0x40);
	stream_stack(&t.stream, 1, 3, PERFX_STACK_ENDED(PERFX_STACK_END_LEFT_OUT), 0x10);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		t.place.stack = calls[i].stack;
		t.place.context = calls[i].context;
		allocated(&t, 0x1000 * (i + 1), calls[i].size, 0);
	}
	stream_end(&t.stream, 1 * S, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect_eq(m->allocs.value, 10);
	for (size_t i = 0; i < m->hotspots_count; i++) {
		const struct profile_hotspot *h = &m->hotspots[i];
		size_t stack = h->frames_count == 3 ? 2 : h->frames_count == 2 ? 1 : 3;

		allocs[stack] += h->allocs.value;
		left_out[stack] += h->left_out_count;
	}
	cr_expect_eq(allocs[1], 3);
	cr_expect_eq(left_out[1], 1);
	cr_expect_eq(allocs[2], 5);
	cr_expect_eq(left_out[2], 3);
	/* nothing of the same context and size was followed */
	cr_expect_eq(allocs[3], 2);
	aggregate__free(aggregate);
}

/* A site that is called seldom: all of its stacks are left out, until one is followed. Where blocks
 * of other sizes have the same caller, it is not known that they come the same way. */
Test(memory, the_first_stack_that_is_followed_is_that_of_those_before)
{
	for (size_t others = 0; others < 2; others++) {
		struct story t = story_begin();
		struct aggregate *aggregate;
		const struct profile_memory *m;
		uint64_t allocs[3] = {0}, left_out[3] = {0};

		stream_stack(&t.stream, 1, 1, PERFX_STACK_COMPLETE, 0x10, 0x20);
		stream_stack(&t.stream, 1, 3, PERFX_STACK_ENDED(PERFX_STACK_END_LEFT_OUT), 0x10);
		t.place.stack = 3;
		for (size_t i = 0; i < 4; i++)
			allocated(&t, 0x1000 * (i + 1), i < 3 ? 100 : 100 + others, 0);
		t.place.stack = 1;
		allocated(&t, 0x8000, 100, 0);
		t.place.stack = 3;
		allocated(&t, 0x9000, 100, 0);
		stream_end(&t.stream, 1 * S, 0);
		aggregate = story_aggregate(&t);
		m = host_memory(aggregate);
		cr_assert_eq(m->hotspots_count, 1 + others);
		for (size_t i = 0; i < m->hotspots_count; i++) {
			size_t frames = m->hotspots[i].frames_count;

			allocs[frames] = m->hotspots[i].allocs.value;
			left_out[frames] = m->hotspots[i].left_out_count;
		}
		cr_expect_eq(allocs[2], others ? 2 : 6);
		cr_expect_eq(left_out[2], others ? 1 : 5);
		cr_expect_eq(allocs[1], others ? 4 : 0);
		aggregate__free(aggregate);
	}
}

/* Those that were followed before any was left out: of the heap they are not looked up. */
Test(memory, stacks_that_were_followed_while_all_were)
{
	static const enum perfx_domain domains[] = {TENSOR, HOST};

	for (size_t i = 0; i < 2; i++) {
		struct story t = story_begin();
		struct aggregate *aggregate;
		const struct profile_memory *m;

		t.place.domain = domains[i];
		stream_stack(&t.stream, 1, 1, PERFX_STACK_COMPLETE, 0x10, 0x20);
		allocated(&t, 0x1000, 100, 0);
		stream_stack(&t.stream, 1, 3, PERFX_STACK_ENDED(PERFX_STACK_END_LEFT_OUT), 0x10);
		t.place.stack = 3;
		allocated(&t, 0x2000, 100, 0);
		aggregate = story_aggregate(&t);
		m = memory_in(aggregate__finish(aggregate), 1, domains[i]);
		cr_assert_not_null(m);
		cr_assert_eq(m->hotspots_count, 1 + i);
		cr_expect_eq(m->hotspots[0].left_out_count, 1 - i);
		aggregate__free(aggregate);
	}
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
	analysis = analyze(aggregate__finish(aggregate), NULL);
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

/* Where a maximum is reached: what is given up, and that it is said. The maxima are too large to
 * fill, so the counts are set. */

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
	aggregate->memory->blocks.chunks.count = AGGREGATE_BLOCKS_MAX + 1;

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
	aggregate->memory->mappings_count += AGGREGATE_MAPPINGS_MAX;
	allocated(&t, 0x200000, 0x1000, MAPPED);
	freed(&t, 0x101000, 0x1000, UNMAP); /* no room for what stays */
	aggregate_so_far(&t, aggregate);
	aggregate->memory->mappings_count -= AGGREGATE_MAPPINGS_MAX;
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
