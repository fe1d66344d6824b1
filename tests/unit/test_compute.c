// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/roofline.h"

#include "replay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* What calls compute, summed by function, through the calling-context tree, and by process. */

/* Functions 1 … 4 of symbols, 5 of BLAS, 6 of PyTorch; processes 1 and 2. */
static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	stream_process(s, 2, 200, "b", "b");
	for (uint32_t f = 1; f <= 6; f++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", f);
		stream_function(s, f, name, "/bin/a",
				f == 5	 ? PERFX_SOURCE_BLAS
				: f == 6 ? PERFX_SOURCE_TORCH
					 : PERFX_SOURCE_SYMBOL);
	}
}

static const struct profile_row *row_of(const struct profile *profile, size_t process,
					uint32_t function)
{
	const struct profile_process *p = &profile->processes[process];

	for (size_t i = 0; i < p->rows_count; i++) {
		if (p->rows[i].function == function)
			return &p->rows[i];
	}
	cr_assert_fail("no row of function %u", function);
	abort();
}

#define expect_cost(cost, ...)                                                        \
	do {                                                                          \
		const struct profile_cost *got_ = &(cost), want_ = {__VA_ARGS__};     \
                                                                                      \
		cr_expect_eq(got_->flops, want_.flops, "flops %lu", got_->flops);     \
		cr_expect_eq(got_->bytes, want_.bytes, "bytes %lu", got_->bytes);     \
		cr_expect_eq(got_->moved_bytes, want_.moved_bytes, "moved %lu",       \
			     got_->moved_bytes);                                      \
		cr_expect_eq(got_->counted_count, want_.counted_count, "counted %lu", \
			     got_->counted_count);                                    \
		cr_expect_eq(got_->unread_count, want_.unread_count, "unread %lu",    \
			     got_->unread_count);                                     \
		cr_expect_eq(got_->nested_count, want_.nested_count, "silenced %lu",  \
			     got_->nested_count);                                     \
		cr_expect_eq(got_->opaque_count, want_.opaque_count, "opaque %lu",    \
			     got_->opaque_count);                                     \
	} while (0)

static const struct stream_cost inside = {.state = PERFX_COST_INSIDE},
				elsewhere = {.state = PERFX_COST_ELSEWHERE},
				unread = {.state = PERFX_COST_UNREAD};

static struct stream_cost counted(enum perfx_dtype dtype, uint64_t flops, uint64_t bytes)
{
	return (struct stream_cost){PERFX_COST_COUNTED, dtype, flops, bytes};
}

/* step (plain, 56 bytes) → op (counted) → BLAS (inside); BLAS on a pool's thread; step → BLAS. */
static void add_ordinary(struct stream *s)
{
	begin(s);
	stream_context(s, 1, 0, 1, 1); /* step */
	stream_context(s, 2, 1, 6, 1); /* step → op */
	stream_context(s, 3, 2, 5, 1); /* step → op → BLAS */
	stream_context(s, 4, 0, 5, 1); /* BLAS */
	stream_context(s, 5, 1, 5, 1); /* step → BLAS */
	for (uint64_t i = 0; i < 2; i++) {
		stream_compute(s, 3, 100, 0, 40, 40, inside);
		stream_compute(s, 4, 101, 0, 30, 30, elsewhere);
		stream_compute(s, 2, 100, 0, 50, 10, counted(PERFX_DTYPE_BF16, 1000, 100));
		stream_compute(s, 5, 100, 60, 20, 20, counted(PERFX_DTYPE_F32, 300, 70));
		stream_call(s, 1, 100, 0, 100, 30, 0);
	}
}

