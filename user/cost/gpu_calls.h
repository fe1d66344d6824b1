/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of GPU libraries that hand work to a device or wait for it: the one list of their
 * names, for planning and for analysis; and the meaning of their arguments.
 */
#ifndef PERFX_COST_GPU_CALLS_H
#define PERFX_COST_GPU_CALLS_H

#include "perfx_cost.h"
#include "perfx_record.h"

#include <stdbool.h>

struct gpu_call {
	const char *name; /* without _v2, _ptsz and their like */
	enum perfx_gpu_op op;
	bool waits; /* the calling thread, until the device has done it */
};

/* Of a function's name, whatever its version: cuMemcpyHtoD, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds.
 * NULL: not such a call. */
const struct gpu_call *gpu_call_find(const char *name);

/* Is it one, or one that gives handles for kernels, in the library that has it? */
bool gpu_call_is(const char *base_name, const char *symbol);

/* What counts the work that its calls hand over, or remembers the kernel. -ENOENT: it is no such
 * function. */
int gpu_call_program(const char *base_name, const char *symbol, struct perfx_cost_program *program);

#endif
