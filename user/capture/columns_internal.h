/* SPDX-License-Identifier: BSD-2-Clause */
/* What column_encode.c and column_decode.c must agree on. */
#ifndef PERFX_CAPTURE_COLUMNS_INTERNAL_H
#define PERFX_CAPTURE_COLUMNS_INTERNAL_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In the ORDER column; from ORDER_LIKE on it is the template's number. */
#define ORDER_WHOLE    0 /* the next of WHOLE */
#define ORDER_TEMPLATE 1 /* the next of WHOLE, and those to come may be like it */
#define ORDER_LIKE     2

#define TEMPLATES_MAX 8192

#define VARINT_MAX 10 /* bytes of 64 bits by seven */

enum shape { SHAPE_NONE, SHAPE_SPAN, SHAPE_COST, SHAPE_MEMORY };

/* The records that are encoded, by their headers. All have three words of their own after it. */
static inline enum shape shape_of(const struct perfx_record *hdr)
{
	if (hdr->size != hdr->fixed)
		return SHAPE_NONE;
	if (hdr->kind == PERFX_KIND_SPAN && hdr->size == PERFX_SPAN_PLAIN_BYTES)
		return SHAPE_SPAN;
	if (hdr->kind == PERFX_KIND_SPAN && hdr->size == sizeof(struct perfx_span))
		return SHAPE_COST;
	if (hdr->kind == PERFX_KIND_ALLOCATION && hdr->size == sizeof(struct perfx_allocation))
		return SHAPE_MEMORY;
	if (hdr->kind == PERFX_KIND_FREE && hdr->size == sizeof(struct perfx_free))
		return SHAPE_MEMORY;
	return SHAPE_NONE;
}

/* Words of a record, 8 bytes each: the header; three of its own; up to three that it shares with
 * its template; flops and bytes of a span with a known cost. */
#define WORD_OWN    1
#define WORD_SHARED 4
#define WORD_COST   7
#define WORDS_MAX   9

_Static_assert(offsetof(struct perfx_span, start_ns) == 8 &&
		       offsetof(struct perfx_span, duration_ns) == 16 &&
		       offsetof(struct perfx_span, self_ns) == 24 &&
		       offsetof(struct perfx_span, flops) == 56 &&
		       offsetof(struct perfx_span, bytes) == 64,
	       "docs/capture.md: words of a span");
_Static_assert(offsetof(struct perfx_allocation, time_ns) == 8 &&
		       offsetof(struct perfx_allocation, address) == 16 &&
		       offsetof(struct perfx_allocation, size_bytes) == 24 &&
		       offsetof(struct perfx_free, time_ns) == 8 &&
		       offsetof(struct perfx_free, address) == 16 &&
		       offsetof(struct perfx_free, size_bytes) == 24,
	       "docs/capture.md: words of a memory record");

/* A template, and what the next record of it is compared with. */
struct template
{
	uint64_t words[WORDS_MAX];
	uint32_t size;
	enum shape shape;
};

/* Small numbers of either sign → small numbers: 0 -1 1 -2 2 … */
static inline uint64_t zigzag(uint64_t difference)
{
	return (difference << 1) ^ -(difference >> 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
	return (value >> 1) ^ -(value & 1);
}

#endif
