// SPDX-License-Identifier: BSD-2-Clause
/* Names as the libraries spell them, called as they are called: what the table makes of them. */
#include "cost_fixture.h"

#define TORCH	 "libtorch_cpu.so"
#define OPERATOR "_ZN2at4_ops"

static struct outcome result_of(const char *base, const char *symbol, const struct call *call)
{
	struct builtin builtin;
	struct perfx_cost_program cost;
	char why[256] = "";

	cr_assert(builtin_find(base, symbol, &builtin), "%s", symbol);
	cr_assert_eq(cost_compile(builtin.text, &cost, why, sizeof(why)), 0, "%s: %s", symbol, why);
	return run_cost_program(&cost, call);
}

static void expect(const char *base, const char *symbol, const struct call *call, uint64_t flops,
		   uint64_t bytes, enum perfx_dtype dtype)
{
	struct outcome outcome = result_of(base, symbol, call);

	cr_expect(outcome.ok, "%s: unread", symbol);
	cr_expect_eq(outcome.flops, flops, "%s: flops %lu, not %lu", symbol,
		     (unsigned long)outcome.flops, (unsigned long)flops);
	cr_expect_eq(outcome.bytes, bytes, "%s: bytes %lu, not %lu", symbol,
		     (unsigned long)outcome.bytes, (unsigned long)bytes);
	cr_expect_eq(outcome.dtype, (int)dtype, "%s: dtype %d", symbol, outcome.dtype);
}

/* What a register holds above an int is junk. */
#define JUNK 0x5555555500000000ull

enum { M = 7, N = 11, K = 5 };

static const int32_t m32 = M, n32 = N, k32 = K;
static const int64_t m64 = M, n64 = N, k64 = K;

#define C_GEMM                                                             \
	{                                                                  \
		.args = { 0, 101, 111, 111, JUNK | M, JUNK | N, JUNK | K } \
	}
#define C_GEMM_64                                     \
	{                                             \
		.args = { 0, 101, 111, 111, M, N, K } \
	}
#define F_GEMM                                                                   \
	{                                                                        \
		.args = { 0, 1, 1, address(&m32), address(&n32), address(&k32) } \
	}
#define F_GEMM_64                                                                \
	{                                                                        \
		.args = { 0, 1, 1, address(&m64), address(&n64), address(&k64) } \
	}
#define GEMM_BYTES(e, r) ((e)*K * (M + N) + (r)*M * N)

