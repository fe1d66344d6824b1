// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls that wait: "API synchronization behavior" of the CUDA Runtime and Driver API references,
 * CUDA 13.0. A copy between devices, or within one, and a memset return at once.
 *
 * The arguments: cuda_runtime_api.h, driver_types.h and cuda.h of CUDA 13.0; those of
 * older releases are the same.
 */
#include "cost/gpu_calls.h"

#include "base/text.h"
#include "cost/cost_program.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

static const char runtime[] = "libcudart*", driver[] = "libcuda.so*";

/* A dim3 is three ints in two registers; the next one is the size of the shared memory. */
#define RUNTIME_LAUNCH "launch(arg1, arg2, arg3, arg4, arg5, stack1)"
/* cudaLaunchConfig_t, CUlaunchConfig: the size of the shared memory is of 8 and of 4 bytes. */
#define CONFIG_LAUNCH                                                                   \
	"launch(arg2, load64(arg1), load32(arg1+8), load64(arg1+12), load32(arg1+20), " \
	"load32(arg1+24))"
#define DRIVER_LAUNCH "launch(arg1, pair(arg2,arg3), arg4, pair(arg5,arg6), stack1, stack2)"

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D */
#define DRIVER_2D "copy(types(load32(arg1+16), load32(arg1+72)), load64(arg1+112)*load64(arg1+120))"
#define DRIVER_3D                                         \
	"copy(types(load32(arg1+32), load32(arg1+120)), " \
	"load64(arg1+176)*load64(arg1+184)*load64(arg1+192))"
/* cudaMemcpy3DParms: where an array takes part, the width is in its elements, whose size is not
 * known: no bytes. */
#define RUNTIME_3D                                                                  \
	"copy(kind(load32(arg1+152)), select(eq(load64(arg1)+load64(arg1+64), 0), " \
	"load64(arg1+128)*load64(arg1+136)*load64(arg1+144), 0))"
#define RUNTIME_3D_PEER                                           \
	"copy(peer, select(eq(load64(arg1)+load64(arg1+72), 0), " \
	"load64(arg1+144)*load64(arg1+152)*load64(arg1+160), 0))"

/* The call puts a handle of the kernel named by its third argument at its first one; or a handle
 * for its second argument. A call that fails names nothing. */
#define NAMED_BY_THIRD \
	"let at=arg1; let name=arg3; exit; same(u32(result), 0); kernel_name(load64(at), name)"
#define SAME_AS_SECOND \
	"let at=arg1; let other=arg2; exit; same(u32(result), 0); kernel_alias(load64(at), other)"
/* The call puts the name of its second argument, a handle, at its first one. */
#define NAME_AT_FIRST                                                                    \
	"let at=arg1; let kernel=arg2; exit; same(u32(result), 0); kernel_name(kernel, " \
	"load64(at))"

