// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"
#include "capture/block.h"
#include "golden_cases.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct column_encoder *encoder;
static struct column_decoder *decoder;
static struct stream s;
static unsigned char back[COLUMNS_RECORDS_MAX];

static void set_up(void)
{
	encoder = column_encoder__new();
	decoder = column_decoder__new();
	srand(3);
}

static void tear_down(void)
{
	column_encoder__free(encoder);
	column_decoder__free(decoder);
	stream_clear(&s);
}

TestSuite(encode, .init = set_up, .fini = tear_down);

static uint64_t any(void)
{
	uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	return bits >> rand() % 64;
}

/* Whole records from `at` on, as many as the encoder takes at a time. */
static size_t piece_from(size_t at)
{
	size_t size = 0;

	while (at + size < s.bytes.length) {
		struct perfx_record hdr;

		memcpy(&hdr, s.bytes.data + at + size, sizeof(hdr));
		if (size + hdr.size > COLUMNS_RECORDS_MAX)
			break;
		size += hdr.size;
	}
	return size;
}

/* The columns of the last piece. */
static const struct columns *there_and_back(void)
{
	const struct columns *columns = NULL;
	size_t size;

	for (size_t at = 0; at < s.bytes.length; at += size) {
		const char *records = s.bytes.data + at;
		size_t sum = 0;

		size = piece_from(at);
		columns = column_encoder__encode(encoder, records, size);
		for (int i = 0; i < COLUMNS; i++)
			sum += columns->sizes[i];
		cr_assert_leq(sum, COLUMNS_GROWTH * size);
		memset(back, 0xa5, sizeof(back));
		cr_assert_eq(column_decoder__decode(decoder, columns, back, size), 0);
		cr_assert_arr_eq(back, records, size);
	}
	return columns;
}

static void add_span(uint32_t context, uint64_t start, uint64_t duration, uint64_t self)
{
	struct perfx_span span = {.hdr = {PERFX_SPAN_PLAIN_BYTES, PERFX_KIND_SPAN,
					  PERFX_SPAN_PLAIN_BYTES},
				  .start_ns = start,
				  .duration_ns = duration,
				  .self_ns = self,
				  .process = 1,
				  .context = context,
				  .function = context,
				  .tid = 4242};

	stream_put(&s, &span.hdr);
}

Test(encode, a_loop_costs_its_times)
{
	const struct columns *columns;

	for (uint64_t i = 0; i < 1000; i++)
		add_span(1, STREAM_START + 1000 * i, 100, 100);
	columns = there_and_back();
	cr_expect_eq(columns->sizes[COLUMN_ORDER], 1000);
	cr_expect_eq(columns->sizes[COLUMN_WHOLE], PERFX_SPAN_PLAIN_BYTES);
	cr_expect_eq(columns->sizes[COLUMN_SPAN_DURATION], 999);
	cr_expect_eq(columns->sizes[COLUMN_SPAN_CALLED], 999);
	/* 2000, as a signed varint, and all of the first one's time */
	cr_expect_leq(columns->sizes[COLUMN_SPAN_END], 2 * 998 + 10);
}

Test(encode, all_that_is_recorded)
{
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		if (!strcmp(golden_cases[i].name, "truncated"))
			continue; /* ends within a record */
		golden_cases[i].build(&s);
		there_and_back();
		stream_clear(&s);
	}
}

/* Numbers that no clock and no heap gives: the inverse is exact all the same. */
Test(encode, any_numbers)
{
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 2000; i++) {
			struct stream_place place = {(uint32_t)any() % 3, 7, 1, 1, 1,
						     PERFX_DOMAIN_HOST};

			if (rand() % 4 == 0)
				add_span((uint32_t)rand() % 5, any(), any(), any());
			else if (rand() % 3 == 0)
				stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span,
					     .start_ns = any(), .duration_ns = any(),
					     .self_ns = any(), .flops = any(), .bytes = any());
			else if (rand() % 2)
				stream_allocation(&s, &place, any(), any(), any(), 0);
			else
				stream_free(&s, &place, any(), any(), any(), 0);
		}
		there_and_back();
		stream_clear(&s);
	}
}

