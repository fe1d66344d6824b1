/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a run of a thunk: one operation of a module that XLA has compiled for the CPU, as
 * the thunk object itself says.
 *
 *   DotThunk, ConvolutionThunk  element types and shapes of operands and result lie in the object,
 *                               each behind the slice of memory that it is, whose size it must have
 *   YnnFusionThunk              points to the instruction that it was made from; the products in
 *                               that instruction's computation have shapes and dimensions
 *   kernels and custom calls    are compiled code: their cost is unknown, and is missed where the
 *                               operation is a dot or a convolution
 *   all others                  move data or control
 *
 * Where things lie changes with the release. So nothing is taken by its distance alone: classes are
 * recognised by their run-time type information, shapes by the slices that they must fill, the
 * instruction by its name, and products by shapes that fit each other. What does not fit leaves no
 * known cost.
 */
#ifndef PERFX_XLA_THUNK_H
#define PERFX_XLA_THUNK_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reading objects of a C++ program that was built by others: memory through a function,
 * classes by their run-time type information (Itanium C++ ABI: the vtable has a pointer to the
 * type_info before it, which has a pointer to the mangled name), strings as libstdc++ lays them
 * out. Nothing that is read is trusted: pointers may point anywhere.
 */
struct xla_memory {
	/* Reads all of it, or nothing: false. */
	bool (*read)(void *ctx, uint64_t address, void *to, size_t bytes);
	void *ctx;
};

struct xla_cost {
	enum perfx_cost_state state; /* COUNTED, UNREAD, OPAQUE or NONE */
	enum perfx_dtype dtype;
	uint64_t flops, bytes; /* COUNTED: of a run */
};

/* `operation` is the thunk's own name. */
void xla_thunk_cost(const struct xla_memory *memory, uint64_t thunk, const char *operation,
		    struct xla_cost *cost);

#endif