Test(compute, own_and_inclusive)
{
	struct stream s = {0};
	const struct profile *profile;
	const struct profile_row *row;
	struct aggregate *a;

	add_ordinary(&s);
	a = replay(&s);
	profile = aggregate__finish(a);

	row = row_of(profile, 0, 1);
	expect_cost(row->cost, 0);
	expect_cost(row->inclusive, .flops = 2600, .bytes = 340, .counted_count = 4,
		    .nested_count = 2);
	cr_expect_eq(row->computing_ns, 200);
	cr_expect_eq(row->dtype, PERFX_DTYPE_BF16);

	row = row_of(profile, 0, 6);
	expect_cost(row->cost, .flops = 2000, .bytes = 200, .counted_count = 2);
	expect_cost(row->inclusive, .flops = 2000, .bytes = 200, .counted_count = 2,
		    .nested_count = 2);
	cr_expect_eq(row->computing_ns, 100);

	/* the nested calls' time is not that of the 600 operations */
	row = row_of(profile, 0, 5);
	expect_cost(row->cost, .flops = 600, .bytes = 140, .counted_count = 2, .nested_count = 4);
	expect_cost(row->inclusive, .flops = 600, .bytes = 140, .counted_count = 2,
		    .nested_count = 4);
	cr_expect_eq(row->total_ns, 180);
	cr_expect_eq(row->computing_ns, 40);
	cr_expect_eq(row->dtype, PERFX_DTYPE_F32);
	aggregate__free(a);
}

Test(compute, of_a_process)
{
	struct stream s = {0};
	const struct profile_compute *compute;
	struct aggregate *a;

	add_ordinary(&s);
	a = replay(&s);
	compute = &aggregate__finish(a)->processes[0].compute;
	cr_expect(compute->measured);
	expect_cost(compute->cost, .flops = 2600, .bytes = 340, .counted_count = 4,
		    .nested_count = 4);
	cr_expect_eq(compute->counted_ns, 140);
	cr_expect_eq(compute->unread_ns, 0);

	cr_assert_eq(compute->sources_count, 2);
	cr_expect_eq(compute->sources[0].source, PERFX_SOURCE_TORCH);
	expect_cost(compute->sources[0].cost, .flops = 2000, .bytes = 200, .counted_count = 2);
	cr_expect_eq(compute->sources[1].source, PERFX_SOURCE_BLAS);
	expect_cost(compute->sources[1].cost, .flops = 600, .bytes = 140, .counted_count = 2,
		    .nested_count = 4);

	cr_assert_eq(compute->dtypes_count, 2);
	cr_expect_eq(compute->dtypes[0].dtype, PERFX_DTYPE_BF16);
	cr_expect_eq(compute->dtypes[0].flops, 2000);
	cr_expect_eq(compute->dtypes[1].dtype, PERFX_DTYPE_F32);
	cr_expect_eq(compute->dtypes[1].flops, 600);
	aggregate__free(a);
}

Test(compute, nothing_has_a_cost)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_call(&s, 1, 100, 0, 10, 10, 0);
	a = replay(&s);
	profile = aggregate__finish(a);
	cr_expect_not(profile->processes[0].compute.measured);
	cr_expect_eq(profile->processes[0].compute.sources_count, 0);
	cr_expect_eq(profile->processes[0].compute.dtypes_count, 0);
	expect_cost(row_of(profile, 0, 1)->inclusive, 0);
	aggregate__free(a);
}

/* f → g → f → op, and f → op: each operation once for f, and its time once. */
Test(compute, recursion_counts_once)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 2, 1);
	stream_context(&s, 3, 2, 1, 1);
	stream_context(&s, 4, 3, 6, 1);
	stream_context(&s, 5, 1, 6, 1);
	stream_compute(&s, 4, 100, 10, 10, 10, counted(PERFX_DTYPE_F32, 7, 1));
	stream_call(&s, 3, 100, 10, 20, 10, 0);
	stream_call(&s, 2, 100, 10, 30, 10, 0);
	stream_compute(&s, 5, 100, 50, 10, 10, counted(PERFX_DTYPE_F32, 5, 1));
	stream_call(&s, 1, 100, 0, 100, 60, 0);
	a = replay(&s);
	profile = aggregate__finish(a);
	cr_expect_eq(row_of(profile, 0, 1)->inclusive.flops, 12);
	cr_expect_eq(row_of(profile, 0, 1)->total_ns, 120);
	cr_expect_eq(row_of(profile, 0, 1)->computing_ns, 100);
	cr_expect_eq(row_of(profile, 0, 2)->inclusive.flops, 7);
	cr_expect_eq(row_of(profile, 0, 6)->inclusive.flops, 12);
	cr_expect_eq(profile->processes[0].compute.cost.flops, 12);
	aggregate__free(a);
}

