// SPDX-License-Identifier: BSD-2-Clause
#include "export/timeline.h"

#include "base/text.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* What comes out, as text: "f1@0 f2@0 .5 .9 " of lane 0, "1:f3@2 " of lane 1, "a2f4@3 a2.7 " of the
 * process's second track. */
static int on_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		    const struct perfx_span *span)
{
	if (thread->async)
		text_printf(ctx, "a%u", thread->async);
	text_printf(ctx, lane ? "%u:f%u@%llu " : "%.0uf%u@%llu ", lane, span->function,
		    (unsigned long long)span->start_ns);
	return 0;
}

static int on_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	if (thread->async)
		text_printf(ctx, "a%u", thread->async);
	text_printf(ctx, lane ? "%u:.%llu " : "%.0u.%llu ", lane, (unsigned long long)end_ns);
	return 0;
}

struct call {
	uint32_t function, tid;
	uint16_t depth;
	uint64_t start_ns, duration_ns;
};

#define ASYNC UINT16_MAX /* as depth: a range that any thread may end */

static void check(const struct call *calls, size_t count, const char *expected)
{
	struct text text = {0};
	struct nesting *nesting = nesting__new(&(struct nesting_output){on_begin, on_end, &text});

	for (size_t i = 0; i < count; i++) {
		struct perfx_span span = {.function = calls[i].function,
					  .tid = calls[i].tid,
					  .depth = calls[i].depth,
					  .start_ns = calls[i].start_ns,
					  .duration_ns = calls[i].duration_ns,
					  .flags = calls[i].depth == ASYNC ? PERFX_SPAN_ASYNC : 0};

		cr_assert_eq(nesting__add(nesting, &span), 0);
	}
	cr_assert_eq(nesting__flush(nesting), 0);
	cr_expect_str_eq(text_peek(&text), expected);
	nesting__free(nesting);
	text_clear(&text);
}

#define CHECK(expected, ...)                      \
	check((const struct call[]){__VA_ARGS__}, \
	      sizeof((const struct call[]){__VA_ARGS__}) / sizeof(struct call), expected)

Test(nesting, callers_come_first)
{
	CHECK("f1@0 f2@1 .3 f2@4 f3@5 .6 .8 .9 ", {2, 1, 1, 1, 2}, {3, 1, 2, 5, 1}, {2, 1, 1, 4, 4},
	      {1, 1, 0, 0, 9});
}

Test(nesting, equal_times)
{
	/* the same beginning, the same end, both, and nothing in between */
	CHECK("f1@0 f2@0 .5 .9 ", {2, 1, 1, 0, 5}, {1, 1, 0, 0, 9});
	CHECK("f1@0 f2@4 .9 .9 ", {2, 1, 1, 4, 5}, {1, 1, 0, 0, 9});
	CHECK("f1@0 f2@0 f3@0 .9 .9 .9 ", {3, 1, 2, 0, 9}, {2, 1, 1, 0, 9}, {1, 1, 0, 0, 9});
	CHECK("f1@0 f2@0 .5 f2@5 .9 .9 ", {2, 1, 1, 0, 5}, {2, 1, 1, 5, 4}, {1, 1, 0, 0, 9});
	CHECK("f1@3 .3 f2@3 .3 ", {2, 1, 1, 3, 0}, {1, 1, 0, 3, 0});
}

Test(nesting, threads_are_apart)
{
	CHECK("f3@2 .3 f1@0 f2@1 .2 .9 ", {2, 1, 1, 1, 1}, {3, 2, 0, 2, 1}, {1, 1, 0, 0, 9});
}

Test(nesting, what_overlaps_has_a_lane)
{
	CHECK("f1@0 1:f2@3 .5 1:.8 ", {1, 1, 1, 0, 5}, {2, 1, 1, 3, 5});
	/* five at a time: the last one is apart */
	CHECK("f1@0 1:f2@1 2:f3@2 3:f4@3 a1f5@4 a1.14 .10 1:.11 2:.12 3:.13 ", {1, 1, 1, 0, 10},
	      {2, 1, 1, 1, 10}, {3, 1, 1, 2, 10}, {4, 1, 1, 3, 10}, {5, 1, 1, 4, 10});
}

/* A range that began in a call and went on after it, which has gone out by then. */
Test(nesting, what_outlives_its_caller_has_a_lane)
{
	CHECK("f1@0 .5 1:f2@3 1:.8 f3@9 f4@9 .10 .12 ", {1, 1, 0, 0, 5}, {2, 1, 0, 3, 5},
	      {4, 1, 1, 9, 1}, {3, 1, 0, 9, 3});
	/* a callee of it, too, and what is around both is again in the first */
	CHECK("f1@1 .5 1:f2@3 1:f3@4 1:.6 1:.8 f4@0 .20 ", {1, 1, 0, 1, 4}, {3, 1, 1, 4, 2},
	      {2, 1, 0, 3, 5}, {4, 1, 0, 0, 20});
	/* one after the other, and around them; what begins with one that went out is beside it */
	CHECK("f1@1 .5 f1@5 .9 f2@0 .9 1:f3@8 1:.11 f4@9 .10 1:f5@0 1:.12 ", {1, 1, 0, 1, 4},
	      {1, 1, 0, 5, 4}, {2, 1, 0, 0, 9}, {3, 1, 0, 8, 3}, {4, 1, 0, 9, 1}, {5, 1, 0, 0, 12});
}

