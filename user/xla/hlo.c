// SPDX-License-Identifier: BSD-2-Clause
/*
 * Instructions that thunks were made from (xla/hlo/ir/hlo_instruction.h, hlo_computation.h). The
 * module that was compiled stays in memory beside what came of it.
 *
 *   HloInstruction   operands (absl::InlinedVector), parent computation, shape (std::shared_ptr),
 *                    name (std::string); a dot has DotDimensionNumbers behind that, a
 *                    convolution what hlo_convolution.c reads
 *   HloComputation   the fusion instruction that it is the body of, and all its instructions as
 *                    std::vector of {opcode, pointer}
 */
#include "xla/internal.h"

#include <string.h>

#define INSTRUCTION_WORDS 64
#define COMPUTATION_WORDS 32
#define THUNK_HEAD_WORDS  11
#define THUNK_OWN_WORDS	  16 /* behind the head, among which the instruction is */
#define OPERANDS_AT	  2  /* in an instruction */
#define INSTRUCTIONS_MAX  4096

static bool is_instruction(const char *class)
{
	size_t length = strlen(class);

	return !strncmp(class, "3xla", 4) && strstr(class, "Hlo") && length > 12 &&
	       !strcmp(class + length - 12, "InstructionE");
}

bool xla_class_is(const struct xla_memory *memory, uint64_t object, const char *wanted)
{
	char class[XLA_CLASS_MAX];

	return xla_class_of(memory, object, class) && !strcmp(class, wanted);
}

/* --- dots ----------------------------------------------------------------------------------- */

/* Its first word is the number of elements, of which one fits into the second, or, with bit 2,
 * where they are; then the second is their number and the room there is (32 bits each). */
bool xla_dims_read(const struct xla_memory *memory, const uint64_t *field, struct xla_dims *dims)
{
	if (!(field[0] & 4)) {
		dims->count = field[0] & 3;
		dims->of[0] = field[1];
		return dims->count <= 1;
	}
	dims->count = (uint32_t)field[1];
	return dims->count <= XLA_LIST_MAX &&
	       memory->read(memory->ctx, field[0] & ~7ULL, dims->of, dims->count * 8);
}

/* The product of these sizes; the same of both operands. */
static bool common(const struct xla_shape *left, const struct xla_dims *left_dims,
		   const struct xla_shape *right, const struct xla_dims *right_dims,
		   uint64_t *product)
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

/* shape_ is a shared pointer to what was made in place: its control block, then the shape. */
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
			    struct xla_dims lists[4])
{
	for (size_t i = OPERANDS_AT; i + 14 <= instruction->count; i++) {
		if (!xla_class_is(memory, instruction->address + 8 * i,
				  "3xla19DotDimensionNumbersE"))
			continue;
		for (size_t k = 0; k < 4; k++)
			if (!xla_dims_read(memory, &instruction->at[i + 2 + 3 * k], &lists[k]))
				return false;
		return true;
	}
	return false;
}

/* Numbers of one kind; sums may be wider than what is multiplied when that has 8 or 16 bits. */
static bool types_fit(const struct xla_shape *left, const struct xla_shape *right,
		      const struct xla_shape *out)
{
	return left->type == right->type &&
	       (out->type == left->type ||
		(xla_type_bytes(left->type) <= 2 &&
		 xla_type_bytes(out->type) > xla_type_bytes(left->type))) &&
	       xla_type_flops(out->type) == xla_type_flops(left->type);
}

bool xla_product_read(const struct xla_memory *memory, uint64_t address,
		      struct xla_product *product)
{
	struct xla_words *words = &product->words;

	return xla_read_words(memory, address, INSTRUCTION_WORDS, words) &&
	       words->at[OPERANDS_AT] == 2 << 1 && shape_of(memory, words, &product->out) &&
	       operand_shape(memory, words->at[OPERANDS_AT + 1], &product->left) &&
	       operand_shape(memory, words->at[OPERANDS_AT + 2], &product->right) &&
	       types_fit(&product->left, &product->right, &product->out);
}

