// SPDX-License-Identifier: BSD-2-Clause
#include "export/nesting.h"

#include "base/text.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* What comes out, as text: "f1@0 f2@0 .5 .9 " of lane 0, "1:f3@2 " of lane 1. */
static int on_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		    const struct perfx_span *span)
{
	(void)thread;
	text_printf(ctx, lane ? "%u:f%u@%llu " : "%.0uf%u@%llu ", lane, span->function,
		    (unsigned long long)span->start_ns);
	return 0;
}

static int on_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	(void)thread;
	text_printf(ctx, lane ? "%u:.%llu " : "%.0u.%llu ", lane, (unsigned long long)end_ns);
	return 0;
}

struct call {
	uint32_t function, tid;
	uint16_t depth;
	uint64_t start_ns, duration_ns;
};

static void check(const struct call *calls, size_t count, const char *expected)
{
	struct text text = {0};
	struct nesting *nesting = nesting__new(&(struct nesting_output){on_begin, on_end, &text});

	for (size_t i = 0; i < count; i++) {
		struct perfx_span span = {.function = calls[i].function,
					  .tid = calls[i].tid,
					  .depth = calls[i].depth,
					  .start_ns = calls[i].start_ns,
					  .duration_ns = calls[i].duration_ns};

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
	/* five at a time: the last one ends with what it is in */
	CHECK("f1@0 1:f2@1 2:f3@2 3:f4@3 3:f5@4 .10 1:.11 2:.12 3:.13 3:.13 ", {1, 1, 1, 0, 10},
	      {2, 1, 1, 1, 10}, {3, 1, 1, 2, 10}, {4, 1, 1, 3, 10}, {5, 1, 1, 4, 10});
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

struct checker {
	uint64_t open[NESTING_LANES][256];
	size_t depth[NESTING_LANES];
};

static int check_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		       const struct perfx_span *span)
{
	struct checker *c = ctx;
	uint64_t end_ns = span->start_ns + span->duration_ns;

	(void)thread;
	if (c->depth[lane])
		cr_assert_leq(end_ns, c->open[lane][c->depth[lane] - 1]);
	c->open[lane][c->depth[lane]++] = end_ns;
	return 0;
}

static int check_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	struct checker *c = ctx;

	(void)thread;
	cr_assert_gt(c->depth[lane], 0);
	cr_assert_eq(end_ns, c->open[lane][--c->depth[lane]]);
	return 0;
}

/* Whatever the records say, each lane nests. */
Test(nesting, garbage)
{
	struct checker checker = {0};
	struct nesting *nesting =
		nesting__new(&(struct nesting_output){check_begin, check_end, &checker});

	srand(3);
	for (int i = 0; i < 20000; i++) {
		struct perfx_span span = {.function = 1,
					  .tid = 1,
					  .depth = (uint16_t)(rand() % 200),
					  .start_ns = (uint64_t)rand() % 500,
					  .duration_ns = (uint64_t)rand() % 100};

		cr_assert_eq(nesting__add(nesting, &span), 0);
	}
	cr_assert_eq(nesting__flush(nesting), 0);
	for (unsigned i = 0; i < NESTING_LANES; i++)
		cr_expect_eq(checker.depth[i], 0);
	nesting__free(nesting);
}