Test(builtin, gemm)
{
	struct call c = C_GEMM, c64 = C_GEMM_64, f = F_GEMM, f64 = F_GEMM_64;
	struct {
		const char *symbol;
		const struct call *call;
		int x, e, r;
		enum perfx_dtype dtype;
	} rows[] = {
		{"cblas_sgemm", &c, 1, 4, 4, PERFX_DTYPE_F32},
		{"cblas_dgemm", &c, 1, 8, 8, PERFX_DTYPE_F64},
		{"cblas_cgemm", &c, 4, 8, 8, PERFX_DTYPE_C64},
		{"cblas_zgemm3m", &c, 4, 16, 16, PERFX_DTYPE_C128},
		{"cblas_sbgemm", &c, 1, 2, 4, PERFX_DTYPE_BF16},
		{"cblas_shgemm", &c, 1, 2, 4, PERFX_DTYPE_F16},
		{"cblas_hgemm", &c, 1, 2, 2, PERFX_DTYPE_F16},
		{"cblas_sgemm_compute", &c, 1, 4, 4, PERFX_DTYPE_F32},
		{"cblas_gemm_bf16bf16f32", &c, 1, 2, 4, PERFX_DTYPE_BF16},
		{"cblas_gemm_f16f16f32", &c, 1, 2, 4, PERFX_DTYPE_F16},
		{"cblas_sgemm64_", &c64, 1, 4, 4, PERFX_DTYPE_F32},
		{"cblas_sgemm_64", &c64, 1, 4, 4, PERFX_DTYPE_F32},
		{"scipy_cblas_dgemm64_", &c64, 1, 8, 8, PERFX_DTYPE_F64},
		{"scipy_cblas_dgemm", &c, 1, 8, 8, PERFX_DTYPE_F64},
		{"sgemm_", &f, 1, 4, 4, PERFX_DTYPE_F32},
		{"scipy_dgemm_", &f, 1, 8, 8, PERFX_DTYPE_F64},
		{"scipy_zgemm_64_", &f64, 4, 16, 16, PERFX_DTYPE_C128},
		{"sgemm_64_", &f64, 1, 4, 4, PERFX_DTYPE_F32},
		{"sgemm_64", &f64, 1, 4, 4, PERFX_DTYPE_F32},
		{"gemm_bf16bf16f32_", &f, 1, 2, 4, PERFX_DTYPE_BF16},
		{"gemm_bf16bf16f32_64_", &f64, 1, 2, 4, PERFX_DTYPE_BF16},
		{"sbgemm_", &f, 1, 2, 4, PERFX_DTYPE_BF16},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect("libx.so", rows[i].symbol, rows[i].call,
		       (uint64_t)(2 * rows[i].x * M * N * K),
		       (uint64_t)GEMM_BYTES(rows[i].e, rows[i].r), rows[i].dtype);
}

/* An interface of 64-bit integers under the plain names. */
Test(builtin, wide_libraries)
{
	struct call c = C_GEMM, c64 = C_GEMM_64;

	c64.args[4] = 1ull << 32;
	expect("libopenblas64.so.0", "cblas_sgemm", &c64, 2ull * (1ull << 32) * N * K,
	       4ull * (K * ((1ull << 32) + N) + (1ull << 32) * N), PERFX_DTYPE_F32);
	expect("libmkl_intel_ilp64.so.2", "cblas_sgemm", &c64, 2ull * (1ull << 32) * N * K,
	       4ull * (K * ((1ull << 32) + N) + (1ull << 32) * N), PERFX_DTYPE_F32);
	expect("libopenblas.so.0", "cblas_sgemm", &c, 2 * M * N * K, GEMM_BYTES(4, 4),
	       PERFX_DTYPE_F32);
}

Test(builtin, blas_by_side)
{
	/* order, side, uplo, …: left 141, right 142 */
	struct call symm = {.args = {0, 101, JUNK | 141, 121, M, N}}, symm_right = symm;
	struct call trsm = {.args = {0, 101, 141, 121, 111, 131, M}, .stack = {0, JUNK | N}};
	struct call trsm_right = trsm;
	struct call ftrsm = {.args = {0, address("Lx"), 0, 0, 0, address(&m32), address(&n32)}};
	struct call fsymm = {.args = {0, address("rx"), 0, address(&m32), address(&n32)}};
	const uint64_t left = M * (M + 1) / 2, right = N * (N + 1) / 2;

	symm_right.args[2] = trsm_right.args[2] = 142;
	expect("x", "cblas_ssymm", &symm, 2 * M * M * N, 4 * (left + 2 * M * N), PERFX_DTYPE_F32);
	expect("x", "cblas_zhemm", &symm_right, 8 * M * N * N, 16 * (right + 2 * M * N),
	       PERFX_DTYPE_C128);
	expect("x", "cblas_dtrsm", &trsm, M * M * N, 8 * (left + M * N), PERFX_DTYPE_F64);
	expect("x", "cblas_ctrmm", &trsm_right, 4 * M * N * N, 8 * (right + M * N),
	       PERFX_DTYPE_C64);
	expect("x", "strsm_", &ftrsm, M * M * N, 4 * (left + M * N), PERFX_DTYPE_F32);
	ftrsm.args[1] = address("l");
	expect("x", "strmm_", &ftrsm, M * M * N, 4 * (left + M * N), PERFX_DTYPE_F32);
	ftrsm.args[1] = address("R");
	expect("x", "strmm_", &ftrsm, M * N * N, 4 * (right + M * N), PERFX_DTYPE_F32);
	expect("x", "dsymm_", &fsymm, 2 * M * N * N, 8 * (right + 2 * M * N), PERFX_DTYPE_F64);
}

Test(builtin, blas_of_one_triangle)
{
	struct call c = {.args = {0, 101, 121, 111, JUNK | N, K}};
	struct call f = {.args = {0, 1, 1, address(&n32), address(&k32)}};
	struct call ct = {.args = {0, 101, 121, 111, 111, N, K}};
	struct call ft = {.args = {0, 1, 1, 1, address(&n64), address(&k64)}};
	const uint64_t half = N * (N + 1) / 2;

	expect("x", "cblas_dsyrk", &c, N * N * K, 8 * (N * K + half), PERFX_DTYPE_F64);
	expect("x", "cherk_", &f, 4 * N * N * K, 8 * (N * K + half), PERFX_DTYPE_C64);
	expect("x", "cblas_ssyr2k", &c, 2 * N * N * K, 4 * (2 * N * K + half), PERFX_DTYPE_F32);
	expect("x", "zher2k_", &f, 8 * N * N * K, 16 * (2 * N * K + half), PERFX_DTYPE_C128);
	expect("x", "cblas_sgemmt", &ct, N * N * K, 4 * (2 * N * K + half), PERFX_DTYPE_F32);
	expect("x", "scipy_dgemmtr_64_", &ft, N * N * K, 8 * (2 * N * K + half), PERFX_DTYPE_F64);
}

Test(builtin, gemv)
{
	struct call c = {.args = {0, 101, 111, JUNK | M, N}};
	struct call f = {.args = {0, 1, address(&m64), address(&n64)}};

	expect("x", "cblas_sgemv", &c, 2 * M * N, 4 * (M * N + M + N), PERFX_DTYPE_F32);
	expect("x", "zgemv_64_", &f, 8 * M * N, 16 * (M * N + M + N), PERFX_DTYPE_C128);
}

Test(builtin, gemm_of_many)
{
	const int32_t ms[] = {M, 1}, ns[] = {N, 2}, ks[] = {K, 3}, sizes[] = {4, 10};
	const int64_t wide_sizes[] = {4}, wide_count = 1;
	const int32_t one = 1;
	struct call c = {.args = {0, 101, 0, 0, address(ms), address(ns), address(ks)},
			 .stack = {[9] = JUNK | 1, [10] = address(sizes)}};
	struct call f = {.args = {0, 0, 0, address(ms), address(ns), address(ks)},
			 .stack = {[8] = address(&one), [9] = address(sizes)}};
	struct call f64 = {.args = {0, 0, 0, address(&m64), address(&n64), address(&k64)},
			   .stack = {[8] = address(&wide_count), [9] = address(wide_sizes)}};
	struct call strided = C_GEMM, complex = C_GEMM, fstrided = F_GEMM;

	expect("x", "cblas_sgemm_batch", &c, 8 * M * N * K, 4 * GEMM_BYTES(4, 4), PERFX_DTYPE_F32);
	expect("x", "dgemm_batch_", &f, 8 * M * N * K, 4 * GEMM_BYTES(8, 8), PERFX_DTYPE_F64);
	expect("x", "cgemm_batch_64_", &f64, 32 * M * N * K, 4 * GEMM_BYTES(8, 8), PERFX_DTYPE_C64);
	/* several groups: what they touch is left out */
	c.stack[9] = 2;
	expect("x", "cblas_sgemm_batch", &c, 8 * M * N * K + 2 * 60, 0, PERFX_DTYPE_F32);
	c.stack[9] = 65;
	cr_expect_not(result_of("x", "cblas_sgemm_batch", &c).ok);
	strided.stack[10] = JUNK | 3;
	expect("x", "cblas_sgemm_batch_strided", &strided, 6 * M * N * K, 3 * GEMM_BYTES(4, 4),
	       PERFX_DTYPE_F32);
	complex.stack[12] = 3;
	expect("x", "cblas_zgemm_batch_strided", &complex, 24 * M * N * K, 3 * GEMM_BYTES(16, 16),
	       PERFX_DTYPE_C128);
	fstrided.stack[11] = address(&k32);
	expect("x", "sgemm_batch_strided_", &fstrided, 10 * M * N * K, 5 * GEMM_BYTES(4, 4),
	       PERFX_DTYPE_F32);
}

Test(builtin, onednn_and_ynnpack)
{
	struct call dnnl = {.args = {0, 'N', 'T', M, N, K}};
	struct call dot = {.args = {0, M, N, 2, 3, K}};
	const uint64_t k = 6 * K;

	expect("x", "dnnl_sgemm", &dnnl, 2 * M * N * K, GEMM_BYTES(4, 4), PERFX_DTYPE_F32);
	expect("x", "dnnl_threadpool_interop_sgemm", &dnnl, 2 * M * N * K, GEMM_BYTES(4, 4),
	       PERFX_DTYPE_F32);
	expect("x", "dnnl_gemm_bf16bf16f32", &dnnl, 2 * M * N * K, GEMM_BYTES(2, 4),
	       PERFX_DTYPE_BF16);
	expect("libjax_common.so", "_ZN3ynn25dot_fp32_2x16x1_1x8x1_avxEmmmmmmmmPKvmmmS1_mS1_mPv",
	       &dot, 2 * M * N * k, 4 * (k * (M + N) + M * N), PERFX_DTYPE_F32);
	expect("libjax_common.so",
	       "_ZN3ynn43dot_bf16_bf16_fp32_16x64x2_16x16x2_amxbf16EmmmmmmmmPKvmmmS1_mS1_mPv", &dot,
	       2 * M * N * k, 2 * k * (M + N) + 4 * M * N, PERFX_DTYPE_BF16);
	expect("libjax_common.so",
	       "_ZN3ynn12_GLOBAL__N_117dot_1x128x1_1x1x1IdddEEvmmmmmmmmPKT_mmmPKT0_mPKT1_mPS8_",
	       &dot, 2 * M * N * k, 8 * (k * (M + N) + M * N), PERFX_DTYPE_F64);
}

Test(builtin, products_of_tensors)
{
	const uint64_t a = TENSOR(F32, M, K), b = TENSOR(F32, K, N), bias = TENSOR(F32, N);
	const uint64_t x = TENSOR(BF16, 3, M, K), y = TENSOR(BF16, 3, K, N);
	const uint64_t v = TENSOR(F64, K), w = TENSOR(F64, M, K), z = TENSOR(C64, M, K);
	const uint64_t f8 = TENSOR(F8, M, K), g8 = TENSOR(F8, K, N), zb = TENSOR(C64, K, N);
	const uint64_t mm = 2 * M * N * K, mm_bytes = GEMM_BYTES(1, 1), bmm = 3 * mm;
	struct {
		const char *symbol;
		struct call call;
		uint64_t flops, bytes;
		enum perfx_dtype dtype;
	} rows[] = {
		{OPERATOR "2mm4callERKNS_6TensorES4_",
		 {{0, 1, a, b}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "6mm_out4callERKNS_6TensorES4_RS2_",
		 {{0, a, b, 1}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "2mm4callERKNS_6TensorES4_",
		 {{0, 1, z, zb}, {0}, 0},
		 4 * mm,
		 8 * mm_bytes,
		 PERFX_DTYPE_C64},
		{OPERATOR "5addmm4callE",
		 {{0, 1, bias, a, b}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "9addmm_out4callE",
		 {{0, bias, a, b}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "6addmm_4callE",
		 {{0, bias, a, b}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "17_addmm_activation4callE",
		 {{0, 1, bias, a, b}, {0}, 0},
		 mm,
		 4 * mm_bytes,
		 PERFX_DTYPE_F32},
		{OPERATOR "10_scaled_mm4callE",
		 {{0, 1, f8, g8}, {0}, 0},
		 mm,
		 mm_bytes,
		 PERFX_DTYPE_F8},
		{OPERATOR "3bmm4callE",
		 {{0, 1, x, y}, {0}, 0},
		 bmm,
		 6 * mm_bytes,
		 PERFX_DTYPE_BF16},
		{OPERATOR "7baddbmm4callE",
		 {{0, 1, bias, x, y}, {0}, 0},
		 bmm,
		 6 * mm_bytes,
		 PERFX_DTYPE_BF16},
		{OPERATOR "12baddbmm_out_4callE", {{0}, {0}, 0}, 0, 0, 0},
		{OPERATOR "2mv4callE",
		 {{0, 1, w, v}, {0}, 0},
		 2 * M * K,
		 8 * (M * K + M + K),
		 PERFX_DTYPE_F64},
		{OPERATOR "9addmv_out4callE",
		 {{0, bias, w, v}, {0}, 0},
		 2 * M * K,
		 8 * (M * K + M + K),
		 PERFX_DTYPE_F64},
		{OPERATOR "3dot4callE", {{0, 1, v, v}, {0}, 0}, 2 * K, 8 * 2 * K, PERFX_DTYPE_F64},
		{OPERATOR "6linear4callE",
		 {{0, 1, x, TENSOR(BF16, N, K)}, {0}, 0},
		 bmm,
		 2 * (3 * M * K + N * K + 3 * M * N),
		 PERFX_DTYPE_BF16},
		{OPERATOR "13mkldnn_linear4callE",
		 {{0, 1, x, TENSOR(BF16, K)}, {0}, 0},
		 6 * M * K,
		 2 * (3 * M * K + K + 3 * M),
		 PERFX_DTYPE_BF16},
	};
	struct builtin builtin;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].flops)
			cr_expect_not(builtin_find(TORCH, rows[i].symbol, &builtin));
		else
			expect(TORCH, rows[i].symbol, &rows[i].call, rows[i].flops, rows[i].bytes,
			       rows[i].dtype);
	}
}

/* A tensor that is none, or two that do not go together, have no known cost. */
Test(builtin, tensors_are_checked)
{
	static const char mm[] = OPERATOR "2mm4callERKNS_6TensorES4_";
	struct tensor wrong;
	struct call call = {.args = {0, 1, TENSOR(F32, M, K), TENSOR(F32, K + 1, N)}};
	const int64_t sizes[] = {K, N};

	cr_expect_not(result_of(TORCH, mm, &call).ok);
	tensor_make(&wrong, F32, sizes, 2);
	call.args[3] = address(&wrong);
	cr_expect(result_of(TORCH, mm, &call).ok);
	wrong.own.numel++;
	cr_expect_not(result_of(TORCH, mm, &call).ok);
	wrong.impl = NULL;
	cr_expect_not(result_of(TORCH, mm, &call).ok);
	/* empty ones are right */
	call.args[2] = TENSOR(F32, 0, K);
	call.args[3] = TENSOR(F32, K, N);
	expect(TORCH, mm, &call, 0, 4 * K * N, PERFX_DTYPE_F32);
}

Test(builtin, convolution)
{
	static const char name[] = OPERATOR "11convolution4callERKNS_6TensorE";
	static const char out_name[] = OPERATOR "15convolution_out4callERKNS_6TensorE";
	const uint64_t in = TENSOR(F32, 2, 6, 9, 9), weight = TENSOR(F32, 8, 3, 3, 3);
	const uint64_t out = TENSOR(F32, 2, 8, 7, 7),
		       bytes = 4 * (2 * 6 * 81 + 8 * 27 + 2 * 8 * 49);
	/* two groups: a sum over 3 channels of 9 for every element of the result */
	const uint64_t flops = 2 * 2 * 8 * 49 * 27;
	struct call call = {.args = {0, out, in, weight}, .stack = {[5] = JUNK}};
	struct call of_out = {.args = {0, in, weight, 0, 0, 0, JUNK}, .result = out};
	struct call volume = {.args = {0, TENSOR(F64, 1, 3, 3, 3, 3), TENSOR(F64, 1, 2, 4, 4, 4),
				       TENSOR(F64, 3, 2, 2, 2, 2)}};
	/* the weight of a transposed one: (in, out / groups, …) */
	struct call transposed = {.args = {0, TENSOR(F32, 2, 3, 15, 15), TENSOR(F32, 2, 8, 7, 7),
					   weight},
				  .stack = {[5] = JUNK | 1}};

	expect(TORCH, name, &call, flops, bytes, PERFX_DTYPE_F32);
	expect(TORCH, OPERATOR "12_convolution4callE", &call, flops, bytes, PERFX_DTYPE_F32);
	expect(TORCH, out_name, &of_out, flops, bytes, PERFX_DTYPE_F32);
	expect(TORCH, name, &volume, 2 * 3 * 27 * 16, 8 * (128 + 48 + 81), PERFX_DTYPE_F64);
	expect(TORCH, name, &transposed, 2 * 2 * 8 * 49 * 27,
	       4 * (2 * 8 * 49 + 8 * 27 + 2 * 3 * 225), PERFX_DTYPE_F32);
}

/* Two layouts of its stack: bias_sizes in two registers (1.13), or three words on the stack. */
Test(builtin, convolution_backward)
{
	static const char name[] = OPERATOR "20convolution_backward4callERKNS_6TensorE";
	static const char native[] =
		"_ZN2at6native20convolution_backwardERKNS_6TensorES3_S3_N3c1016OptionalArrayRefE";
	const uint64_t in = TENSOR(F32, 2, 6, 9, 9), weight = TENSOR(F32, 8, 3, 3, 3);
	const uint64_t grad = TENSOR(F32, 2, 8, 7, 7), each = 2 * 2 * 8 * 49 * 27;
	const uint64_t bytes = 4 * (2 * 6 * 81 + 8 * 27 + 2 * 8 * 49);
	struct call new = {.args = {0, 1, grad, in, weight},
			   .stack = {[2] = 1,
				     [5] = 2,
				     [6] = 0x7ffc00001000,
				     [7] = 2,
				     [8] = JUNK,
				     [12] = JUNK | 0x010101}};
	struct call old = {.args = {0, 1, grad, in, weight},
			   .stack = {[2] = 2,
				     [4] = 2,
				     [6] = 2,
				     [7] = JUNK,
				     [8] = 0x7ffc00001001,
				     [11] = JUNK | 0x000100,
				     [12] = JUNK | 0x777777}};
	struct call transposed = new;

	expect(TORCH, name, &new, 2 * each, 2 * bytes, PERFX_DTYPE_F32);
	expect(TORCH, native, &new, 2 * each, 2 * bytes, PERFX_DTYPE_F32);
	expect(TORCH, name, &old, each, bytes, PERFX_DTYPE_F32);
	old.stack[11] = JUNK | 0x010001;
	expect(TORCH, OPERATOR "24convolution_backward_out4callE", &old, each, bytes,
	       PERFX_DTYPE_F32);
	/* the bias alone */
	new.stack[12] = JUNK | 0x010000;
	expect(TORCH, name, &new, 0, 0, PERFX_DTYPE_F32);
	transposed.stack[8] = JUNK | 1;
	transposed.args[2] = TENSOR(F32, 2, 3, 15, 15);
	transposed.args[3] = TENSOR(F32, 2, 8, 7, 7);
	expect(TORCH, name, &transposed, 2 * each, 2 * 4 * (2 * 3 * 225 + 2 * 8 * 49 + 8 * 27),
	       PERFX_DTYPE_F32);
}

Test(builtin, attention)
{
	/* batch 2, 4 heads, 10 queries of 8, 12 keys; values of 6 */
	const uint64_t q = TENSOR(BF16, 2, 4, 10, 8), k = TENSOR(BF16, 2, 4, 12, 8);
	const uint64_t v = TENSOR(BF16, 2, 4, 12, 6), grad = TENSOR(BF16, 2, 4, 10, 6);
	const uint64_t flops = 2 * 8 * 10 * 12 * (8 + 6);
	const uint64_t back = 2 * 8 * 10 * 12 * (3 * 8 + 2 * 6);
	const uint64_t bytes = 2 * 8 * (80 + 96 + 72 + 60);
	struct call forward = {.args = {0, 1, q, k, v}};
	struct call backward = {.args = {0, 1, grad, q, k, v}};
	struct call flash = {.args = {0, 1, TENSOR(F16, 2, 10, 4, 8), TENSOR(F16, 2, 12, 4, 8),
				      TENSOR(F16, 2, 12, 4, 8)}};
	struct call packed = {.args = {0, 1, TENSOR(F16, 20, 4, 8), TENSOR(F16, 20, 4, 8),
				       TENSOR(F16, 20, 4, 8)}};
	static const char *const forwards[] = {
		OPERATOR "43_scaled_dot_product_flash_attention_for_cpu4callE",
		OPERATOR "39_scaled_dot_product_efficient_attention4callE",
		OPERATOR "35_scaled_dot_product_flash_attention4callE",
		OPERATOR "35_scaled_dot_product_cudnn_attention4callE",
		"_ZN2at6native39_scaled_dot_product_flash_attention_cpuERKNS_6TensorES3_S3_dbE",
	};
	static const char *const backwards[] = {
		OPERATOR "52_scaled_dot_product_flash_attention_for_cpu_backward4callE",
		OPERATOR "48_scaled_dot_product_efficient_attention_backward4callE",
		OPERATOR "44_scaled_dot_product_flash_attention_backward4callE",
		OPERATOR "44_scaled_dot_product_cudnn_attention_backward4callE",
		"_ZN2at6native48_scaled_dot_product_flash_attention_cpu_backwardERKNS_6TensorE",
	};

	for (size_t i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++)
		expect(TORCH, forwards[i], &forward, flops, bytes, PERFX_DTYPE_BF16);
	for (size_t i = 0; i < sizeof(backwards) / sizeof(backwards[0]); i++)
		expect(TORCH, backwards[i], &backward, back, 2 * bytes, PERFX_DTYPE_BF16);
	expect(TORCH, OPERATOR "24_flash_attention_forward4callE", &flash,
	       2 * 8 * 10 * 12 * (8 + 8), 2 * 8 * (80 + 96 + 96 + 80), PERFX_DTYPE_F16);
	cr_expect_not(result_of(TORCH, OPERATOR "24_flash_attention_forward4callE", &packed).ok);
}

Test(builtin, recurrent_layer)
{
	/* 5 steps of 2 sequences of 3; 4 gates of 6 */
	struct call call = {
		.args = {0, 1, TENSOR(F32, 5, 2, 3), TENSOR(F32, 24, 3), TENSOR(F32, 24, 6)}};

	expect(TORCH, OPERATOR "16mkldnn_rnn_layer4callE", &call, 2 * 10 * (24 * 3 + 24 * 6),
	       4 * (30 + 72 + 144), PERFX_DTYPE_F32);
}

#define CUBLAS "libcublas.so.13"

Test(builtin, cublas)
{
	struct call gemm = C_GEMM, many = C_GEMM, wide = C_GEMM_64;
	struct call trsm = {.args = {0, 1, JUNK | 0, 0, 0, 0, M}, .stack = {0, JUNK | N}};
	struct call syrk = {.args = {0, 1, 0, 0, N, K}};
	const uint64_t flops = 2 * M * N * K;
	struct builtin builtin;

	expect(CUBLAS, "cublasSgemm_v2", &gemm, flops, GEMM_BYTES(4, 4), PERFX_DTYPE_F32);
	expect(CUBLAS, "cublasHgemm", &gemm, flops, GEMM_BYTES(2, 2), PERFX_DTYPE_F16);
	wide.args[4] = 1ull << 32;
	expect(CUBLAS, "cublasZgemm_v2_64", &wide, 8ull * (1ull << 32) * N * K,
	       16ull * (K * ((1ull << 32) + N) + (1ull << 32) * N), PERFX_DTYPE_C128);
	many.stack[9] = JUNK | 2;
	many.stack[12] = JUNK | 3;
	many.stack[15] = JUNK | 4;
	many.stack[3] = JUNK | 14; /* CUDA_R_16BF */
	expect(CUBLAS, "cublasDgemmBatched", &many, 2 * flops, 2 * GEMM_BYTES(8, 8),
	       PERFX_DTYPE_F64);
	expect(CUBLAS, "cublasSgemmStridedBatched", &many, 3 * flops, 3 * GEMM_BYTES(4, 4),
	       PERFX_DTYPE_F32);
	expect(CUBLAS, "cublasGemmEx", &many, flops, 0, PERFX_DTYPE_BF16);
	expect(CUBLAS, "cublasSgemmEx", &many, flops, 0, PERFX_DTYPE_BF16);
	expect(CUBLAS, "cublasGemmBatchedEx", &many, 3 * flops, 0, PERFX_DTYPE_BF16);
	expect(CUBLAS, "cublasGemmStridedBatchedEx", &many, 4 * flops, 0, PERFX_DTYPE_BF16);
	many.stack[3] = JUNK | 5;
	expect(CUBLAS, "cublasGemmEx", &many, 4 * flops, 0, PERFX_DTYPE_C128);
	expect(CUBLAS, "cublasDtrsm_v2", &trsm, M * M * N, 8 * (M * (M + 1) / 2 + M * N),
	       PERFX_DTYPE_F64);
	trsm.args[2] = JUNK | 1;
	expect(CUBLAS, "cublasDtrsm_v2", &trsm, M * N * N, 8 * (N * (N + 1) / 2 + M * N),
	       PERFX_DTYPE_F64);
	expect(CUBLAS, "cublasSsyrk_v2", &syrk, N * N * K, 4 * (N * K + N * (N + 1) / 2),
	       PERFX_DTYPE_F32);
	/* the API of 2007 has no handle; other files' functions are their own */
	cr_expect_not(builtin_find(CUBLAS, "cublasSgemm", &builtin));
	cr_expect_not(builtin_find(CUBLAS, "cublasCreate_v2", &builtin));
	cr_expect_not(builtin_find("libmine.so", "cublasSgemm_v2", &builtin));
}

/* (rows, cols) as the library has them: A is k × m, B k × n, D m × n. */
Test(builtin, cublaslt)
{
	static const char lt[] = "libcublasLt.so.13";
	char a_handle[8], d_handle[8];
	uint64_t a_at = 0, one = 6;
	struct call create_a = {.args = {0, address(&a_at), JUNK | 2, K, M, K}};
	struct call init_d = {.args = {0, address(d_handle), 64, JUNK | 2, M, N, M}};
	struct call batch = {.args = {0, address(a_handle), JUNK | 5, address(&one), 4}};
	struct call order = {.args = {0, address(d_handle), JUNK | 1, address(&one), 4}};
	struct call matmul = {.args = {[5] = address(a_handle)},
			      .stack = {[6] = address(d_handle)}};

	a_at = address(a_handle); /* what Create leaves there */
	cr_expect_not(result_of(lt, "cublasLtMatmul", &matmul).ok);
	cr_expect(result_of(lt, "cublasLtMatrixLayoutCreate", &create_a).ok);
	cr_expect(result_of(lt, "cublasLtMatrixLayoutInit_internal", &init_d).ok);
	expect(lt, "cublasLtMatmul", &matmul, 2 * M * N * K, 0, PERFX_DTYPE_F16);
	batch.args[1] = address(d_handle);
	cr_expect(result_of(lt, "cublasLtMatrixLayoutSetAttribute", &batch).ok);
	cr_expect(result_of(lt, "cublasLtMatrixLayoutSetAttribute", &order).ok);
	expect(lt, "cublasLtMatmul", &matmul, 6 * 2 * M * N * K, 0, PERFX_DTYPE_F16);
}

Test(builtin, nccl)
{
	static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	for (uint64_t type = 0; type < 12; type++) {
		struct call call = {.args = {0, 1, 2, 1000, JUNK | type}};
		struct call send = {.args = {0, 1, 1000, JUNK | type}};

		expect("libnccl.so.2", "ncclAllReduce", &call, 0, 1000ull * (uint64_t)bytes[type],
		       PERFX_DTYPE_UNKNOWN);
		expect("librccl.so.1", "ncclSend", &send, 1000ull * (uint64_t)bytes[type],
		       1000ull * (uint64_t)bytes[type], PERFX_DTYPE_UNKNOWN);
	}
}

/* Bus bytes by hand: nccl-tests' factors, of what they call the size of a collective. */
Test(builtin, nccl_over_the_bus)
{
	uint64_t comm = 0x5000;
	struct call init = {.args = {0, address(&comm), JUNK | 6}};
	struct call reduce = {.args = {0, 1, 2, 600, 7, 0, comm}};
	struct call gather = {.args = {0, 1, 2, 600, 7, comm}};
	struct call stranger = {.args = {0, 1, 2, 600, 7, 0, 0x6000}};
	struct call count = {.args = {0, 0x6000, address(&(int){3})}};
	struct call send = {.args = {0, 1, 600, 7, 0, comm}};

	expect("libnccl.so.2", "ncclAllReduce", &stranger, 0, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclCommInitRank", &init, 0, 0, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclAllReduce", &reduce, 2400 * 2 * 5 / 6, 2400,
	       PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclAllGather", &gather, 2400 * 5, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclReduceScatter", &reduce, 2400 * 5, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclAlltoAll", &gather, 2400 * 5, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclBroadcast", &reduce, 2400, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclSend", &send, 2400, 2400, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclCommCount", &count, 0, 0, PERFX_DTYPE_UNKNOWN);
	expect("libnccl.so.2", "ncclAllReduce", &stranger, 2400 * 4 / 3, 2400, PERFX_DTYPE_UNKNOWN);
}

Test(builtin, names_that_are_not_in_it)
{
	static const char *const names[] = {
		"sgemm",
		"my_sgemm_",
		"sgemm_kernel",
		"dgemm_nn",
		"sgemm_batch_thread",
		"main",
		"",
		"_ZN2at4_ops2mm10redispatchEN3c1014DispatchKeySetERKNS_6TensorES6_",
		"_ZN2at4_ops999mm4callE",
		"_ZN2at4_ops",
		"_ZN2at4_ops6matmul4callE",
		"_ZN2at4_ops16convolution_backward4callE",
		"_ZN2at6native2mmE",
		"_ZN3ynn14get_dot_kernelERKNS_8dot_typeE",
		"_ZN3ynn12schedule_dotE",
		"dnnl_sgemm_v2",
		"gemm_bf16bf16f32",
		"ncclAllReduce",
	};
	struct builtin builtin;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_expect_not(builtin_find("libx.so", names[i], &builtin), "%s", names[i]);
}

Test(builtin, what_leads_to_others_is_not_traced_by_default)
{
	struct builtin builtin;

	cr_assert(builtin_find(TORCH, OPERATOR "6linear4callE", &builtin));
	cr_expect_not(builtin.by_default);
	cr_assert(builtin_find(TORCH, OPERATOR "5addmm4callE", &builtin));
	cr_expect(builtin.by_default && builtin.source == PERFX_SOURCE_TORCH);
	cr_assert(builtin_find("libopenblas.so.0", "sgemm_", &builtin));
	cr_expect(builtin.by_default && builtin.source == PERFX_SOURCE_BLAS);
}
