// SPDX-License-Identifier: BSD-2-Clause
/*
 * Instructions that thunks were made from (xla/hlo/ir/hlo_instruction.h, hlo_computation.h). The
 * compiled module stays in memory beside its executable.
 *
 *   HloInstruction   operands (absl::InlinedVector), parent computation, shape (std::shared_ptr),
 *                    name (std::string); a dot has DotDimensionNumbers behind that
 *   HloComputation   the fusion instruction that it is the body of, and all its instructions as
 *                    std::vector of {opcode, pointer}
 */
#include "base/text.h"
#include "xla/internal.h"

#include <string.h>

#define INSTRUCTION_WORDS 64
#define COMPUTATION_WORDS 32
#define THUNK_HEAD_WORDS  11
#define THUNK_OWN_WORDS	  16 /* behind the head, among which the instruction is */
#define OPERANDS_AT	  2  /* in an instruction */
#define INSTRUCTIONS_MAX  4096

#define LIST_MAX 8 /* dimensions of one list */

struct dims {
	size_t count;
	uint64_t of[LIST_MAX];
};

/* An instruction of two operands, whose types fit the result's. */
struct product {
	struct xla_words words;
	struct xla_shape left, right, out;
};

static bool is_instruction(const char *class)
{
	size_t length = strlen(class);

	return begins_with(class, "3xla") && strstr(class, "Hlo") && length > 12 &&
	       !strcmp(class + length - 12, "InstructionE");
}

static bool class_is(const struct xla_memory *memory, uint64_t object, const char *wanted)
{
	char class[XLA_CLASS_MAX];

	return xla_class_of(memory, object, class) && !strcmp(class, wanted);
}

/* Its first word is the number of elements, of which one fits into the second, or, with bit 2,
 * where they are; then the second is their number and the room there is (32 bits each). */
static bool dims_read(const struct xla_memory *memory, const uint64_t *field, struct dims *dims)
{
	if (!(field[0] & 4)) {
		dims->count = field[0] & 3;
		dims->of[0] = field[1];
		return dims->count <= 1;
	}
	dims->count = (uint32_t)field[1];
	return dims->count <= LIST_MAX &&
	       memory->read(memory->ctx, field[0] & ~7ULL, dims->of, dims->count * 8);
}

/* The product of these sizes; the same of both operands. */
static bool common(const struct xla_shape *left, const struct dims *left_dims,
		   const struct xla_shape *right, const struct dims *right_dims, uint64_t *product)
{
	*product = 1;
	if (left_dims->count != right_dims->count)
		return false;
	for (size_t i = 0; i < left_dims->count; i++) {
		uint64_t l = left_dims->of[i], r = right_dims->of[i];

		if (l >= left->rank || r >= right->rank || left->dims[l] != right->dims[r])
			return false;
		*product *= left->dims[l];
	}
	return true;
}

/* shape_ is a std::make_shared pointer: its control block comes before the shape. */
static bool shape_of(const struct xla_memory *memory, const struct xla_words *instruction,
		     struct xla_shape *shape)
{
	char class[XLA_CLASS_MAX];
	struct xla_words words;

	for (size_t i = 0; i + 1 < instruction->count; i++) {
		uint64_t pointer = instruction->at[i], control = instruction->at[i + 1];

		if (pointer != control + 16 || !xla_class_of(memory, control, class) ||
		    !strstr(class, "N3xla5ShapeE"))
			continue;
		return xla_read_words(memory, pointer, XLA_SHAPE_WORDS, &words) &&
		       xla_shape_read(memory, &words, 0, shape);
	}
	return false;
}

static bool operand_shape(const struct xla_memory *memory, uint64_t operand,
			  struct xla_shape *shape)
{
	char class[XLA_CLASS_MAX];
	struct xla_words words;

	return xla_class_of(memory, operand, class) && is_instruction(class) &&
	       xla_read_words(memory, operand, INSTRUCTION_WORDS, &words) &&
	       shape_of(memory, &words, shape);
}

/* DotDimensionNumbers: a message of four lists behind its vtable and arena. */
static bool find_dimensions(const struct xla_memory *memory, const struct xla_words *instruction,
			    struct dims lists[4])
{
	for (size_t i = OPERANDS_AT; i + 14 <= instruction->count; i++) {
		if (!class_is(memory, instruction->address + 8 * i, "3xla19DotDimensionNumbersE"))
			continue;
		for (size_t k = 0; k < 4; k++)
			if (!dims_read(memory, &instruction->at[i + 2 + 3 * k], &lists[k]))
				return false;
		return true;
	}
	return false;
}