/* v2: before _v2, its argument was another structure. */
#define WAITS(op, library, name, text)                                \
	{                                                             \
		{name, PERFX_GPU_OP_##op, true}, library, text, false \
	}
#define NAMES_KERNEL(library, name, text) HANDS_OVER(INVALID, library, name, text)
#define HANDS_OVER(op, library, name, text)                            \
	{                                                              \
		{name, PERFX_GPU_OP_##op, false}, library, text, false \
	}

static const struct row {
	struct gpu_call call;
	const char *library, *text;
	bool v2;
} rows[] = {
	HANDS_OVER(KERNEL, runtime, "__cudaLaunchKernel",
		   "launch_by_stub(arg1, arg2, arg3, arg4, arg5, stack1)"),
	HANDS_OVER(KERNEL, runtime, "cudaLaunchKernel", RUNTIME_LAUNCH),
	HANDS_OVER(KERNEL, runtime, "cudaLaunchCooperativeKernel", RUNTIME_LAUNCH),
	HANDS_OVER(KERNEL, runtime, "cudaLaunchKernelExC", CONFIG_LAUNCH),
	HANDS_OVER(GRAPH, runtime, "cudaGraphLaunch", "graph(arg1)"),
	HANDS_OVER(KERNEL, driver, "cuLaunchKernel", DRIVER_LAUNCH),
	HANDS_OVER(KERNEL, driver, "cuLaunchCooperativeKernel", DRIVER_LAUNCH),
	HANDS_OVER(KERNEL, driver, "cuLaunchKernelEx", CONFIG_LAUNCH),
	HANDS_OVER(GRAPH, driver, "cuGraphLaunch", "graph(arg1)"),

	WAITS(COPY, runtime, "cudaMemcpy", "copy(kind(arg4), arg3)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpyAsync", "copy(kind(arg4), arg3)"),
	WAITS(COPY, runtime, "cudaMemcpy2D", "copy(kind(stack1), arg5*arg6)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpy2DAsync", "copy(kind(stack1), arg5*arg6)"),
	WAITS(COPY, runtime, "cudaMemcpy2DToArray", "copy(kind(stack2), arg6*stack1)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpy2DToArrayAsync", "copy(kind(stack2), arg6*stack1)"),
	WAITS(COPY, runtime, "cudaMemcpy2DFromArray", "copy(kind(stack2), arg6*stack1)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpy2DFromArrayAsync", "copy(kind(stack2), arg6*stack1)"),
	WAITS(COPY, runtime, "cudaMemcpyToSymbol", "copy(kind(arg5), arg3)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpyToSymbolAsync", "copy(kind(arg5), arg3)"),
	WAITS(COPY, runtime, "cudaMemcpyFromSymbol", "copy(kind(arg5), arg3)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpyFromSymbolAsync", "copy(kind(arg5), arg3)"),
	WAITS(COPY, runtime, "cudaMemcpy3D", RUNTIME_3D),
	HANDS_OVER(COPY, runtime, "cudaMemcpy3DAsync", RUNTIME_3D),
	HANDS_OVER(COPY, runtime, "cudaMemcpyPeer", "copy(peer, arg5)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpyPeerAsync", "copy(peer, arg5)"),
	HANDS_OVER(COPY, runtime, "cudaMemcpy3DPeer", RUNTIME_3D_PEER),
	HANDS_OVER(COPY, runtime, "cudaMemcpy3DPeerAsync", RUNTIME_3D_PEER),
	WAITS(COPY, driver, "cuMemcpy", "copy(unknown, arg3)"),
	HANDS_OVER(COPY, driver, "cuMemcpyAsync", "copy(unknown, arg3)"),
	WAITS(COPY, driver, "cuMemcpyHtoD", "copy(host_to_device, arg3)"),
	HANDS_OVER(COPY, driver, "cuMemcpyHtoDAsync", "copy(host_to_device, arg3)"),
	WAITS(COPY, driver, "cuMemcpyDtoH", "copy(device_to_host, arg3)"),
	HANDS_OVER(COPY, driver, "cuMemcpyDtoHAsync", "copy(device_to_host, arg3)"),
	HANDS_OVER(COPY, driver, "cuMemcpyDtoD", "copy(device_to_device, arg3)"),
	HANDS_OVER(COPY, driver, "cuMemcpyDtoDAsync", "copy(device_to_device, arg3)"),
	WAITS(COPY, driver, "cuMemcpyHtoA", "copy(host_to_device, arg4)"),
	HANDS_OVER(COPY, driver, "cuMemcpyHtoAAsync", "copy(host_to_device, arg4)"),
	WAITS(COPY, driver, "cuMemcpyAtoH", "copy(device_to_host, arg4)"),
	HANDS_OVER(COPY, driver, "cuMemcpyAtoHAsync", "copy(device_to_host, arg4)"),
	HANDS_OVER(COPY, driver, "cuMemcpyDtoA", "copy(device_to_device, arg4)"),
	HANDS_OVER(COPY, driver, "cuMemcpyAtoD", "copy(device_to_device, arg4)"),
	HANDS_OVER(COPY, driver, "cuMemcpyAtoA", "copy(device_to_device, arg5)"),
	HANDS_OVER(COPY, driver, "cuMemcpyPeer", "copy(peer, arg5)"),
	HANDS_OVER(COPY, driver, "cuMemcpyPeerAsync", "copy(peer, arg5)"),
	{{"cuMemcpy2D", PERFX_GPU_OP_COPY, true}, driver, DRIVER_2D, true},
	{{"cuMemcpy2DAsync", PERFX_GPU_OP_COPY, false}, driver, DRIVER_2D, true},
	{{"cuMemcpy2DUnaligned", PERFX_GPU_OP_COPY, true}, driver, DRIVER_2D, true},
	{{"cuMemcpy3D", PERFX_GPU_OP_COPY, true}, driver, DRIVER_3D, true},
	{{"cuMemcpy3DAsync", PERFX_GPU_OP_COPY, false}, driver, DRIVER_3D, true},
	/* no argument has the bytes */
	HANDS_OVER(COPY, driver, "cuMemcpy3DPeer", "copy(peer, 0)"),
	HANDS_OVER(COPY, driver, "cuMemcpy3DPeerAsync", "copy(peer, 0)"),
	/* many at a time: counted as one, of unknown size */
	HANDS_OVER(COPY, runtime, "cudaMemcpyBatchAsync", "copy(unknown, 0)"),
	HANDS_OVER(COPY, driver, "cuMemcpyBatchAsync", "copy(unknown, 0)"),

	HANDS_OVER(MEMSET, runtime, "cudaMemset", "copy(memset, arg3)"),
	HANDS_OVER(MEMSET, runtime, "cudaMemsetAsync", "copy(memset, arg3)"),
	HANDS_OVER(MEMSET, runtime, "cudaMemset2D", "copy(memset, arg4*arg5)"),
	HANDS_OVER(MEMSET, runtime, "cudaMemset2DAsync", "copy(memset, arg4*arg5)"),
	/* a pitched pointer of 32 bytes, then a size of 24: both on the stack */
	HANDS_OVER(MEMSET, runtime, "cudaMemset3D", "copy(memset, stack5*stack6*stack7)"),
	HANDS_OVER(MEMSET, runtime, "cudaMemset3DAsync", "copy(memset, stack5*stack6*stack7)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD8", "copy(memset, arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD8Async", "copy(memset, arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD16", "copy(memset, 2*arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD16Async", "copy(memset, 2*arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD32", "copy(memset, 4*arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD32Async", "copy(memset, 4*arg3)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D8", "copy(memset, arg4*arg5)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D8Async", "copy(memset, arg4*arg5)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D16", "copy(memset, 2*arg4*arg5)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D16Async", "copy(memset, 2*arg4*arg5)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D32", "copy(memset, 4*arg4*arg5)"),
	HANDS_OVER(MEMSET, driver, "cuMemsetD2D32Async", "copy(memset, 4*arg4*arg5)"),

	WAITS(SYNC, runtime, "cudaDeviceSynchronize", "wait"),
	WAITS(SYNC, runtime, "cudaThreadSynchronize", "wait"),
	WAITS(SYNC, runtime, "cudaStreamSynchronize", "wait"),
	WAITS(SYNC, runtime, "cudaEventSynchronize", "wait"),
	WAITS(SYNC, driver, "cuCtxSynchronize", "wait"),
	WAITS(SYNC, driver, "cuStreamSynchronize", "wait"),
	WAITS(SYNC, driver, "cuEventSynchronize", "wait"),
	/* no work: they name kernels */
	NAMES_KERNEL(runtime, "__cudaGetKernel", SAME_AS_SECOND),
	NAMES_KERNEL(runtime, "cudaGetKernel", SAME_AS_SECOND),
	NAMES_KERNEL(runtime, "cudaGetFuncBySymbol", SAME_AS_SECOND),
	NAMES_KERNEL(runtime, "cudaLibraryGetKernel", NAMED_BY_THIRD),
	NAMES_KERNEL(driver, "cuModuleGetFunction", NAMED_BY_THIRD),
	NAMES_KERNEL(driver, "cuLibraryGetKernel", NAMED_BY_THIRD),
	NAMES_KERNEL(driver, "cuKernelGetFunction", SAME_AS_SECOND),
	NAMES_KERNEL(driver, "cuFuncGetName", NAME_AT_FIRST),
	NAMES_KERNEL(driver, "cuKernelGetName", NAME_AT_FIRST),
};

#define NAME_BYTES_MAX 64 /* longer ones are none of these */

/* cuMemcpyHtoD_v2 → cuMemcpyHtoD; true: there was a version. */
static bool cut_version(char *name)
{
	char *end = name + strlen(name);

	while (end > name && isdigit((unsigned char)end[-1]))
		end--;
	if (end - name <= 2 || !*end || end[-1] != 'v' || end[-2] != '_')
		return false;
	end[-2] = '\0';
	return true;
}

static const struct row *find_row(const char *name, bool *versioned)
{
	char plain[NAME_BYTES_MAX];
	size_t length = strlen(name);

	if (length >= sizeof(plain) || (!begins_with(name, "cu") && !begins_with(name, "__cuda")))
		return NULL;
	memcpy(plain, name, length + 1);
	/* the twins for a default stream of each thread: cuda.h, cuda_runtime_api.h */
	remove_suffix(plain, "_ptsz");
	remove_suffix(plain, "_ptds");
	*versioned = cut_version(plain);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].call.name, plain))
			return &rows[i];
	return NULL;
}

const struct gpu_call *gpu_call_find(const char *name)
{
	bool versioned;
	const struct row *row = find_row(name, &versioned);

	return row && row->call.op ? &row->call : NULL;
}

bool gpu_call_is(const char *base_name, const char *symbol)
{
	bool versioned;
	const struct row *row = find_row(symbol, &versioned);

	return row && !fnmatch(row->library, base_name, 0);
}

int gpu_call_program(const char *base_name, const char *symbol, struct perfx_cost_program *program)
{
	bool versioned;
	const struct row *row = find_row(symbol, &versioned);
	char why[128];

	if (!row || fnmatch(row->library, base_name, 0) || (row->v2 && !versioned))
		return -ENOENT;
	return cost_compile(row->text, program, why, sizeof(why));
}