/* A caller that has not returned has no time: what is below it is not its work, and does not hide
 * the call of the same function inside it. */
Test(compute, open_callers_take_no_part)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 6, 1);
	stream_context(&s, 3, 1, 1, 1);
	stream_context(&s, 4, 3, 6, 1);
	stream_compute(&s, 2, 100, 0, 10, 10, counted(PERFX_DTYPE_F32, 5, 1));
	stream_compute(&s, 4, 100, 10, 10, 10, counted(PERFX_DTYPE_F32, 7, 1));
	stream_call(&s, 3, 100, 10, 20, 10, 0);
	a = replay(&s);
	profile = aggregate__finish(a);
	cr_expect_eq(row_of(profile, 0, 1)->inclusive.flops, 7);
	cr_expect_eq(row_of(profile, 0, 1)->computing_ns, 20);
	cr_expect_eq(profile->processes[0].compute.cost.flops, 12);
	aggregate__free(a);
}

/* An unread operator lets the BLAS inside it count: that part of its time is accounted for. */
Test(compute, unread_time_is_what_nothing_inside_accounts_for)
{
	struct stream s = {0};
	const struct profile_compute *compute;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 6, 1); /* op */
	stream_context(&s, 2, 1, 2, 1); /* op → helper */
	stream_context(&s, 3, 2, 5, 1); /* op → helper → BLAS */
	stream_context(&s, 4, 1, 6, 1); /* op → op */
	stream_compute(&s, 3, 100, 0, 60, 60, counted(PERFX_DTYPE_F32, 9, 1));
	stream_call(&s, 2, 100, 0, 70, 10, 0);
	stream_compute(&s, 4, 100, 0, 10, 10, unread);
	stream_compute(&s, 1, 100, 0, 100, 20, unread);
	stream_compute(&s, 1, 100, 200, 5, 5, unread);
	a = replay(&s);
	compute = &aggregate__finish(a)->processes[0].compute;
	cr_expect_eq(compute->counted_ns, 60);
	/* of 105 the 60 of BLAS are counted; the inner 10 are not counted twice */
	cr_expect_eq(compute->unread_ns, 45);
	expect_cost(compute->cost, .flops = 9, .bytes = 1, .counted_count = 1, .unread_count = 3);
	aggregate__free(a);
}

/* A collective computes nothing; neither is its time that of computing. */
Test(compute, moved_bytes_are_apart)
{
	struct stream s = {0};
	const struct profile_compute *compute;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 6, 1);
	stream_compute(&s, 1, 100, 0, 100, 100, counted(PERFX_DTYPE_F32, 0, 4096));
	stream_compute(&s, 1, 100, 100, 50, 50, counted(PERFX_DTYPE_F32, 10, 8));
	a = replay(&s);
	compute = &aggregate__finish(a)->processes[0].compute;
	expect_cost(compute->cost, .flops = 10, .bytes = 8, .moved_bytes = 4096,
		    .counted_count = 2);
	cr_expect_eq(compute->counted_ns, 50);
	aggregate__free(a);
}

