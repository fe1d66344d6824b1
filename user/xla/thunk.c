// SPDX-License-Identifier: BSD-2-Clause
#include "xla/thunk.h"

#include "base/order.h"
#include "base/text.h"
#include "xla/internal.h"

#include <string.h>

/* Words of the head that all thunks have: vtable, kind, two strings, the module's number. */
#define HEAD_WORDS 11
/* A DotThunk, the largest that is read, has 290. */
#define THUNK_WORDS 320

/* An array in memory: {allocation, offset, size[, element type]}, then its shape. */
struct array {
	struct xla_shape shape;
	size_t at; /* words from the thunk's beginning to the shape */
};

#define ARRAYS 3 /* left or input, right or kernel, result */

struct arrays {
	struct array of[ARRAYS];
	size_t slice_words;
	size_t shape_words; /* sizeof(xla::Shape) */
};

static bool array_at(const struct xla_memory *memory, const struct xla_words *words, size_t at,
		     size_t slice_words, struct array *array)
{
	uint64_t bytes;

	array->at = at;
	if (!xla_shape_read(memory, words, at, &array->shape) ||
	    !xla_shape_bytes(&array->shape, &bytes))
		return false;
	/* newer releases keep the element type beside the size */
	if (slice_words == 4 && (uint32_t)words->at[at - 1] != array->shape.type)
		return false;
	return words->at[at - slice_words + 2] == bytes;
}

static bool find_arrays(const struct xla_memory *memory, const struct xla_words *words,
			size_t slice_words, struct arrays *arrays)
{
	size_t count = 0;

	for (size_t at = HEAD_WORDS + slice_words; at < words->count && count < ARRAYS; at++) {
		if (!array_at(memory, words, at, slice_words, &arrays->of[count]))
			continue;
		at += XLA_SHAPE_WORDS - 1;
		count++;
	}
	if (count < ARRAYS)
		return false;
	arrays->slice_words = slice_words;
	arrays->shape_words = arrays->of[1].at - arrays->of[0].at - slice_words;
	/* they lie in a row */
	return arrays->of[2].at - arrays->of[1].at == arrays->of[1].at - arrays->of[0].at;
}

bool xla_add_product(struct xla_cost *cost, const struct xla_shape *left,
		     const struct xla_shape *right, const struct xla_shape *out,
		     uint64_t multiply_adds)
{
	const struct xla_shape *const shapes[] = {left, right, out};
	uint64_t flops, bytes;

	if (__builtin_mul_overflow(multiply_adds, xla_type_flops(left->type), &flops) ||
	    __builtin_add_overflow(cost->flops, flops, &cost->flops))
		return false;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (!xla_shape_bytes(shapes[i], &bytes) ||
		    __builtin_add_overflow(cost->bytes, bytes, &cost->bytes))
			return false;
	cost->dtype = xla_type_dtype(left->type);
	return true;
}

/*
 * DotShape: the number of matrices in the batch, then what is multiplied of it, three shapes of
 * two dimensions at most. m·k, k·n and m·n elements say k: (m·k)(k·n)/(m·n) = k².
 */
static bool dot_shape_at(const struct xla_memory *memory, const struct xla_words *words,
			 const struct arrays *arrays, size_t at, uint64_t *multiply_adds)
{
	uint64_t batch = words->at[at], k;
	struct xla_shape one[ARRAYS];
	unsigned __int128 squared;

	for (size_t i = 0; i < ARRAYS; i++) {
		const struct xla_shape *whole = &arrays->of[i].shape;
		uint64_t numel;

		if (!xla_shape_read(memory, words, at + 1 + i * arrays->shape_words, &one[i]) ||
		    one[i].rank > 2 || one[i].rank > whole->rank || one[i].type != whole->type ||
		    __builtin_mul_overflow(one[i].numel, batch, &numel) || numel != whole->numel)
			return false;
	}
	if (!one[2].numel || !batch) {
		*multiply_adds = 0;
		return true;
	}
	squared = (unsigned __int128)one[0].numel * one[1].numel;
	if (squared % one[2].numel)
		return false;
	squared /= one[2].numel;
	k = PARTITION_POINT(root, UINT64_MAX, (unsigned __int128)root * root < squared);
	if ((unsigned __int128)k * k != squared)
		return false;
	return !__builtin_mul_overflow(arrays->of[2].shape.numel, k, multiply_adds);
}

