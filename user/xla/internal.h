/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind thunk.h share. */
#ifndef PERFX_XLA_INTERNAL_H
#define PERFX_XLA_INTERNAL_H

#include "xla/shape.h"
#include "xla/thunk.h"

/* Adds a product of so many multiply-adds. False: too much. */
bool xla_add_product(struct xla_cost *cost, const struct xla_shape *left,
		     const struct xla_shape *right, const struct xla_shape *out,
		     uint64_t multiply_adds);

/* --- convolutions: convolution.c --- */

#define XLA_SPATIAL_MAX 3

/* Of one spatial dimension. */
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

/* Adds what it multiplies. False: its parts do not fit each other, or it is too much. */
bool xla_add_convolution(struct xla_cost *cost, const struct xla_convolution *convolution);

/* --- instructions: hlo.c, hlo_convolution.c --- */

#define XLA_LIST_MAX 8 /* dimensions of one list */

struct xla_dims {
	size_t count;
	uint64_t of[XLA_LIST_MAX];
};

/* Is this an object of that class? */
bool xla_class_is(const struct xla_memory *memory, uint64_t object, const char *wanted);

/* google::protobuf::RepeatedField<int64_t>, of which `field` is the first of two words. */
bool xla_dims_read(const struct xla_memory *memory, const uint64_t *field, struct xla_dims *dims);

/* An instruction of two operands, whose types fit the result's. */
struct xla_product {
	struct xla_words words;
	struct xla_shape left, right, out;
};

bool xla_product_read(const struct xla_memory *memory, uint64_t address,
		      struct xla_product *product);

/* Adds what the xla::HloConvolutionInstruction at `address` multiplies. False: unread. */
bool xla_convolution_instruction(const struct xla_memory *memory, uint64_t address,
				 struct xla_cost *cost);

/* Of a thunk that was made from an instruction. False: that cannot be read. */
bool xla_fusion_cost(const struct xla_memory *memory, const struct xla_words *thunk,
		     const char *operation, struct xla_cost *cost);

#endif