/* A caller's time is not that of work which goes on after what it calls. */
Test(compute, submitted)
{
	struct stream s = {0};
	struct perfx_span span = {.start_ns = STREAM_START,
				  .duration_ns = 10,
				  .self_ns = 10,
				  .context = 2,
				  .tid = 100,
				  .flags = PERFX_SPAN_SUBMITTED,
				  .cost_state = PERFX_COST_COUNTED,
				  .dtype = PERFX_DTYPE_F32,
				  .flops = 1000};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 6, 1);
	stream_span(&s, &span);
	stream_compute(&s, 2, 100, 10, 10, 10, counted(PERFX_DTYPE_F32, 1000, 0));
	stream_call(&s, 1, 100, 0, 100, 80, 0);
	a = replay(&s);
	profile = aggregate__finish(a);
	cr_expect_eq(row_of(profile, 0, 6)->cost.submitted_count, 1);
	cr_expect_eq(row_of(profile, 0, 6)->timed_count, 2);
	cr_expect_eq(row_of(profile, 0, 1)->inclusive.submitted_count, 1);
	cr_expect_eq(row_of(profile, 0, 1)->cost.submitted_count, 0);
	cr_expect_eq(profile->processes[0].compute.cost.flops, 2000);
	aggregate__free(a);
}

/* An exception's call has none, whatever its record says; an untimed one has, without time. */
Test(compute, unwound_and_untimed)
{
	struct stream s = {0};
	struct perfx_span span = {.context = 1,
				  .tid = 100,
				  .cost_state = PERFX_COST_COUNTED,
				  .dtype = PERFX_DTYPE_F32,
				  .flops = 10,
				  .bytes = 1};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 6, 1);
	span.start_ns = STREAM_START;
	span.flags = PERFX_SPAN_UNWOUND;
	stream_span(&s, &span);
	span.flags = PERFX_SPAN_UNTIMED;
	stream_span(&s, &span);
	a = replay(&s);
	profile = aggregate__finish(a);
	expect_cost(row_of(profile, 0, 6)->cost, .flops = 10, .bytes = 1, .counted_count = 1);
	cr_expect_eq(row_of(profile, 0, 6)->calls_count, 2);
	cr_expect_eq(profile->processes[0].compute.counted_ns, 0);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(a);
}

/* Overflow calls: sums, no type, their time shared out by number. */
Test(compute, overflow_calls)
{
	struct stream s = {0};
	const struct profile_compute *compute;
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 6, 1);
	stream_call(&s, 1, 100, 0, 5000, 1000, 0);
	stream_compute(&s, 2, 100, 0, 100, 100, counted(PERFX_DTYPE_F64, 1, 2));
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 2,
		     .calls_count = 10, .total_ns = 1000, .self_ns = 1000, .flops = 500,
		     .bytes = 50, .counted_count = 5, .unread_count = 2, .nested_count = 3);
	a = replay(&s);
	profile = aggregate__finish(a);
	expect_cost(row_of(profile, 0, 6)->cost, .flops = 501, .bytes = 52, .counted_count = 6,
		    .unread_count = 2, .nested_count = 3);
	expect_cost(row_of(profile, 0, 1)->inclusive, .flops = 501, .bytes = 52, .counted_count = 6,
		    .unread_count = 2, .nested_count = 3);
	cr_expect_eq(row_of(profile, 0, 6)->computing_ns, 800);
	cr_expect_eq(row_of(profile, 0, 6)->dtype, PERFX_DTYPE_F64);
	compute = &profile->processes[0].compute;
	cr_expect_eq(compute->counted_ns, 600);
	cr_expect_eq(compute->unread_ns, 200);
	cr_assert_eq(compute->dtypes_count, 2);
	cr_expect_eq(compute->dtypes[0].dtype, PERFX_DTYPE_UNKNOWN);
	cr_expect_eq(compute->dtypes[0].flops, 500);
	aggregate__free(a);
}