static bool dot_cost(const struct xla_memory *memory, const struct xla_words *words,
		     const struct arrays *arrays, struct xla_cost *cost)
{
	size_t shapes_end = 1 + ARRAYS * arrays->shape_words;
	uint64_t multiply_adds;

	for (size_t at = arrays->of[2].at + arrays->shape_words; at + shapes_end <= words->count;
	     at++) {
		if (dot_shape_at(memory, words, arrays, at, &multiply_adds))
			return xla_add_product(cost, &arrays->of[0].shape, &arrays->of[1].shape,
					       &arrays->of[2].shape, multiply_adds);
	}
	return false;
}

/*
 * ConvolutionCanonicalDims, of one to three spatial dimensions, each list of which is {count, x, y,
 * z}; arrays are [batch, spatial …, channels], kernels [spatial …, channels of a group, channels of
 * the result].
 */
enum canonical {
	CANONICAL_BATCH = 0,
	CANONICAL_INPUT = 1,
	CANONICAL_CHANNELS = 5,
	CANONICAL_KERNEL = 6,
	CANONICAL_KERNEL_CHANNELS = 10,
	CANONICAL_FILTERS = 11,
	CANONICAL_OUTPUT = 12,
	CANONICAL_STRIDES = 16,
	CANONICAL_BEFORE = 20, /* padding */
	CANONICAL_AFTER = 24,
	CANONICAL_BASE_DILATION = 28,
	CANONICAL_DILATION = 32,
	CANONICAL_GROUPS = 36,
	CANONICAL_WORDS = 37,
};

/* `rank` sizes; before a single one, another of 1: lines are taken for planes. */
static bool spatial_is(const uint64_t *list, const uint64_t *dims, uint64_t rank)
{
	bool plane = rank == 1 && list[0] == 2 && list[1] == 1;

	if (list[0] != rank && !plane)
		return false;
	for (uint64_t i = 0; i < rank; i++)
		if (list[1 + i + plane] != dims[i])
			return false;
	return true;
}

/* Do these words describe the shapes? */
static bool canonical_is(const uint64_t *w, const struct xla_convolution *convolution)
{
	const struct xla_shape *in = convolution->in, *kernel = convolution->kernel,
			       *out = convolution->out;
	uint32_t rank = in->rank - 2;

	return w[CANONICAL_BATCH] == in->dims[0] &&
	       spatial_is(w + CANONICAL_INPUT, in->dims + 1, rank) &&
	       w[CANONICAL_CHANNELS] == in->dims[rank + 1] &&
	       spatial_is(w + CANONICAL_KERNEL, kernel->dims, rank) &&
	       w[CANONICAL_KERNEL_CHANNELS] == kernel->dims[rank] &&
	       w[CANONICAL_FILTERS] == kernel->dims[rank + 1] &&
	       spatial_is(w + CANONICAL_OUTPUT, out->dims + 1, rank);
}

static bool windows_of(const uint64_t *w, struct xla_convolution *convolution)
{
	static const enum canonical lists[] = {CANONICAL_KERNEL,  CANONICAL_OUTPUT,
					       CANONICAL_STRIDES, CANONICAL_BEFORE,
					       CANONICAL_AFTER,	  CANONICAL_BASE_DILATION,
					       CANONICAL_DILATION};

	convolution->rank = (uint32_t)w[CANONICAL_INPUT];
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (w[lists[i]] != convolution->rank)
			return false;
	for (uint32_t i = 0; i < convolution->rank; i++)
		convolution->windows[i] = (struct xla_window){
			.input = w[CANONICAL_INPUT + 1 + i],
			.kernel = w[CANONICAL_KERNEL + 1 + i],
			.output = w[CANONICAL_OUTPUT + 1 + i],
			.stride = w[CANONICAL_STRIDES + 1 + i],
			.base_dilation = w[CANONICAL_BASE_DILATION + 1 + i],
			.dilation = w[CANONICAL_DILATION + 1 + i],
			.before = (int64_t)w[CANONICAL_BEFORE + 1 + i],
			.after = (int64_t)w[CANONICAL_AFTER + 1 + i],
		};
	return true;
}

