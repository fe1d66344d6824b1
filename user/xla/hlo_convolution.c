// SPDX-License-Identifier: BSD-2-Clause
/*
 * xla::HloConvolutionInstruction: behind what all instructions have, the number of groups of
 * channels, that of groups of the batch, a Window and ConvolutionDimensionNumbers (messages of
 * xla/xla_data.proto). Which dimension of an array is what is said by the latter: the numbers of
 * each array's must be those of all its dimensions, each once.
 */
#include "xla/internal.h"

#include <string.h>

/* Words of a ConvolutionDimensionNumbers: vtable, arena, which fields are set; then lists, each
 * with a word for the size that it takes when it is sent; then numbers. */
enum numbers {
	NUMBERS_KERNEL_SPATIAL = 3,
	NUMBERS_INPUT_SPATIAL = 6,
	NUMBERS_OUTPUT_SPATIAL = 9,
	NUMBERS_KERNEL_CHANNELS = 12,
	NUMBERS_FILTERS = 13,
	NUMBERS_BATCH = 14,
	NUMBERS_CHANNELS = 15,
	NUMBERS_OUT_BATCH = 16,
	NUMBERS_OUT_CHANNELS = 17,
	NUMBERS_WORDS = 18,
};

/* Words of a Window: vtable, arena, RepeatedPtrField<WindowDimension>; before it, the groups. */
enum window {
	WINDOW_GROUPS = -2,
	WINDOW_BATCH_GROUPS = -1,
	WINDOW_DIMENSIONS = 2,
	WINDOW_COUNT = 3,
	WINDOW_WORDS = 6,
};

/* Words of a WindowDimension: vtable, arena, which fields are set; then these. */
enum window_dimension {
	DIMENSION_SIZE = 3,
	DIMENSION_STRIDE = 4,
	DIMENSION_BEFORE = 5,
	DIMENSION_AFTER = 6,
	DIMENSION_DILATION = 7,
	DIMENSION_BASE_DILATION = 8,
	DIMENSION_WORDS = 9,
};

/* Both messages lie behind the instruction's head, which ends with its name. */
#define HEAD_WORDS 16

/* Where an object of that class begins, with so many words; NULL: nowhere. */
static const uint64_t *find_message(const struct xla_memory *memory,
				    const struct xla_words *instruction, const char *class,
				    size_t words)
{
	for (size_t i = HEAD_WORDS; i + words <= instruction->count; i++)
		if (xla_class_is(memory, instruction->address + 8 * i, class))
			return &instruction->at[i];
	return NULL;
}

/* --- dimensions ----------------------------------------------------------------------------- */

/* Sizes of one array in the order in which convolutions are described. */
struct sizes {
	uint64_t first, second; /* the two dimensions that are not spatial */
	uint64_t spatial[XLA_SPATIAL_MAX];
};

/* Takes the size of one dimension, which none has taken yet. */
static bool take(const struct xla_shape *shape, uint64_t dim, uint32_t *taken, uint64_t *size)
{
	if (dim >= shape->rank || (*taken & 1U << dim))
		return false;
	*taken |= 1U << dim;
	*size = shape->dims[dim];
	return true;
}

static bool sizes_of(const struct xla_memory *memory, const struct xla_shape *shape,
		     const uint64_t *first_and_second, const uint64_t *spatial, struct sizes *sizes)
{
	struct xla_dims dims;
	uint32_t taken = 0;

	if (!xla_dims_read(memory, spatial, &dims) || dims.count + 2 != shape->rank ||
	    !take(shape, first_and_second[0], &taken, &sizes->first) ||
	    !take(shape, first_and_second[1], &taken, &sizes->second))
		return false;
	for (size_t i = 0; i < dims.count; i++)
		if (!take(shape, dims.of[i], &taken, &sizes->spatial[i]))
			return false;
	return true;
}