/* Without a calling context it is known what a function computes, not for whom. */
Test(compute, calls_without_context)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span, .start_ns = STREAM_START,
		     .duration_ns = 10, .self_ns = 10, .process = 1, .function = 6, .tid = 1,
		     .cost_state = PERFX_COST_COUNTED, .dtype = PERFX_DTYPE_F16, .flops = 8,
		     .bytes = 2);
	a = replay(&s);
	profile = aggregate__finish(a);
	expect_cost(row_of(profile, 0, 6)->cost, .flops = 8, .bytes = 2, .counted_count = 1);
	expect_cost(row_of(profile, 0, 6)->inclusive, .flops = 8, .bytes = 2, .counted_count = 1);
	cr_expect_eq(row_of(profile, 0, 6)->computing_ns, 10);
	cr_expect_eq(profile->processes[0].compute.counted_ns, 10);
	aggregate__free(a);
}

/* A damaged file hangs a node under another process's: its work stays in its own. */
Test(compute, processes_are_apart)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 1, 1);
	stream_context(&s, 2, 1, 6, 2);
	stream_call(&s, 1, 100, 0, 100, 100, 0);
	stream_compute(&s, 2, 200, 0, 10, 10, counted(PERFX_DTYPE_F32, 3, 1));
	a = replay(&s);
	profile = aggregate__finish(a);
	expect_cost(row_of(profile, 0, 1)->inclusive, 0);
	cr_expect_not(profile->processes[0].compute.measured);
	cr_expect_eq(profile->processes[1].compute.cost.flops, 3);
	aggregate__free(a);
}

/* Sums that would wrap stay below PROFILE_ABSENT. */
Test(compute, absurd_costs_are_capped)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *a;

	begin(&s);
	stream_context(&s, 1, 0, 6, 1);
	for (int i = 0; i < 3; i++)
		stream_compute(&s, 1, 100, 0, 10, 10, counted(PERFX_DTYPE_F32, ~0ULL, ~0ULL));
	a = replay(&s);
	profile = aggregate__finish(a);
	cr_expect_eq(row_of(profile, 0, 6)->inclusive.flops, PROFILE_ABSENT - 1);
	cr_expect_eq(profile->processes[0].compute.cost.bytes, PROFILE_ABSENT - 1);
	aggregate__free(a);
}

/* A live view finishes again and again. */
Test(compute, finishing_twice_changes_nothing)
{
	struct stream s = {0};
	struct aggregate *a;

	add_ordinary(&s);
	a = replay(&s);
	aggregate__finish(a);
	expect_cost(aggregate__finish(a)->processes[0].compute.cost, .flops = 2600, .bytes = 340,
		    .counted_count = 4, .nested_count = 4);
	aggregate__free(a);
}

static void add_cost(struct stream *s, uint32_t cost, uint8_t state, uint64_t flops)
{
	stream_plain(s, PERFX_KIND_OBJECT_COST, struct perfx_object_cost, .object_cost = cost,
		     .function = 2, .state = state, .flops = flops, .bytes = flops / 4,
		     .dtype = PERFX_DTYPE_F32);
}

static struct stream_cost by_object(uint64_t cost)
{
	return (struct stream_cost){.state = PERFX_COST_BY_OBJECT, .flops = cost};
}