/* They nest with nothing: one after the other, or on a track beside. */
Test(nesting, what_is_on_no_stack_has_tracks)
{
	CHECK("a1f2@1 a1.5 a2f3@4 a2.6 a1f4@5 a1.8 f1@0 .9 ", {2, 1, ASYNC, 1, 4},
	      {3, 7, ASYNC, 4, 2}, {4, 1, ASYNC, 5, 3}, {1, 1, 0, 0, 9});
	/* the latest that is free */
	CHECK("a1f1@0 a1.5 a2f1@3 a2.9 a2f1@9 a2.10 ", {1, 1, ASYNC, 0, 5}, {1, 1, ASYNC, 3, 6},
	      {1, 1, ASYNC, 9, 1});
}

Test(nesting, more_apart_than_tracks)
{
	struct text text = {0};
	struct nesting *nesting = nesting__new(&(struct nesting_output){on_begin, on_end, &text});

	for (uint64_t i = 0; i < NESTING_ASYNC + 1; i++) {
		struct perfx_span span = {
			.function = 1, .tid = 1, .duration_ns = 10 + i, .flags = PERFX_SPAN_ASYNC};

		text_clear(&text);
		cr_assert_eq(nesting__add(nesting, &span), 0);
	}
	cr_expect_str_eq(text_peek(&text), "a1f1@10 a1.74 ");
	nesting__free(nesting);
	text_clear(&text);
}

Test(nesting, ends_beyond_all_times)
{
	CHECK("f1@5 .18446744073709551615 ", {1, 1, 0, 5, UINT64_MAX});
}

/* The outermost call never ends: memory is bounded, and nothing is lost or out of order. */
Test(nesting, no_more_than_so_many_are_held)
{
	struct text text = {0};
	struct nesting *nesting = nesting__new(&(struct nesting_output){on_begin, on_end, &text});
	size_t begins = 0;

	for (uint64_t i = 0; i < 3 * NESTING_HELD + 1; i++) {
		struct perfx_span span = {
			.function = 1, .tid = 1, .depth = 1, .start_ns = 2 * i, .duration_ns = 1};

		cr_assert_eq(nesting__add(nesting, &span), 0);
		cr_assert_eq(text.length > 0, i + 1 >= NESTING_HELD);
	}
	cr_assert_eq(nesting__flush(nesting), 0);
	for (const char *p = text_peek(&text); (p = strchr(p, 'f')); p++)
		begins++;
	cr_expect_eq(begins, 3 * NESTING_HELD + 1);
	nesting__free(nesting);
	text_clear(&text);
}

/* All that went out on a lane or track. */
struct checker {
	struct piece {
		unsigned lane;
		uint64_t start_ns, end_ns;
	} pieces[4000];
	size_t count, open[NESTING_LANES];
	uint64_t ends[NESTING_LANES][256];
};

static int check_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		       const struct perfx_span *span)
{
	struct checker *c = ctx;
	uint64_t end_ns = span->start_ns + span->duration_ns;

	c->pieces[c->count++] = (struct piece){thread->async ? NESTING_LANES + thread->async : lane,
					       span->start_ns, end_ns};
	if (thread->async)
		return 0;
	if (c->open[lane])
		cr_assert_leq(end_ns, c->ends[lane][c->open[lane] - 1]);
	c->ends[lane][c->open[lane]++] = end_ns;
	return 0;
}

static int check_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	struct checker *c = ctx;

	if (thread->async)
		return 0;
	cr_assert_gt(c->open[lane], 0);
	cr_assert_eq(end_ns, c->ends[lane][--c->open[lane]]);
	return 0;
}

static bool crosses(const struct piece *a, const struct piece *b)
{
	return a->lane == b->lane && a->start_ns < b->start_ns && b->start_ns < a->end_ns &&
	       a->end_ns < b->end_ns;
}

/* Whatever the records say, each lane and track nests, now and with what it had before. */
Test(nesting, garbage)
{
	static struct checker checker;
	struct nesting *nesting =
		nesting__new(&(struct nesting_output){check_begin, check_end, &checker});

	srand(3);
	for (int i = 0; i < 2000; i++) {
		struct perfx_span span = {.function = 1,
					  .tid = 1,
					  .depth = (uint16_t)(rand() % 20),
					  .flags = rand() % 20 ? 0 : PERFX_SPAN_ASYNC,
					  .start_ns = (uint64_t)(i + rand() % 500),
					  .duration_ns = (uint64_t)rand() % 100};

		cr_assert_eq(nesting__add(nesting, &span), 0);
	}
	cr_assert_eq(nesting__flush(nesting), 0);
	cr_assert_eq(checker.count, 2000);
	for (unsigned i = 0; i < NESTING_LANES; i++)
		cr_expect_eq(checker.open[i], 0);
	for (size_t i = 0; i < checker.count; i++)
		for (size_t j = 0; j < checker.count; j++)
			cr_assert(!crosses(&checker.pieces[i], &checker.pieces[j]));
	nesting__free(nesting);
}
