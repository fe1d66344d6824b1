// SPDX-License-Identifier: BSD-2-Clause
#include "plan/defaults.h"

#include "interest_fixture.h"

/* Names as the libraries spell them (torch 1.13 and 2.x, OpenBLAS, MKL, NumPy, SciPy, jaxlib). */
Test(defaults, what_is_traced_when_nobody_says)
{
	static const struct {
		const char *symbol;
		enum perfx_source source;
	} rows[] = {
		{"_ZN2at4_ops2mm4callERKNS_6TensorES4_", PERFX_SOURCE_TORCH},
		{"_ZN2at4_ops9addmm_out4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_RS2_",
		 PERFX_SOURCE_TORCH},
		{"_ZN2at4_ops20convolution_backward4callERKNS_6TensorES4_", PERFX_SOURCE_TORCH},
		{"_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EE",
		 PERFX_SOURCE_TORCH},
		{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteEN4absl12lts_202508144SpanE",
		 PERFX_SOURCE_JAX},
		{"_ZN3xla3cpu13ThunkExecutor13TracedExecuteERNS0_5ThunkE", PERFX_SOURCE_XLA},
		{"_Z19TFE_Py_TapeGradientP7_objectS0_S0_S0_S0_S0_P10TSL_Status", PERFX_SOURCE_TF},
		{"_Z29TFE_Py_TapeSetRecordOperationP7_objectS0_S0_S0_S0_", PERFX_SOURCE_INVALID},
		{"sgemm_", PERFX_SOURCE_BLAS},
		{"cblas_dgemm", PERFX_SOURCE_BLAS},
		{"cblas_sgemm_batch", PERFX_SOURCE_BLAS},
		{"scipy_cblas_sgemm64_", PERFX_SOURCE_BLAS},
		{"scipy_dgemm_", PERFX_SOURCE_BLAS},
		{"zgemm3m_64_", PERFX_SOURCE_BLAS},
		{"dnnl_sgemm", PERFX_SOURCE_BLAS},
		{"gemm_bf16bf16f32_", PERFX_SOURCE_BLAS},
		{"_ZN2at4_ops14avg_pool2d_out4callERKNS_6TensorE", PERFX_SOURCE_TORCH},
		/* repeats call, or is no leaf, or is somebody's own */
		{"_ZN2at4_ops2mm10redispatchEN3c1014DispatchKeySetERKNS_6TensorES6_",
		 PERFX_SOURCE_INVALID},
		{"_ZN2at4_ops6linear4callERKNS_6TensorES4_", PERFX_SOURCE_INVALID},
		{"_ZN2at4_ops999mm4callE", PERFX_SOURCE_INVALID},
		{"_ZN2at4_ops", PERFX_SOURCE_INVALID},
		{"sgemm", PERFX_SOURCE_INVALID},
		{"my_sgemm_", PERFX_SOURCE_INVALID},
		{"sgemm_kernel", PERFX_SOURCE_INVALID},
		{"main", PERFX_SOURCE_INVALID},
		{"", PERFX_SOURCE_INVALID},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(default_function("libx.so", rows[i].symbol), rows[i].source, "%s",
			     rows[i].symbol);
		if (rows[i].source)
			cr_expect(interests("libx.so", rows[i].symbol), "%s", rows[i].symbol);
	}
}

Test(defaults, most_names_interest_nobody)
{
	cr_expect_not(interests("libtorch_cpu.so", "_ZN2at6native3addERKNS_6TensorES3_"));
	cr_expect_not(interests("libtorch_cpu.so", "_ZN2at4_op"));
	cr_expect_not(interests("libtorch_cpu.so", "_Z"));
	cr_expect_not(interests("libtorch_cpu.so", "nnp_shdotxf8__avx2"));
	cr_expect_not(interests("libtorch_cpu.so", ""));
	/* all forms of an operator, of which `call` is one */
	cr_expect(interests("libtorch_cpu.so", "_ZN2at4_ops2mm10redispatchE"));
	/* where the function's name is found that JAX has compiled */
	cr_expect(interests("libjax_common.so", "_ZNK3xla17PjRtCpuExecutable4nameEv"));
	/* in its own library alone */
	cr_expect(interests("libnccl.so.2", "ncclAllReduce"));
	cr_expect_not(interests("libmine.so", "ncclAllReduce"));
}