/* Calls distinguished by objects: what these do comes before, after, or never. */
Test(compute, objects)
{
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	const struct profile_compute *compute;

	begin(&s);
	stream_context(&s, 1, 0, 2, 1);
	stream_context(&s, 2, 0, 3, 1);
	add_cost(&s, 1, PERFX_COST_COUNTED, 1000);
	stream_compute(&s, 1, 100, 0, 10 * MS, 10 * MS, by_object(1));
	stream_compute(&s, 1, 100, 0, 20 * MS, 20 * MS, by_object(2));
	stream_compute(&s, 2, 101, 0, 20 * MS, 20 * MS, by_object(2));
	stream_compute(&s, 1, 100, 0, 5 * MS, 4 * MS, by_object(3));
	stream_compute(&s, 1, 100, 0, 7 * MS, 7 * MS, by_object(4));
	stream_compute(&s, 1, 100, 0, 9 * MS, 9 * MS, by_object(UINT64_MAX));
	stream_compute(&s, 1, 100, 0, 3 * MS, 2 * MS,
		       (struct stream_cost){.state = PERFX_COST_OPAQUE});
	add_cost(&s, 2, PERFX_COST_COUNTED, 400);
	add_cost(&s, 3, PERFX_COST_OPAQUE, 0);
	add_cost(&s, 4, PERFX_COST_NONE, 0);
	/* those without a record */
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .counted_count = 2, .flops = 2000, .bytes = 500);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .calls_count = 2, .total_ns = 8 * MS, .self_ns = 6 * MS, .opaque_count = 2);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert(profile);
	expect_cost(row_of(profile, 0, 2)->cost, .flops = 3400, .bytes = 850, .counted_count = 4,
		    .unread_count = 1, .opaque_count = 4);
	expect_cost(row_of(profile, 0, 3)->cost, .flops = 400, .bytes = 100, .counted_count = 1);
	compute = &profile->processes[0].compute;
	cr_expect_eq(compute->counted_ns, 50 * MS);
	cr_expect_eq(compute->unread_ns, 9 * MS);
	cr_expect_eq(compute->opaque_ns, (4 + 2 + 6) * MS, "%lu", compute->opaque_ns);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(aggregate);
}

/* Once waiting, always counted once: a profile can be made again. */
Test(compute, objects_twice)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	stream_context(&s, 1, 0, 2, 1);
	stream_compute(&s, 1, 100, 0, MS, MS, by_object(1));
	add_cost(&s, 1, PERFX_COST_COUNTED, 1000);
	stream_plain(&s, PERFX_KIND_OBJECT_COST, struct perfx_object_cost, .object_cost = 0,
		     .state = 1);
	stream_plain(&s, PERFX_KIND_OBJECT_COST, struct perfx_object_cost, .object_cost = 1,
		     .state = PERFX_COST_BY_OBJECT);
	aggregate = replay(&s);
	for (int i = 0; i < 2; i++) {
		const struct profile *profile = aggregate__finish(aggregate);

		cr_assert(profile);
		expect_cost(row_of(profile, 0, 2)->cost, .flops = 1000, .bytes = 250,
			    .counted_count = 1);
		cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);
	}
	aggregate__free(aggregate);
}

/* Perf events of calls: sums by function and process, and what is compared with an estimate. */

enum { STEP = 1, GEMM, OTHER };

/* Contexts: step; gemm in step and by itself; other. */
static void begin_counters(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	stream_function(s, STEP, "step", "/bin/a", PERFX_SOURCE_PERFX);
	stream_function(s, GEMM, "gemm", "/bin/a", PERFX_SOURCE_BLAS);
	stream_function(s, OTHER, "other", "/bin/a", PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, STEP, 1);
	stream_context(s, 2, 1, GEMM, 1);
	stream_context(s, 3, 0, GEMM, 1);
	stream_context(s, 4, 0, OTHER, 1);
	stream_perf_counter(s, 0, "cycles", "cycles", PERFX_PERF_COUNTER_PLAIN);
	stream_perf_counter(s, 2, "flops", "operations", PERFX_PERF_COUNTER_FLOPS);
}

static void call_counters(struct stream *s, uint32_t context, uint64_t calls, uint64_t missed,
			  uint64_t flops, uint64_t estimated)
{
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters, .context = context,
		     .calls_count = calls, .missed_count = missed, .values = {10 * calls, 0, flops},
		     .flops = estimated, .counted_flops = estimated ? flops : 0);
}

static const struct profile_row *row_of_function(const struct profile *profile, uint32_t function)
{
	const struct profile_process *p = &profile->processes[0];

	for (size_t i = 0; i < p->rows_count; i++)
		if (p->rows[i].function == function)
			return &p->rows[i];
	cr_assert_fail("no row of function %u", function);
	abort();
}

static void expect_flops(struct flops_check flops, uint64_t estimated, uint64_t counted)
{
	cr_expect(flops.known);
	cr_expect_eq(flops.estimated, estimated);
	cr_expect_eq(flops.counted, counted);
}