/* More contexts than a block may have templates: the rest is kept whole. */
Test(encode, more_templates_than_there_may_be)
{
	for (uint64_t i = 0; i < 16000; i++)
		add_span((uint32_t)(i % 9000) + 1, STREAM_START + i, 10, 10);
	there_and_back();
	cr_expect_gt(
		column_encoder__encode(encoder, s.bytes.data, s.bytes.length)->sizes[COLUMN_WHOLE],
		8192u * PERFX_SPAN_PLAIN_BYTES);
}

/* Kinds and forms that are not encoded, as a later version has them. */
Test(encode, unknown_kinds_are_kept_whole)
{
	struct {
		struct perfx_span span;
		uint64_t more;
	} later = {.span = {.hdr = {80, PERFX_KIND_SPAN, 80}}, .more = 9};
	struct perfx_record strange = {.size = 8, .kind = 4711, .fixed = 8};

	for (int i = 0; i < 3; i++) {
		stream_put(&s, &later.span.hdr);
		stream_put(&s, &strange);
	}
	cr_expect_eq(there_and_back()->sizes[COLUMN_WHOLE], s.bytes.length);
}

/* Each is damaged in one way: refused, and nothing is written beyond the room. */
Test(encode, damaged_columns_are_refused)
{
	unsigned char template[PERFX_SPAN_PLAIN_BYTES] = {PERFX_SPAN_PLAIN_BYTES, 0, 0, 0, 1, 0,
							  PERFX_SPAN_PLAIN_BYTES};
	unsigned char endless[11] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", one[] = {1};
	unsigned char order[] = {1, 2}, beyond[] = {1, 3}, short_order[] = {1};
	unsigned char short_size[8] = {4, 0, 0, 0, 1, 0, 8}, odd_size[8] = {12, 0, 0, 0, 1, 0, 8};
	unsigned char nothing[1];
	const struct columns good = {.bytes = {order, template, one, one, one, nothing, nothing,
					       nothing, nothing, nothing},
				     .sizes = {2, sizeof(template), 1, 1, 1}};
	struct columns bad = good;

	cr_expect_eq(column_decoder__decode(decoder, &good, back, 112), 0);
	cr_expect_eq(column_decoder__decode(decoder, &good, back, 104), -EBADMSG,
		     "no room for the last");
	cr_expect_eq(column_decoder__decode(decoder, &good, back, 120), -EBADMSG, "room is left");
	cr_expect_eq(column_decoder__decode(decoder, &good, back, 56), -EBADMSG,
		     "columns are left");
	bad.bytes[COLUMN_ORDER] = beyond;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 112), -EBADMSG,
		     "no such template");
	bad = good;
	bad.sizes[COLUMN_SPAN_CALLED] = 0;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 112), -EBADMSG, "an empty column");
	bad = good;
	bad.bytes[COLUMN_SPAN_END] = endless;
	for (size_t size = 9; size <= sizeof(endless); size++) {
		bad.sizes[COLUMN_SPAN_END] = size;
		cr_expect_eq(column_decoder__decode(decoder, &bad, back, 112), -EBADMSG,
			     "a varint");
	}
	bad = good;
	bad.sizes[COLUMN_WHOLE] = 55;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 112), -EBADMSG, "a cut record");
	bad = (struct columns){.bytes = {short_order, short_size}, .sizes = {1, 8}};
	for (int i = 2; i < COLUMNS; i++)
		bad.bytes[i] = nothing;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 8), -EBADMSG,
		     "a size below its header's");
	bad.bytes[COLUMN_WHOLE] = odd_size;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 16), -EBADMSG, "an odd size");
	odd_size[0] = 8;
	odd_size[4] = PERFX_KIND_LOSS;
	cr_expect_eq(column_decoder__decode(decoder, &bad, back, 8), -EBADMSG,
		     "none of the encoded kinds");
}