static bool product_read(const struct xla_memory *memory, uint64_t address, struct product *product)
{
	const struct xla_shape *left = &product->left, *right = &product->right,
			       *out = &product->out;
	struct xla_words *words = &product->words;

	return xla_read_words(memory, address, INSTRUCTION_WORDS, words) &&
	       words->at[OPERANDS_AT] == 2 << 1 && shape_of(memory, words, &product->out) &&
	       operand_shape(memory, words->at[OPERANDS_AT + 1], &product->left) &&
	       operand_shape(memory, words->at[OPERANDS_AT + 2], &product->right) &&
	       left->type == right->type &&
	       xla_type_flops(out->type) == xla_type_flops(left->type) &&
	       /* sums of products of 8- or 16-bit numbers may be wider */
	       (out->type == left->type ||
		(xla_type_bytes(left->type) <= 2 &&
		 xla_type_bytes(out->type) > xla_type_bytes(left->type)));
}

static bool dot_cost(const struct xla_memory *memory, uint64_t address, struct xla_cost *cost)
{
	enum { LEFT_CONTRACTED, RIGHT_CONTRACTED, LEFT_BATCH, RIGHT_BATCH };
	struct product product;
	const struct xla_shape *left = &product.left, *right = &product.right, *out = &product.out;
	uint64_t k, batch, multiply_adds;
	struct dims lists[4];
	unsigned __int128 made;

	if (!product_read(memory, address, &product) ||
	    !find_dimensions(memory, &product.words, lists) ||
	    !common(left, &lists[LEFT_CONTRACTED], right, &lists[RIGHT_CONTRACTED], &k) ||
	    !common(left, &lists[LEFT_BATCH], right, &lists[RIGHT_BATCH], &batch))
		return false;
	/* with b of a batch, m·b·k and n·b·k elements make m·n·b: (mbk)(nbk) = (mnb)·b·k² */
	made = (unsigned __int128)out->numel * batch;
	if (k && (made > UINT64_MAX ||
		  (unsigned __int128)(left->numel / k) * (right->numel / k) != made))
		return false;
	if (__builtin_mul_overflow(out->numel, k, &multiply_adds))
		return false;
	return xla_add_product(cost, left, right, out, multiply_adds);
}

/*
 * xla::HloConvolutionInstruction: behind what all instructions have, the number of groups of
 * channels, that of groups of the batch, a Window and ConvolutionDimensionNumbers (messages of
 * xla/xla_data.proto). Which dimension of an array is what is said by the latter: the numbers of
 * each array's must be those of all its dimensions, each once.
 */

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

/* The first word of an object of that class with so many words; NULL: there is none. */
static const uint64_t *find_message(const struct xla_memory *memory,
				    const struct xla_words *instruction, const char *class,
				    size_t words)
{
	for (size_t i = HEAD_WORDS; i + words <= instruction->count; i++)
		if (class_is(memory, instruction->address + 8 * i, class))
			return &instruction->at[i];
	return NULL;
}

/* Sizes of one array in the order in which convolutions are described. */
struct sizes {
	uint64_t first, second; /* the two dimensions that are not spatial */
	uint64_t spatial[XLA_SPATIAL_MAX];
};

/* The size of a dimension that no other list has claimed. */
static bool claim_size(const struct xla_shape *shape, uint64_t dim, uint32_t *taken, uint64_t *size)
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
	struct dims dims;
	uint32_t taken = 0;

	if (!dims_read(memory, spatial, &dims) || dims.count + 2 != shape->rank ||
	    !claim_size(shape, first_and_second[0], &taken, &sizes->first) ||
	    !claim_size(shape, first_and_second[1], &taken, &sizes->second))
		return false;
	for (size_t i = 0; i < dims.count; i++)
		if (!claim_size(shape, dims.of[i], &taken, &sizes->spatial[i]))
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

static bool read_windows(const struct xla_memory *memory, const struct xla_words *instruction,
			 struct xla_convolution *convolution)
{
	const uint64_t *w = find_message(memory, instruction, "3xla6WindowE", WINDOW_WORDS);
	uint32_t rank = convolution->rank;
	uint64_t field, pointers[XLA_SPATIAL_MAX];
	struct xla_words words;

	/* groups of the batch are for gradients, which no library is given */
	if (!w || w[WINDOW_BATCH_GROUPS] != 1 || (uint32_t)w[WINDOW_COUNT] != rank)
		return false;
	/* The field's first word points to the one element, or, with bit 0, to a word and then the
	 * pointers to the elements. */
	field = w[WINDOW_DIMENSIONS];
	pointers[0] = field;
	if (field & 1 ? !memory->read(memory->ctx, (field & ~1ULL) + 8, pointers, 8ULL * rank)
		      : rank != 1)
		return false;
	convolution->groups = w[WINDOW_GROUPS];
	for (uint32_t i = 0; i < rank; i++) {
		struct xla_window *window = &convolution->windows[i];

		/* its sizes must be the kernel's */
		if (!class_is(memory, pointers[i], "3xla15WindowDimensionE") ||
		    !xla_read_words(memory, pointers[i], DIMENSION_WORDS, &words) ||
		    words.count < DIMENSION_WORDS || words.at[DIMENSION_SIZE] != window->kernel)
			return false;
		window->stride = words.at[DIMENSION_STRIDE];
		window->before = (int64_t)words.at[DIMENSION_BEFORE];
		window->after = (int64_t)words.at[DIMENSION_AFTER];
		window->dilation = words.at[DIMENSION_DILATION];
		window->base_dilation = words.at[DIMENSION_BASE_DILATION];
	}
	return true;
}