Test(perf_counters, sums)
{
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 1000, 100};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *p;

	begin_counters(&s);
	stream_compute(&s, 2, 100, 0, 1 * MS, 1 * MS, cost);
	stream_call(&s, 1, 100, 0, 2 * MS, 1 * MS, 0);
	/* this one's calls found no room in the ring: their row comes with the sums */
	call_counters(&s, 3, 2, 1, 2100, 2000);
	call_counters(&s, 2, 1, 0, 1010, 1000);
	call_counters(&s, 1, 1, 0, 1500, 0);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 3,
		     .calls_count = 3, .total_ns = 3 * MS, .self_ns = 3 * MS, .flops = 3000,
		     .counted_count = 3);
	stream_plain(&s, PERFX_KIND_PROCESS_COUNTERS, struct perfx_process_counters, .process = 1,
		     .threads_count = 2, .values = {500, 0, 5000}, .enabled_ns = 100,
		     .running_ns = 25);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	p = aggregate__finish(a);
	cr_assert_not_null(p);
	cr_expect_eq(p->losses[PERFX_LOSS_UNDECODED], 0);
	cr_expect_eq(row_of_function(p, GEMM)->calls_count, 4);
	cr_expect_eq(row_of_function(p, GEMM)->perf->calls_count, 3);
	cr_expect_eq(row_of_function(p, GEMM)->perf->missed_count, 1);
	cr_expect_eq(row_of_function(p, GEMM)->perf->values[0], 30);
	cr_expect_null(p->perf_counters[1].name);
	cr_expect_str_eq(p->perf_counters[2].name, "flops");
	expect_flops(flops_check_of_row(p, row_of_function(p, GEMM)), 3000, 3110);
	/* no cost of its own, but all its calls were counted */
	expect_flops(flops_check_of_row(p, row_of_function(p, STEP)), 1000, 1500);
	expect_flops(flops_check_of_process(p, &p->processes[0]), 4000, 5000);
	cr_expect_float_eq(perf_share(&p->processes[0].perf), 0.25, 1e-9);
	aggregate__free(a);
}

/* Not of the same work: nothing is compared. */
Test(perf_counters, missed)
{
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 1000, 100};
	struct stream s = {0};
	struct aggregate *a;
	const struct profile *p;

	begin_counters(&s);
	stream_compute(&s, 2, 100, 0, 1 * MS, 1 * MS, cost);
	for (int i = 0; i < 2; i++)
		stream_call(&s, 1, 100, 0, 2 * MS, 1 * MS, 0);
	stream_call(&s, 4, 100, 0, 1 * MS, 1 * MS, 0);
	call_counters(&s, 1, 1, 1, 1500, 0);
	call_counters(&s, 4, 1, 0, 77, 0);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	p = aggregate__finish(a);
	cr_expect_not(flops_check_of_row(p, row_of_function(p, STEP)).known);
	cr_expect_not(flops_check_of_row(p, row_of_function(p, OTHER)).known);
	cr_expect_not(flops_check_of_row(p, row_of_function(p, GEMM)).known);
	cr_expect_not(flops_check_of_process(p, &p->processes[0]).known);
	cr_expect_eq(perf_share(&p->processes[0].perf), 1);
	aggregate__free(a);
}

Test(perf_counters, records_that_belong_nowhere)
{
	struct stream s = {0};
	struct aggregate *a;

	begin_counters(&s);
	call_counters(&s, 0, 1, 0, 1, 0);
	call_counters(&s, 63, 1, 0, 1, 0);
	stream_plain(&s, PERFX_KIND_PROCESS_COUNTERS, struct perfx_process_counters, .process = 0);
	stream_end(&s, 1 * S, 0);
	a = replay(&s);
	cr_expect_eq(aggregate__finish(a)->losses[PERFX_LOSS_UNDECODED], 3);
	aggregate__free(a);
}
