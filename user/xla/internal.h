/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by thunk.c, hlo.c and objects.c. */
#ifndef PERFX_XLA_INTERNAL_H
#define PERFX_XLA_INTERNAL_H

#include "perfx_record.h"
#include "xla/thunk.h"

/* Some words of an object; those that could not be read are absent. */
#define XLA_WORDS_MAX 352

struct xla_words {
	uint64_t address;
	size_t count;
	uint64_t at[XLA_WORDS_MAX];
};

/* As many of `count` words from an address (of which 1 word at least) as can be read. */
bool xla_read_words(const struct xla_memory *memory, uint64_t address, size_t count,
		    struct xla_words *words);

/* The mangled name of an object's class, without the leading N of a nested one
 * ("3xla3cpu8DotThunkE"); false: it is no object of a class with virtual functions. */
#define XLA_CLASS_MAX 96
bool xla_class_of(const struct xla_memory *memory, uint64_t object, char name[XLA_CLASS_MAX]);

/* Is there a std::string of this text? */
bool xla_string_is(const struct xla_memory *memory, uint64_t string, const char *text);

/* xla::Shape of an array: its element type and dimensions (xla/shape.h, xla/xla_data.proto). */
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

/* Bytes of an element; 0: unknown, or not a whole number of bytes. */
uint32_t xla_type_bytes(uint32_t type);
enum perfx_dtype xla_type_dtype(uint32_t type);
/* Operations of a multiply-add: 2, of complex numbers 8. */
uint32_t xla_type_flops(uint32_t type);
/* All elements; false: too many. */
bool xla_shape_bytes(const struct xla_shape *shape, uint64_t *bytes);

/* Adds a product of this many multiply-adds. False: it overflows. */
bool xla_add_product(struct xla_cost *cost, const struct xla_shape *left,
		     const struct xla_shape *right, const struct xla_shape *out,
		     uint64_t multiply_adds);

#define XLA_SPATIAL_MAX 3

/* The window in one spatial dimension. */
struct xla_window {
	uint64_t input, kernel, output; /* sizes */
	uint64_t stride, base_dilation, dilation;
	int64_t before, after; /* padding */
};

struct xla_convolution {
	const struct xla_shape *in, *kernel, *out;
	uint32_t rank; /* spatial dimensions */
	uint64_t groups;
	uint64_t batch, channels;	   /* of the input */
	uint64_t kernel_channels, filters; /* of the kernel: channels of one group, of the result */
	uint64_t out_batch, out_channels;
	struct xla_window windows[XLA_SPATIAL_MAX];
};

/* Says `rank`; false: the shapes have none in common. */
bool xla_convolution_rank(struct xla_convolution *convolution);

/* Adds its products. False: its parts do not fit each other, or overflow. */
bool xla_add_convolution(struct xla_cost *cost, const struct xla_convolution *convolution);

/* The cost of a thunk that was made from an instruction. False: that cannot be read. */
bool xla_fusion_cost(const struct xla_memory *memory, const struct xla_words *thunk,
		     const char *operation, struct xla_cost *cost);

#endif