/* Adds what the xla::HloConvolutionInstruction at `address` multiplies. False: unread. */
static bool convolution_cost(const struct xla_memory *memory, uint64_t address,
			     struct xla_cost *cost)
{
	struct product product;
	struct xla_convolution convolution = {
		.in = &product.left, .kernel = &product.right, .out = &product.out};

	return product_read(memory, address, &product) && xla_convolution_rank(&convolution) &&
	       read_numbers(memory, &product.words, &convolution) &&
	       read_windows(memory, &product.words, &convolution) &&
	       xla_add_convolution(cost, &convolution);
}

/* The cost of an instruction that is no fusion. */
static bool plain_cost(const struct xla_memory *memory, uint64_t address, const char *class,
		       struct xla_cost *cost)
{
	/* multiply in a way that is not read */
	static const char *const unknown[] = {"Convolution", "CustomCall", "RaggedDot",
					      "ScaledDot",   "Fusion",	   "Callable",
					      "Call",	     "Cholesky",   "TriangularSolve"};

	if (strstr(class, "17HloDotInstruction"))
		return dot_cost(memory, address, cost);
	if (strstr(class, "25HloConvolutionInstruction"))
		return convolution_cost(memory, address, cost);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		if (strstr(class, unknown[i]))
			return false;
	return true;
}

static bool has_word(const struct xla_words *words, uint64_t value)
{
	for (size_t i = 0; i < words->count; i++)
		if (words->at[i] == value)
			return true;
	return false;
}

/* `vector`: begin, end, end of room. */
static bool instructions_cost(const struct xla_memory *memory, const uint64_t *vector,
			      uint64_t computation, struct xla_cost *cost)
{
	uint64_t count = (vector[1] - vector[0]) / 16, entry[2];
	char class[XLA_CLASS_MAX];
	struct xla_words words;
	bool any = false;

	*cost = (struct xla_cost){0};
	for (uint64_t i = 0; i < count; i++) {
		if (!memory->read(memory->ctx, vector[0] + 16 * i, entry, sizeof(entry)))
			return false;
		if (!entry[1]) /* removed */
			continue;
		if (!xla_class_of(memory, entry[1], class) || !is_instruction(class) ||
		    !xla_read_words(memory, entry[1], 16, &words) ||
		    !has_word(&words, computation) || !plain_cost(memory, entry[1], class, cost))
			return false;
		any = true;
	}
	return any;
}

/* The computation at `address`, if it is one, of that fusion. */
static bool computation_cost(const struct xla_memory *memory, uint64_t address, uint64_t fusion,
			     struct xla_cost *cost)
{
	struct xla_words words;

	if (!address || !xla_read_words(memory, address, COMPUTATION_WORDS, &words) ||
	    !has_word(&words, fusion))
		return false;
	for (size_t i = 0; i + 3 <= words.count; i++) {
		const uint64_t *v = &words.at[i];

		if (v[0] && v[0] % 8 == 0 && v[1] > v[0] && v[2] >= v[1] &&
		    (v[1] - v[0]) % 16 == 0 && (v[1] - v[0]) / 16 <= INSTRUCTIONS_MAX &&
		    instructions_cost(memory, v, address, cost))
			return true;
	}
	return false;
}

/* Called computations are in a part that few instructions have, behind a pointer. */
static bool fusion_cost(const struct xla_memory *memory, const struct xla_words *fusion,
			struct xla_cost *cost)
{
	for (size_t i = OPERANDS_AT; i < 16 && i < fusion->count; i++) {
		uint64_t pointer = fusion->at[i], computation;

		if (!pointer || pointer % 8 ||
		    !memory->read(memory->ctx, pointer, &computation, sizeof(computation)))
			continue;
		if (computation_cost(memory, computation, fusion->address, cost))
			return true;
	}
	return false;
}

bool xla_fusion_cost(const struct xla_memory *memory, const struct xla_words *thunk,
		     const char *operation, struct xla_cost *cost)
{
	char class[XLA_CLASS_MAX];
	struct xla_words words;

	for (size_t i = THUNK_HEAD_WORDS;
	     i < THUNK_HEAD_WORDS + THUNK_OWN_WORDS && i < thunk->count; i++) {
		bool named = false;

		if (!xla_class_of(memory, thunk->at[i], class) || !is_instruction(class) ||
		    !xla_read_words(memory, thunk->at[i], INSTRUCTION_WORDS, &words))
			continue;
		for (size_t w = OPERANDS_AT; !named && w + 2 <= words.count && w < 32; w++)
			named = xla_string_is(memory, words.address + 8 * w, operation);
		if (!named)
			continue;
		if (strstr(class, "20HloFusionInstruction"))
			return fusion_cost(memory, &words, cost);
		return plain_cost(memory, words.address, class, cost);
	}
	return false;
}
