/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of a GPU by its compute capability: peak FLOP/s, and the occupancy of a kernel's shape. */
#ifndef PERFX_PEAKS_GPU_H
#define PERFX_PEAKS_GPU_H

#include "perfx_record.h"

#include <stdint.h>

/*
 * Dense FLOP/s by operand type at the highest clock of its multiprocessors: FLOPs a clock of one
 * multiprocessor × multiprocessors × clock, by the tensor cores where they take the type. 0: this
 * capability or type is not in the table, or the device does not say how large it is.
 */
double gpu_peak_flops(const struct perfx_gpu_device *device, enum perfx_dtype dtype);

/* A kernel's needs. */
struct gpu_shape {
	uint32_t block_threads;
	uint32_t registers;    /* of a thread; 0: not known */
	uint32_t shared_bytes; /* of a block, static and dynamic */
};

/* The resource that limits the blocks on a multiprocessor. */
enum gpu_limit {
	GPU_LIMIT_NONE = 0,
	GPU_LIMIT_WARPS,
	GPU_LIMIT_BLOCKS,
	GPU_LIMIT_REGISTERS,
	GPU_LIMIT_SHARED_MEMORY,
};

struct gpu_occupancy {
	double share; /* of the warps that a multiprocessor can hold; < 0: not known */
	enum gpu_limit limit;
};

/* Theoretical occupancy, as cuda_occupancy.h computes it. */
struct gpu_occupancy gpu_occupancy(const struct perfx_gpu_device *device,
				   const struct gpu_shape *shape);

/* "registers", "shared memory" */
const char *gpu_limit_name(enum gpu_limit limit);

#endif
