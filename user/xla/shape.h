/* SPDX-License-Identifier: BSD-2-Clause */
/* xla::Shape of an array: its element type and dimensions (xla/shape.h, xla/xla_data.proto). */
#ifndef PERFX_XLA_SHAPE_H
#define PERFX_XLA_SHAPE_H

#include "perfx_record.h"
#include "xla/memory.h"

#define XLA_DIMS_MAX	16
#define XLA_INLINE_DIMS 6 /* in the object itself */
/* Words of a shape up to the end of its dimensions: type, tag of the vector, dimensions or pointer
 * and capacity. */
#define XLA_SHAPE_WORDS (2 + XLA_INLINE_DIMS)

struct xla_shape {
	uint32_t type; /* xla::PrimitiveType */
	uint32_t rank;
	uint64_t dims[XLA_DIMS_MAX];
	uint64_t numel;
};

/* The shape whose first word is words->at[at]; false: there is none. */
bool xla_shape_read(const struct xla_memory *memory, const struct xla_words *words, size_t at,
		    struct xla_shape *shape);

/* Of an element; 0: unknown, or not a number of bytes. */
uint32_t xla_type_bytes(uint32_t type);
enum perfx_dtype xla_type_dtype(uint32_t type);
/* Operations of a multiply-add: 2, of complex numbers 8. */
uint32_t xla_type_flops(uint32_t type);
/* All elements; false: too many. */
bool xla_shape_bytes(const struct xla_shape *shape, uint64_t *bytes);

#endif
