// SPDX-License-Identifier: BSD-2-Clause
/* Objects of thunks and instructions: memory, classes, strings, shapes; and the cost of a product
 * and of a convolution of such shapes. */
#include "xla/internal.h"

#include "perfx_cost.h"

#include <string.h>

bool xla_read_words(const struct xla_memory *memory, uint64_t address, size_t count,
		    struct xla_words *words)
{
	words->address = address;
	words->count = 0;
	if (address % 8 || count > XLA_WORDS_MAX)
		return false;
	/* an object may end with its page: then the words on this page */
	for (size_t tried = count; tried; tried = words->count ? 0 : tried / 2)
		if (memory->read(memory->ctx, address, words->at, tried * 8))
			words->count = tried;
	memset(words->at + words->count, 0, (XLA_WORDS_MAX - words->count) * 8);
	return words->count;
}

static bool read_word(const struct xla_memory *memory, uint64_t address, uint64_t *word)
{
	return address % 8 == 0 && memory->read(memory->ctx, address, word, sizeof(*word));
}

/* The name ends somewhere in a file's read-only data: read in pieces, for the next page may not be
 * there. */
static bool read_text(const struct xla_memory *memory, uint64_t address, char *text, size_t size)
{
	size_t length = 0;

	while (length + 8 <= size) {
		if (!memory->read(memory->ctx, address + length, text + length, 8))
			return false;
		if (memchr(text + length, '\0', 8))
			return true;
		length += 8;
	}
	return false;
}

bool xla_class_of(const struct xla_memory *memory, uint64_t object, char name[XLA_CLASS_MAX])
{
	uint64_t vtable, type, text;

	if (!read_word(memory, object, &vtable) || !vtable ||
	    !read_word(memory, vtable - 8, &type) || !type || !read_word(memory, type + 8, &text) ||
	    !read_text(memory, text, name, XLA_CLASS_MAX))
		return false;
	if (*name == 'N')
		memmove(name, name + 1, strlen(name));
	return (*name >= '1' && *name <= '9') || *name == 'S';
}

bool xla_string_is(const struct xla_memory *memory, uint64_t string, const char *text)
{
	size_t length = strlen(text);
	uint64_t head[2];
	char found[128];

	return length <= sizeof(found) && memory->read(memory->ctx, string, head, sizeof(head)) &&
	       head[1] == length && memory->read(memory->ctx, head[0], found, length) &&
	       !memcmp(found, text, length);
}

/* By xla::PrimitiveType (xla/xla_data.proto). Types of less than a byte are left out. */
static const struct {
	uint8_t bytes, dtype;
} types[] = {
	[1] = {1, PERFX_DTYPE_INTEGER}, /* pred */
	[2] = {1, PERFX_DTYPE_INTEGER}, [3] = {2, PERFX_DTYPE_INTEGER},
	[4] = {4, PERFX_DTYPE_INTEGER}, [5] = {8, PERFX_DTYPE_INTEGER},
	[6] = {1, PERFX_DTYPE_INTEGER}, [7] = {2, PERFX_DTYPE_INTEGER},
	[8] = {4, PERFX_DTYPE_INTEGER}, [9] = {8, PERFX_DTYPE_INTEGER},
	[10] = {2, PERFX_DTYPE_F16},	[11] = {4, PERFX_DTYPE_F32},
	[12] = {8, PERFX_DTYPE_F64},	[15] = {8, PERFX_DTYPE_C64},
	[16] = {2, PERFX_DTYPE_BF16},	[18] = {16, PERFX_DTYPE_C128},
	[19] = {1, PERFX_DTYPE_F8}, /* e5m2 */
	[20] = {1, PERFX_DTYPE_F8}, /* e4m3fn */
	[23] = {1, PERFX_DTYPE_F8}, /* e4m3b11fnuz */
	[24] = {1, PERFX_DTYPE_F8}, /* e5m2fnuz */
	[25] = {1, PERFX_DTYPE_F8}, /* e4m3fnuz */
	[28] = {1, PERFX_DTYPE_F8}, /* e4m3 */
	[29] = {1, PERFX_DTYPE_F8}, /* e3m4 */
};

uint32_t xla_type_bytes(uint32_t type)
{
	return type < sizeof(types) / sizeof(types[0]) ? types[type].bytes : 0;
}

enum perfx_dtype xla_type_dtype(uint32_t type)
{
	return type < sizeof(types) / sizeof(types[0]) ? types[type].dtype : PERFX_DTYPE_UNKNOWN;
}

uint32_t xla_type_flops(uint32_t type)
{
	enum perfx_dtype dtype = xla_type_dtype(type);

	return dtype == PERFX_DTYPE_C64 || dtype == PERFX_DTYPE_C128 ? 8 : 2;
}

bool xla_shape_bytes(const struct xla_shape *shape, uint64_t *bytes)
{
	return !__builtin_mul_overflow(shape->numel, xla_type_bytes(shape->type), bytes);
}

/* absl::InlinedVector: size << 1 | is it elsewhere; then the elements, or where they are. */
static bool read_dims(const struct xla_memory *memory, const uint64_t *vector,
		      struct xla_shape *shape)
{
	uint64_t rank = vector[0] >> 1;
	bool elsewhere = vector[0] & 1;

	if (rank > XLA_DIMS_MAX || (!elsewhere && rank > XLA_INLINE_DIMS))
		return false;
	shape->rank = (uint32_t)rank;
	if (elsewhere)
		return rank && memory->read(memory->ctx, vector[1], shape->dims, rank * 8);
	memcpy(shape->dims, vector + 1, rank * 8);
	return true;
}

bool xla_shape_read(const struct xla_memory *memory, const struct xla_words *words, size_t at,
		    struct xla_shape *shape)
{
	if (at + XLA_SHAPE_WORDS > words->count)
		return false;
	/* the upper half of the word is padding */
	shape->type = (uint32_t)words->at[at];
	if (!xla_type_bytes(shape->type) || !read_dims(memory, &words->at[at + 1], shape))
		return false;
	shape->numel = 1;
	for (uint32_t i = 0; i < shape->rank; i++)
		if (shape->dims[i] > PERFX_COST_DIM_MAX ||
		    __builtin_mul_overflow(shape->numel, shape->dims[i], &shape->numel))
			return false;
	return true;
}

bool xla_convolution_rank(struct xla_convolution *convolution)
{
	uint32_t dims = convolution->in->rank;

	if (dims < 3 || dims > 2 + XLA_SPATIAL_MAX || convolution->kernel->rank != dims ||
	    convolution->out->rank != dims)
		return false;
	convolution->rank = dims - 2;
	return true;
}

/* The size of a dimension with `dilation` - 1 zeros after each of its elements but the last. */
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
	bool transposed = false;
	uint64_t multiply_adds;

	if (!fits(convolution))
		return false;
	/* between the elements of a dimension of one there is nothing */
	for (uint32_t i = 0; i < convolution->rank; i++)
		transposed |= convolution->windows[i].base_dilation > 1 &&
			      convolution->windows[i].input > 1;
	if (transposed ? !times_kernel(in->numel, kernel, convolution->channels, &multiply_adds)
		       : !times_kernel(out->numel, kernel, convolution->filters, &multiply_adds))
		return false;
	return xla_add_product(cost, in, kernel, out, multiply_adds);
}