static bool canonical_cost(const uint64_t *w, struct xla_convolution *convolution,
			   struct xla_cost *cost)
{
	if (!canonical_is(w, convolution) || !windows_of(w, convolution))
		return false;
	convolution->groups = w[CANONICAL_GROUPS];
	convolution->batch = w[CANONICAL_BATCH];
	convolution->channels = w[CANONICAL_CHANNELS];
	convolution->kernel_channels = w[CANONICAL_KERNEL_CHANNELS];
	convolution->filters = w[CANONICAL_FILTERS];
	convolution->out_batch = convolution->out->dims[0];
	convolution->out_channels = convolution->out->dims[convolution->out->rank - 1];
	return xla_add_convolution(cost, convolution);
}

static bool convolution_cost(const struct xla_words *words, const struct arrays *arrays,
			     struct xla_cost *cost)
{
	struct xla_convolution convolution = {.in = &arrays->of[0].shape,
					      .kernel = &arrays->of[1].shape,
					      .out = &arrays->of[2].shape};

	if (!xla_convolution_rank(&convolution))
		return false;
	for (size_t at = arrays->of[2].at + arrays->shape_words;
	     at + CANONICAL_WORDS <= words->count; at++) {
		if (canonical_cost(&words->at[at], &convolution, cost))
			return true;
	}
	return false;
}

static bool has_arrays(const struct xla_memory *memory, const struct xla_words *words,
		       struct arrays *arrays)
{
	return find_arrays(memory, words, 4, arrays) || find_arrays(memory, words, 3, arrays);
}

/* `class` names one of xla::cpu, or a template of it. */
#define NAMESPACE "3xla3cpu"

static bool is_thunk(const char *class, const char *name)
{
	return begins_with(class, NAMESPACE) && begins_with(class + strlen(NAMESPACE), name);
}

/* XLA compiles small products, too: then only the name of the operation says that it is one. */
static bool is_product(const char *operation)
{
	static const char *const names[] = {"dot", "dot_general", "convolution"};
	size_t length = strcspn(operation, ".");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (length == strlen(names[i]) && !memcmp(operation, names[i], length))
			return true;
	return false;
}

void xla_thunk_cost(const struct xla_memory *memory, uint64_t thunk, const char *operation,
		    struct xla_cost *cost)
{
	static const char *const compiled_code[] = {"11KernelThunk",	     "15KernelThunkBase",
						    "16SmallKernelThunk",    "8internal",
						    "15CustomCallThunk",     "13OneDnnOpThunk",
						    "14OneDnnOpThunk",	     "17OneDnnFusionThunk",
						    "14XnnFusionThunk",	     "12XnnDotThunk",
						    "20XnnConvolutionThunk", NULL};
	char class[XLA_CLASS_MAX];
	struct xla_words words;
	struct arrays arrays;
	bool found;

	*cost = (struct xla_cost){.state = PERFX_COST_UNREAD};
	if (!xla_class_of(memory, thunk, class) ||
	    !xla_read_words(memory, thunk, THUNK_WORDS, &words))
		return;
	if (is_thunk(class, "8DotThunk"))
		found = has_arrays(memory, &words, &arrays) &&
			dot_cost(memory, &words, &arrays, cost);
	else if (is_thunk(class, "16ConvolutionThunk"))
		found = has_arrays(memory, &words, &arrays) &&
			convolution_cost(&words, &arrays, cost);
	else if (is_thunk(class, "14YnnFusionThunk"))
		found = xla_fusion_cost(memory, &words, operation, cost);
	else {
		if (!begins_with(class, NAMESPACE) ||
		    !text_begins_with_one_of(class + strlen(NAMESPACE), compiled_code))
			cost->state = PERFX_COST_NONE;
		else if (!is_product(operation))
			cost->state = PERFX_COST_OPAQUE;
		return;
	}
	if (!found)
		*cost = (struct xla_cost){.state = PERFX_COST_UNREAD};
	else
		cost->state = cost->bytes ? PERFX_COST_COUNTED : PERFX_COST_NONE;
}