static bool read_numbers(const struct xla_memory *memory, const struct xla_words *instruction,
			 struct xla_convolution *convolution)
{
	const uint64_t *w = find_message(memory, instruction, "3xla27ConvolutionDimensionNumbersE",
					 NUMBERS_WORDS);
	struct sizes in = {0}, kernel = {0}, out = {0};

	if (!w ||
	    !sizes_of(memory, convolution->in, w + NUMBERS_BATCH, w + NUMBERS_INPUT_SPATIAL, &in) ||
	    !sizes_of(memory, convolution->kernel, w + NUMBERS_KERNEL_CHANNELS,
		      w + NUMBERS_KERNEL_SPATIAL, &kernel) ||
	    !sizes_of(memory, convolution->out, w + NUMBERS_OUT_BATCH, w + NUMBERS_OUTPUT_SPATIAL,
		      &out))
		return false;
	convolution->batch = in.first;
	convolution->channels = in.second;
	convolution->kernel_channels = kernel.first;
	convolution->filters = kernel.second;
	convolution->out_batch = out.first;
	convolution->out_channels = out.second;
	for (uint32_t i = 0; i < convolution->rank; i++) {
		convolution->windows[i].input = in.spatial[i];
		convolution->windows[i].kernel = kernel.spatial[i];
		convolution->windows[i].output = out.spatial[i];
	}
	return true;
}

/* --- windows -------------------------------------------------------------------------------- */

/* Its sizes must be the kernel's. */
static bool read_dimension(const struct xla_memory *memory, uint64_t address,
			   struct xla_window *window)
{
	struct xla_words words;

	if (!xla_class_is(memory, address, "3xla15WindowDimensionE") ||
	    !xla_read_words(memory, address, DIMENSION_WORDS, &words) ||
	    words.count < DIMENSION_WORDS || words.at[DIMENSION_SIZE] != window->kernel)
		return false;
	window->stride = words.at[DIMENSION_STRIDE];
	window->before = (int64_t)words.at[DIMENSION_BEFORE];
	window->after = (int64_t)words.at[DIMENSION_AFTER];
	window->dilation = words.at[DIMENSION_DILATION];
	window->base_dilation = words.at[DIMENSION_BASE_DILATION];
	return true;
}

/* The field's first word is the one element, or, with bit 0, where a word and then the elements
 * are; all by pointers. */
static bool dimension_pointers(const struct xla_memory *memory, const uint64_t *w, uint32_t count,
			       uint64_t pointers[XLA_SPATIAL_MAX])
{
	uint64_t field = w[WINDOW_DIMENSIONS];

	if ((uint32_t)w[WINDOW_COUNT] != count)
		return false;
	if (field & 1)
		return memory->read(memory->ctx, (field & ~1ULL) + 8, pointers, 8ULL * count);
	pointers[0] = field;
	return count == 1;
}

static bool read_windows(const struct xla_memory *memory, const struct xla_words *instruction,
			 struct xla_convolution *convolution)
{
	const uint64_t *w = find_message(memory, instruction, "3xla6WindowE", WINDOW_WORDS);
	uint64_t pointers[XLA_SPATIAL_MAX];

	/* groups of the batch are for gradients, which no library is given */
	if (!w || w[WINDOW_BATCH_GROUPS] != 1 ||
	    !dimension_pointers(memory, w, convolution->rank, pointers))
		return false;
	convolution->groups = w[WINDOW_GROUPS];
	for (uint32_t i = 0; i < convolution->rank; i++)
		if (!read_dimension(memory, pointers[i], &convolution->windows[i]))
			return false;
	return true;
}

bool xla_convolution_instruction(const struct xla_memory *memory, uint64_t address,
				 struct xla_cost *cost)
{
	struct xla_product product;
	struct xla_convolution convolution = {
		.in = &product.left, .kernel = &product.right, .out = &product.out};

	return xla_product_read(memory, address, &product) && xla_convolution_rank(&convolution) &&
	       read_numbers(memory, &product.words, &convolution) &&
	       read_windows(memory, &product.words, &convolution) &&
	       xla_add_convolution(cost, &convolution);
}