static bool dot_cost(const struct xla_memory *memory, uint64_t address, struct xla_cost *cost)
{
	enum { LEFT_CONTRACTED, RIGHT_CONTRACTED, LEFT_BATCH, RIGHT_BATCH };
	struct xla_product product;
	const struct xla_shape *left = &product.left, *right = &product.right, *out = &product.out;
	uint64_t k, batch, multiply_adds;
	struct xla_dims lists[4];
	unsigned __int128 made;

	if (!xla_product_read(memory, address, &product) ||
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

/* --- computations --------------------------------------------------------------------------- */

/* Multiplies in a way that is not read. */
static bool is_unknown_product(const char *class)
{
	static const char *const parts[] = {"Convolution", "CustomCall", "RaggedDot",
					    "ScaledDot",   "Fusion",	 "Callable",
					    "Call",	   "Cholesky",	 "TriangularSolve"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(class, parts[i]))
			return true;
	return false;
}

/* Of an instruction that is no fusion. */
static bool plain_cost(const struct xla_memory *memory, uint64_t address, const char *class,
		       struct xla_cost *cost)
{
	if (strstr(class, "17HloDotInstruction"))
		return dot_cost(memory, address, cost);
	if (strstr(class, "25HloConvolutionInstruction"))
		return xla_convolution_instruction(memory, address, cost);
	return !is_unknown_product(class);
}

static bool has_word(const struct xla_words *words, uint64_t value)
{
	for (size_t i = 0; i < words->count; i++)
		if (words->at[i] == value)
			return true;
	return false;
}

static bool instruction_cost(const struct xla_memory *memory, uint64_t address,
			     uint64_t computation, struct xla_cost *cost)
{
	char class[XLA_CLASS_MAX];
	struct xla_words words;

	if (!xla_class_of(memory, address, class) || !is_instruction(class) ||
	    !xla_read_words(memory, address, 16, &words) || !has_word(&words, computation))
		return false;
	return plain_cost(memory, address, class, cost);
}

/* `vector`: begin, end, end of room. */
static bool instructions_cost(const struct xla_memory *memory, const uint64_t *vector,
			      uint64_t computation, struct xla_cost *cost)
{
	uint64_t count = (vector[1] - vector[0]) / 16, entry[2];
	bool any = false;

	*cost = (struct xla_cost){0};
	for (uint64_t i = 0; i < count; i++) {
		if (!memory->read(memory->ctx, vector[0] + 16 * i, entry, sizeof(entry)))
			return false;
		if (!entry[1]) /* removed */
			continue;
		if (!instruction_cost(memory, entry[1], computation, cost))
			return false;
		any = true;
	}
	return any;
}

static bool looks_like_vector(const uint64_t *vector)
{
	return vector[0] && vector[0] % 8 == 0 && vector[1] > vector[0] && vector[2] >= vector[1] &&
	       (vector[1] - vector[0]) % 16 == 0 &&
	       (vector[1] - vector[0]) / 16 <= INSTRUCTIONS_MAX;
}

/* The computation at `address`, if it is one, of that fusion. */
static bool computation_cost(const struct xla_memory *memory, uint64_t address, uint64_t fusion,
			     struct xla_cost *cost)
{
	struct xla_words words;

	if (!address || !xla_read_words(memory, address, COMPUTATION_WORDS, &words) ||
	    !has_word(&words, fusion))
		return false;
	for (size_t i = 0; i + 3 <= words.count; i++)
		if (looks_like_vector(&words.at[i]) &&
		    instructions_cost(memory, &words.at[i], address, cost))
			return true;
	return false;
}

/* Called computations are in what few instructions have, at the other end of a pointer. */
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

static bool has_name(const struct xla_memory *memory, const struct xla_words *words,
		     const char *name)
{
	for (size_t i = OPERANDS_AT; i + 2 <= words->count && i < 32; i++)
		if (xla_string_is(memory, words->address + 8 * i, name))
			return true;
	return false;
}

bool xla_fusion_cost(const struct xla_memory *memory, const struct xla_words *thunk,
		     const char *operation, struct xla_cost *cost)
{
	char class[XLA_CLASS_MAX];
	struct xla_words words;

	for (size_t i = THUNK_HEAD_WORDS;
	     i < THUNK_HEAD_WORDS + THUNK_OWN_WORDS && i < thunk->count; i++) {
		if (!xla_class_of(memory, thunk->at[i], class) || !is_instruction(class) ||
		    !xla_read_words(memory, thunk->at[i], INSTRUCTION_WORDS, &words) ||
		    !has_name(memory, &words, operation))
			continue;
		if (strstr(class, "20HloFusionInstruction"))
			return fusion_cost(memory, &words, cost);
		return plain_cost(memory, words.address, class, cost);
	}
	return false;
}
