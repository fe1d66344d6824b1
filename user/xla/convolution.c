// SPDX-License-Identifier: BSD-2-Clause
/* What a convolution multiplies, wherever its description was found: a thunk or an instruction. */
#include "xla/internal.h"

bool xla_convolution_rank(struct xla_convolution *convolution)
{
	uint32_t dims = convolution->in->rank;

	if (dims < 3 || dims > 2 + XLA_SPATIAL_MAX || convolution->kernel->rank != dims ||
	    convolution->out->rank != dims)
		return false;
	convolution->rank = dims - 2;
	return true;
}

/* What a dimension becomes with `dilation` - 1 zeros after each of its elements but the last. */
static int64_t dilated(uint64_t size, uint64_t dilation)
{
	return size ? ((int64_t)size - 1) * (int64_t)dilation + 1 : 0;
}

/* Sizes, strides and dilations are small numbers above zero; paddings may be below. */
#define WINDOW_MAX (1 << 24)

static bool is_step(uint64_t step)
{
	return step && step <= WINDOW_MAX;
}

static bool is_padding(int64_t padding)
{
	return padding <= WINDOW_MAX && padding >= -WINDOW_MAX;
}

/* Does the window give the result its size? That is known; so the window has been read right. */
static bool window_fits(const struct xla_window *window)
{
	int64_t room;

	if (!is_step(window->stride) || !is_step(window->base_dilation) ||
	    !is_step(window->dilation) || !is_padding(window->before) ||
	    !is_padding(window->after) || window->input > WINDOW_MAX || window->kernel > WINDOW_MAX)
		return false;
	room = window->before + dilated(window->input, window->base_dilation) + window->after -
	       dilated(window->kernel, window->dilation);
	return window->output == (room < 0 ? 0 : (uint64_t)room / window->stride + 1);
}

static bool fits(const struct xla_convolution *convolution)
{
	uint64_t channels;

	for (uint32_t i = 0; i < convolution->rank; i++)
		if (!window_fits(&convolution->windows[i]))
			return false;
	return convolution->out_batch == convolution->batch && convolution->groups &&
	       !__builtin_mul_overflow(convolution->groups, convolution->kernel_channels,
				       &channels) &&
	       channels == convolution->channels &&
	       convolution->filters % convolution->groups == 0 &&
	       convolution->filters == convolution->out_channels;
}

/* Between the elements of a dimension of one there is nothing. */
static bool is_transposed(const struct xla_convolution *convolution)
{
	for (uint32_t i = 0; i < convolution->rank; i++)
		if (convolution->windows[i].base_dilation > 1 && convolution->windows[i].input > 1)
			return true;
	return false;
}

/* elements · (elements of the kernel / channels); 0 / 0 is 0. */
static bool times_kernel(uint64_t elements, const struct xla_shape *kernel, uint64_t channels,
			 uint64_t *product)
{
	return !__builtin_mul_overflow(elements, channels ? kernel->numel / channels : 0, product);
}

/* Each element of the result takes what the kernel has for one channel of it. With a dilated input
 * (a transposed convolution) most of what the kernel meets are the zeros between; what counts is
 * that each element of the input meets the kernel once. */
bool xla_add_convolution(struct xla_cost *cost, const struct xla_convolution *convolution)
{
	const struct xla_shape *in = convolution->in, *kernel = convolution->kernel,
			       *out = convolution->out;
	uint64_t multiply_adds;

	if (!fits(convolution))
		return false;
	if (is_transposed(convolution)
		    ? !times_kernel(in->numel, kernel, convolution->channels, &multiply_adds)
		    : !times_kernel(out->numel, kernel, convolution->filters, &multiply_adds))
		return false;
	return xla_add_product(cost, in, kernel, out, multiply_adds);
}
