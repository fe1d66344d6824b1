/* SPDX-License-Identifier: BSD-2-Clause */
#include "cost/gpu_calls.h"

#include <criterion/criterion.h>
#include <stdint.h>

static const char runtime[] = "libcudart.so.13", driver[] = "libcuda.so.1";

static void check_program(const char *base, const char *symbol, uint32_t flags)
{
	struct perfx_cost_program program;

	cr_expect(gpu_call_is(base, symbol), "%s", symbol);
	cr_assert_eq(gpu_call_program(base, symbol, &program), 0, "%s", symbol);
	cr_expect_eq(program.flags, flags, "%s: %x", symbol, program.flags);
}

Test(gpu_calls, programs)
{
	static const char *const of_runtime[] = {
		"__cudaLaunchKernel",
		"cudaLaunchKernel",
		"cudaLaunchCooperativeKernel",
		"cudaLaunchKernelExC",
		"cudaLaunchKernel_ptsz",
		"cudaGraphLaunch",
		"cudaMemcpy",
		"cudaMemcpyAsync_ptsz",
		"cudaMemcpy2D",
		"cudaMemcpy2DAsync",
		"cudaMemcpy2DToArray",
		"cudaMemcpy2DFromArrayAsync",
		"cudaMemcpyToSymbol",
		"cudaMemcpyFromSymbol",
		"cudaMemcpy3D",
		"cudaMemcpy3DAsync_ptsz",
		"cudaMemcpyPeerAsync",
		"cudaMemcpy3DPeer",
		"cudaMemcpyBatchAsync",
		"cudaMemset_ptds",
		"cudaMemset2DAsync",
		"cudaMemset3D",
		"cudaStreamSynchronize_ptsz",
	};
	static const char *const of_driver[] = {
		"cuLaunchKernel",
		"cuLaunchKernelEx_ptsz",
		"cuLaunchCooperativeKernel",
		"cuGraphLaunch_ptsz",
		"cuMemcpy",
		"cuMemcpyAsync_ptsz",
		"cuMemcpyHtoD_v2",
		"cuMemcpyDtoHAsync_v2",
		"cuMemcpyDtoD_v2_ptds",
		"cuMemcpyHtoA_v2",
		"cuMemcpyAtoHAsync_v2",
		"cuMemcpyDtoA_v2",
		"cuMemcpyAtoD_v2",
		"cuMemcpyAtoA_v2",
		"cuMemcpyPeer",
		"cuMemcpy2D_v2",
		"cuMemcpy2DAsync_v2",
		"cuMemcpy2DUnaligned_v2_ptds",
		"cuMemcpy3D_v2",
		"cuMemcpy3DPeerAsync",
		"cuMemcpyBatchAsync_v2_ptsz",
		"cuMemsetD8_v2",
		"cuMemsetD16Async",
		"cuMemsetD32_v2_ptds",
		"cuMemsetD2D8_v2",
		"cuMemsetD2D16Async",
		"cuMemsetD2D32_v2",
		"cuCtxSynchronize",
	};

	for (size_t i = 0; i < sizeof(of_runtime) / sizeof(of_runtime[0]); i++)
		check_program(runtime, of_runtime[i], PERFX_COST_F_DEVICE | PERFX_COST_F_NOTES);
	for (size_t i = 0; i < sizeof(of_driver) / sizeof(of_driver[0]); i++)
		check_program(driver, of_driver[i], PERFX_COST_F_DEVICE | PERFX_COST_F_NOTES);
}

Test(gpu_calls, names_of_kernels)
{
	static const char *const of_driver[] = {"cuModuleGetFunction", "cuLibraryGetKernel",
						"cuKernelGetFunction", "cuFuncGetName",
						"cuKernelGetName"};

	for (size_t i = 0; i < sizeof(of_driver) / sizeof(of_driver[0]); i++) {
		check_program(driver, of_driver[i], PERFX_COST_F_NOTES);
		cr_expect_null(gpu_call_find(of_driver[i]), "%s is no work", of_driver[i]);
	}
	check_program(runtime, "__cudaGetKernel", PERFX_COST_F_NOTES);
	check_program(runtime, "cudaLibraryGetKernel", PERFX_COST_F_NOTES);
}

/* Functions of other libraries, and those whose structure is another one. */
Test(gpu_calls, no_program)
{
	struct perfx_cost_program program;

	cr_expect_lt(gpu_call_program(driver, "cuMemcpy2D", &program), 0);
	cr_expect_not(gpu_call_is("libmine.so", "cudaLaunchKernel"));
	cr_expect_lt(gpu_call_program("libmine.so", "cudaLaunchKernel", &program), 0);
	cr_expect_not(gpu_call_is(runtime, "cuLaunchKernel"));
	cr_expect_not(gpu_call_is(runtime, "cudaMalloc"));
	cr_expect_not(gpu_call_is(runtime, "cudaMemcpy_v2x"));
	cr_expect_not(gpu_call_is(runtime, "cudaMemcpy_"));
	cr_expect_not(gpu_call_is(runtime, ""));
}

static void check_call(const char *name, enum perfx_gpu_op op, bool waits)
{
	const struct gpu_call *call = gpu_call_find(name);

	cr_assert(call, "%s", name);
	cr_expect_eq(call->op, op, "%s", name);
	cr_expect_eq(call->waits, waits, "%s", name);
}

Test(gpu_calls, what_they_do)
{
	check_call("cuLaunchKernelEx", PERFX_GPU_OP_KERNEL, false);
	check_call("cudaGraphLaunch_ptsz", PERFX_GPU_OP_GRAPH, false);
	check_call("cuMemcpyDtoH_v2_ptds", PERFX_GPU_OP_COPY, true);
	check_call("cuMemcpyDtoHAsync_v2", PERFX_GPU_OP_COPY, false);
	check_call("cuMemcpyDtoD_v2", PERFX_GPU_OP_COPY, false);
	check_call("cudaMemset", PERFX_GPU_OP_MEMSET, false);
	check_call("cuCtxSynchronize_v2", PERFX_GPU_OP_SYNC, true);
	cr_expect_null(gpu_call_find("cudaMalloc"));
}