/* Anybody's function may be called cuSomething. */
Test(defaults, entry_points_in_their_own_libraries_alone)
{
	static const char cublas[] = "cublasSgemm_v2", reduce[] = "ncclAllReduce";

	cr_expect_eq(default_function("libcublas.so.13", cublas), PERFX_SOURCE_CUDA);
	cr_expect_eq(default_function("libmine.so", cublas), PERFX_SOURCE_INVALID);
	cr_expect_eq(default_function("libnccl.so.2", reduce), PERFX_SOURCE_NCCL);
	cr_expect_eq(default_function("librccl.so.1", reduce), PERFX_SOURCE_NCCL);
	cr_expect_eq(default_function("libmine.so", reduce), PERFX_SOURCE_INVALID);
	cr_expect_eq(default_function("libnccl.so.2", "ncclGroupStart"), PERFX_SOURCE_INVALID);
}

/* Those in which ranks meet: not a broadcast, whose root leaves first. */
Test(defaults, collectives)
{
	cr_expect_eq(default_function("libmpi.so.40", "MPI_Allreduce"), PERFX_SOURCE_MPI);
	cr_expect_eq(default_function("libmpi.so.40", "MPI_Bcast"), PERFX_SOURCE_INVALID);
	cr_expect_eq(default_function("libmine.so", "MPI_Allreduce"), PERFX_SOURCE_INVALID);
	cr_expect_eq(default_function("libtorch_cpu.so",
				      "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013"),
		     PERFX_SOURCE_TORCH);
	cr_expect(default_module("libmpi.so.40"));
}

Test(defaults, files_worth_searching)
{
	cr_expect(default_module("libtorch_cpu.so.1.13"));
	cr_expect(default_module("libopenblasp-r0.3.21.so"));
	cr_expect(default_module("libscipy_openblas64_-32a4b2a6.so"));
	cr_expect(default_module("libjax_common.so"));
	cr_expect_not(default_module("libtorch_cuda.so"));
	cr_expect_not(default_module("libc.so.6"));
	cr_expect_not(default_module("python3.11"));
}

Test(defaults, return_probes_only_where_nothing_unwinds)
{
	cr_expect(return_probe_is_safe("libc.so.6", "malloc"));
	cr_expect(return_probe_is_safe("libopenblas.so.0", "sgemm_"));
	cr_expect(return_probe_is_safe("libcudart.so.13", "cudaLaunchKernel"));
	cr_expect(return_probe_is_safe("libnccl.so.2", "ncclAllReduce"));
	/* calls back into the program, which may throw */
	cr_expect_not(return_probe_is_safe("libc.so.6", "qsort"));
	/* a name like CUDA's in somebody's own file */
	cr_expect_not(return_probe_is_safe("train", "cudaLaunchKernel"));
	cr_expect_not(return_probe_is_safe("train", "cuStep"));
	cr_expect_not(return_probe_is_safe("libcudart.so.13", "cudart_private"));
	cr_expect_not(return_probe_is_safe("libtorch_cpu.so", "_ZN2at4_ops2mm4callERKNS_6TensorE"));
}

Test(defaults, sources_of_chosen_functions)
{
	cr_expect_eq(source_of_function("libtorch_cpu.so", "_ZN2at4_ops6linear4callERKNS_6TensorE"),
		     PERFX_SOURCE_TORCH);
	cr_expect_eq(source_of_function("libnccl.so.2", "ncclAllReduce"), PERFX_SOURCE_NCCL);
	cr_expect_eq(source_of_function("train", "forward"), PERFX_SOURCE_SYMBOL);
}
