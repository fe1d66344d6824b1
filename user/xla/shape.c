// SPDX-License-Identifier: BSD-2-Clause
#include "xla/shape.h"

#include "perfx_cost.h"

#include <string.h>

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
	for (uint32_t i = 0; i < shape->rank; i++) {
		if (shape->dims[i] > PERFX_COST_DIM_MAX ||
		    __builtin_mul_overflow(shape->numel, shape->dims[i], &shape->numel))
			return false;
	}
	return true;
}
