// SPDX-License-Identifier: BSD-2-Clause
/* Slices of --timeline: how many are kept, which are refused, and their words. */
#include "analyze/slices.h"
#include "functions_fixture.h"

#include <criterion/criterion.h>

/* Of thread 100 of process 1: runs for 10 ns, waits for 20, and for a CPU for 5. */
static struct perfx_slice slice_at(uint64_t at)
{
	return (struct perfx_slice){.time_ns = STREAM_START + at + 35,
				    .on_ns = STREAM_START + at,
				    .left_ns = STREAM_START + at + 10,
				    .woken_ns = STREAM_START + at + 30,
				    .process = 1,
				    .tid = 100,
				    .reason = PERFX_WAIT_FUTEX,
				    .object = 0x1234};
}

static void add_slice(struct stream *s, struct perfx_slice slice)
{
	stream_put(s, PACK(&s->buffer, PERFX_KIND_SLICE, slice));
}

Test(slices, the_last_ones_are_kept_in_order)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	for (uint64_t i = PROFILE_SLICES_MAX + 5; i-- > 0;)
		add_slice(&s, slice_at(100 * i));
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->slices_count, PROFILE_SLICES_MAX + 5);
	cr_assert_eq(profile->last_slices_count, PROFILE_SLICES_MAX);
	cr_expect_eq(profile->last_slices[0].on_ns, STREAM_START);
	cr_expect_eq(profile->last_slices[PROFILE_SLICES_MAX - 1].on_ns,
		     STREAM_START + 100 * (PROFILE_SLICES_MAX - 1));
	aggregate__free(aggregate);
}

Test(slices, calls_are_kept_from_the_first_one_on)
{
	struct stream s = {0};
	struct perfx_span span = {.start_ns = STREAM_START + 50,
				  .duration_ns = 30,
				  .self_ns = 30,
				  .context = 1,
				  .tid = 100};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	stream_context(&s, 1, 0, 1, 1);
	stream_span(&s, &span);
	add_slice(&s, slice_at(100));
	span.start_ns = STREAM_START + 200;
	stream_span(&s, &span);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->slice_spans_count, 1);
	cr_expect_eq(profile->slice_spans[0].start_ns, STREAM_START + 200);
	aggregate__free(aggregate);
}

/* Each breaks one condition of a whole one. */
Test(slices, times_out_of_order_are_refused)
{
	struct perfx_slice slices[6];
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	for (size_t i = 0; i < 6; i++)
		slices[i] = slice_at(1000 * i);
	slices[1].on_ns = slices[1].left_ns + 1;
	slices[2].left_ns = slices[2].woken_ns + 1;
	slices[3].woken_ns = slices[3].time_ns + 1;
	slices[4].reason = PERFX_WAIT_NONE;
	slices[5].process = 0;
	begin(&s, 1);
	for (size_t i = 0; i < 6; i++)
		add_slice(&s, slices[i]);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect_eq(profile->slices_count, 1);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 5);
	aggregate__free(aggregate);
}

static void expect_words(const struct profile *profile, const struct perfx_slice *slice,
			 const char *wait, const char *waker)
{
	struct text words = {0}, by = {0};
	struct wait_names names;

	cr_assert_not(wait_names_make(&names, profile));
	slice_wait_words(&words, &names, slice);
	slice_waker_words(&by, profile, slice);
	cr_expect_str_eq(text_peek(&words), wait);
	cr_expect_str_eq(text_peek(&by), waker);
	text_clear(&words);
	text_clear(&by);
	wait_names_clear(&names);
}

Test(slices, words)
{
	struct perfx_slice slice = slice_at(0);
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;

	begin(&s, 1);
	stream_add(&s, PERFX_KIND_WAIT_OBJECT, struct perfx_wait_object,
		   STRINGS("lock at a.so+0x8"), .process = 1, .reason = PERFX_WAIT_FUTEX,
		   .object = 0x1234);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 100,
		     .reason = PERFX_WAIT_FUTEX, .object = 0x1234, .blocked_ns = 20, .count = 1,
		     .max_ns = 20);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	expect_words(profile, &slice, "futex: lock at a.so+0x8", "");
	slice.object++;
	slice.waker_tid = 7;
	memcpy(slice.waker_comm, "kworker/3:1", 12);
	expect_words(profile, &slice, "futex", "kworker/3:1 (tid 7)");
	slice.waker_process = 1;
	expect_words(profile, &slice, "futex", "kworker/3:1 (tid 7)");
	slice.process = 2;
	expect_words(profile, &slice, "futex", "kworker/3:1 (tid 7 of pid 100)");
	slice.reason = PERFX_WAIT_SYSCALL;
	slice.syscall = 73;
	slice.flags = PERFX_SLICE_INTERRUPT;
	expect_words(profile, &slice, "syscall 73", "an interrupt");
	slice.reason = PERFX_WAIT_RUNNABLE;
	expect_words(profile, &slice, "", "an interrupt");
	aggregate__free(aggregate);
}
