/* SPDX-License-Identifier: BSD-2-Clause */
/* Short words for stories about memory: process 1, host domain, one thread, until told otherwise.
 */
#ifndef MEMORY_FIXTURE_H
#define MEMORY_FIXTURE_H

#include "stream_builder.h"

#include <criterion/criterion.h>

#define HOST   PERFX_DOMAIN_HOST
#define TENSOR PERFX_DOMAIN_TENSOR
#define GPU    PERFX_DOMAIN_GPU

#define MAPPED	      PERFX_ALLOCATION_MAPPED
#define RESIZED	      PERFX_ALLOCATION_RESIZED
#define REPLACES      PERFX_ALLOCATION_REPLACES
#define SAMPLED	      PERFX_ALLOCATION_SAMPLED
#define REALLOC_BEGIN PERFX_FREE_REALLOC_BEGIN
#define RESTORED      PERFX_FREE_RESTORED
#define SETTLED	      PERFX_FREE_SETTLED
#define UNMAP	      PERFX_FREE_MAPPED

/* A story that is being told: each record comes 1 µs after the one before. */
struct story {
	struct stream stream;
	struct stream_place place;
	uint64_t at;
};

__attribute__((unused)) static struct story story_begin(void)
{
	struct story t = {.place = {.process = 1,
				    .tid = 100,
				    .stack = 1,
				    .allocator = 1,
				    .domain = PERFX_DOMAIN_HOST}};

	stream_host(&t.stream);
	stream_process(&t.stream, 1, 100, "a", "a");
	return t;
}

__attribute__((unused)) static void allocated(struct story *t, uint64_t address, uint64_t size,
					      uint8_t flags)
{
	stream_allocation(&t->stream, &t->place, t->at, address, size, flags);
	t->at += US;
}

__attribute__((unused)) static void freed(struct story *t, uint64_t address, uint64_t size,
					  uint8_t flags)
{
	stream_free(&t->stream, &t->place, t->at, address, size, flags);
	t->at += US;
}

__attribute__((unused)) static struct aggregate *story_aggregate(struct story *t)
{
	struct aggregate *aggregate = aggregate__new();

	cr_assert_eq(stream_replay(&t->stream, aggregate), 0);
	stream_clear(&t->stream);
	return aggregate;
}

__attribute__((unused)) static const struct profile_memory *memory_in(const struct profile *profile,
								      uint32_t process,
								      enum perfx_domain domain)
{
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; p->index == process && j < p->memory_count; j++) {
			if (p->memory[j].domain == domain)
				return &p->memory[j];
		}
	}
	return NULL;
}

__attribute__((unused)) static const struct profile_memory *host_memory(struct aggregate *aggregate)
{
	const struct profile_memory *memory = memory_in(aggregate__finish(aggregate), 1, HOST);

	cr_assert_not_null(memory);
	return memory;
}

/* What a story comes to. */
struct outcome {
	uint64_t allocs, bytes, frees, unknown, replaced, temporary, count, live, peak;
};

#define expect_outcome(t, ...) expect_outcome_at(__LINE__, t, (struct outcome){__VA_ARGS__})

/* Frees the story. */
__attribute__((unused)) static void expect_outcome_at(int line, struct story *t,
						      struct outcome expected)
{
	struct aggregate *aggregate = story_aggregate(t);
	const struct profile_memory *m;

	/* what is made in mid-stream changes nothing */
	host_memory(aggregate);
	m = host_memory(aggregate);
	cr_expect_eq(m->allocs.value, expected.allocs, "line %d: allocs %lu", line,
		     m->allocs.value);
	cr_expect_eq(m->allocated_bytes.value, expected.bytes, "line %d: bytes %lu", line,
		     m->allocated_bytes.value);
	cr_expect_eq(m->allocs.low, m->allocs.value);
	cr_expect_eq(m->allocs.high, m->allocs.value);
	cr_expect_eq(m->frees_count, expected.frees, "line %d: frees %lu", line, m->frees_count);
	cr_expect_eq(m->unknown_frees_count, expected.unknown, "line %d: unknown %lu", line,
		     m->unknown_frees_count);
	cr_expect_eq(m->replaced_count, expected.replaced, "line %d: replaced %lu", line,
		     m->replaced_count);
	cr_expect_eq(m->temporary_count, expected.temporary, "line %d: temporary %lu", line,
		     m->temporary_count);
	cr_expect_eq(m->current_count, expected.count, "line %d: count %lu", line,
		     m->current_count);
	cr_expect_eq(m->current_bytes, expected.live, "line %d: live %lu", line, m->current_bytes);
	cr_expect_eq(m->peak_bytes, expected.peak, "line %d: peak %lu", line, m->peak_bytes);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 0, "line %d",
		     line);
	aggregate__free(aggregate);
}

#endif
