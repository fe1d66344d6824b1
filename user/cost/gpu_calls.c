// SPDX-License-Identifier: BSD-2-Clause
#include "cost/gpu_calls.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What waits: "API synchronization behavior" of the CUDA Runtime and Driver API references, CUDA
 * 13.0. A copy between devices, or within one, and a memset return at once. Sorted by name. */
static const struct gpu_call calls[] = {
	{"__cudaLaunchKernel", PERFX_GPU_OP_KERNEL, false},
	{"cuCtxSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cuEventSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cuGraphLaunch", PERFX_GPU_OP_GRAPH, false},
	{"cuLaunch", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchCooperativeKernel", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchCooperativeKernelMultiDevice", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchGrid", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchGridAsync", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchKernel", PERFX_GPU_OP_KERNEL, false},
	{"cuLaunchKernelEx", PERFX_GPU_OP_KERNEL, false},
	{"cuMemcpy", PERFX_GPU_OP_COPY, true},
	{"cuMemcpy2D", PERFX_GPU_OP_COPY, true},
	{"cuMemcpy2DAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpy2DUnaligned", PERFX_GPU_OP_COPY, true},
	{"cuMemcpy3D", PERFX_GPU_OP_COPY, true},
	{"cuMemcpy3DAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpy3DPeer", PERFX_GPU_OP_COPY, false},
	{"cuMemcpy3DPeerAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyBatchAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyDtoD", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyDtoDAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyDtoH", PERFX_GPU_OP_COPY, true},
	{"cuMemcpyDtoHAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyHtoD", PERFX_GPU_OP_COPY, true},
	{"cuMemcpyHtoDAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyPeer", PERFX_GPU_OP_COPY, false},
	{"cuMemcpyPeerAsync", PERFX_GPU_OP_COPY, false},
	{"cuMemsetD16", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD16Async", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D16", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D16Async", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D32", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D32Async", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D8", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD2D8Async", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD32", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD32Async", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD8", PERFX_GPU_OP_MEMSET, false},
	{"cuMemsetD8Async", PERFX_GPU_OP_MEMSET, false},
	{"cuStreamSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cudaDeviceSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cudaEventSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cudaGraphLaunch", PERFX_GPU_OP_GRAPH, false},
	{"cudaLaunchCooperativeKernel", PERFX_GPU_OP_KERNEL, false},
	{"cudaLaunchCooperativeKernelMultiDevice", PERFX_GPU_OP_KERNEL, false},
	{"cudaLaunchKernel", PERFX_GPU_OP_KERNEL, false},
	{"cudaLaunchKernelExC", PERFX_GPU_OP_KERNEL, false},
	{"cudaMemcpy", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpy2D", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpy2DAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpy2DFromArray", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpy2DFromArrayAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpy2DToArray", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpy2DToArrayAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpy3D", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpy3DAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpy3DPeer", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpy3DPeerAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyBatchAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyFromSymbol", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpyFromSymbolAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyPeer", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyPeerAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemcpyToSymbol", PERFX_GPU_OP_COPY, true},
	{"cudaMemcpyToSymbolAsync", PERFX_GPU_OP_COPY, false},
	{"cudaMemset", PERFX_GPU_OP_MEMSET, false},
	{"cudaMemset2D", PERFX_GPU_OP_MEMSET, false},
	{"cudaMemset2DAsync", PERFX_GPU_OP_MEMSET, false},
	{"cudaMemset3D", PERFX_GPU_OP_MEMSET, false},
	{"cudaMemset3DAsync", PERFX_GPU_OP_MEMSET, false},
	{"cudaMemsetAsync", PERFX_GPU_OP_MEMSET, false},
	{"cudaStreamSynchronize", PERFX_GPU_OP_SYNC, true},
	{"cudaThreadSynchronize", PERFX_GPU_OP_SYNC, true},
};

#define NAME_BYTES_MAX 64 /* longer ones are none of these */

static int compare_call(const void *key, const void *element)
{
	return strcmp(key, ((const struct gpu_call *)element)->name);
}

static void cut_ending(char *name, const char *ending)
{
	size_t length = strlen(name), cut = strlen(ending);

	if (length > cut && !strcmp(name + length - cut, ending))
		name[length - cut] = '\0';
}

/* cuMemcpyHtoD_v2 → cuMemcpyHtoD */
static void cut_version(char *name)
{
	char *end = name + strlen(name);

	while (end > name && isdigit((unsigned char)end[-1]))
		end--;
	if (end - name > 2 && *end && end[-1] == 'v' && end[-2] == '_')
		end[-2] = '\0';
}

const struct gpu_call *gpu_call_find(const char *name)
{
	char plain[NAME_BYTES_MAX];
	size_t length = strlen(name);

	if (length >= sizeof(plain) || (strncmp(name, "cu", 2) && strncmp(name, "__cuda", 6)))
		return NULL;
	memcpy(plain, name, length + 1);
	/* the twins for a default stream of each thread: cuda.h, cuda_runtime_api.h */
	cut_ending(plain, "_ptsz");
	cut_ending(plain, "_ptds");
	cut_version(plain);
	return bsearch(plain, calls, sizeof(calls) / sizeof(calls[0]), sizeof(calls[0]),
		       compare_call);
}
