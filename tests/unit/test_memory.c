// SPDX-License-Identifier: BSD-2-Clause
/* The accounting rules, each by a story with a known end. */
#include "memory_fixture.h"

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
