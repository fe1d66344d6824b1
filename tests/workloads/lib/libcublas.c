/* SPDX-License-Identifier: BSD-2-Clause */
/* cuBLAS without a GPU: accepts every call and does nothing. */
#include "cuda_api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

__attribute__((noipa)) CUBLAS_GEMM(cublasSgemm_v2, int)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM(cublasDgemm_v2, int)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM(cublasCgemm_v2, int)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM(cublasZgemm_v2_64, int64_t)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM(cublasHgemm, int)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM_EX(cublasGemmEx, int)
{
	return 0;
}

/* As cuBLAS may do: by cuBLASLt, whose FLOPs do not count again. */
__attribute__((noipa)) CUBLAS_GEMM_EX(cublasGemmEx_64, int64_t)
{
	handle layouts[3];

	cublasLtMatrixLayoutCreate(&layouts[0], type_a, (uint64_t)m, (uint64_t)k, lda);
	cublasLtMatrixLayoutCreate(&layouts[1], type_b, (uint64_t)k, (uint64_t)n, ldb);
	cublasLtMatrixLayoutCreate(&layouts[2], type_c, (uint64_t)m, (uint64_t)n, ldc);
	cublasLtMatmul(h, NULL, alpha, a, layouts[0], b, layouts[1], beta, c, layouts[2], c,
		       layouts[2], NULL, NULL, 0, NULL);
	for (int i = 0; i < 3; i++)
		cublasLtMatrixLayoutDestroy(layouts[i]);
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM_STRIDED(cublasSgemmStridedBatched)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM_STRIDED(cublasCgemmStridedBatched)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_GEMM_BATCHED(cublasDgemmBatched)
{
	return 0;
}

__attribute__((noipa)) word cublasGemmStridedBatchedEx(handle h, word ta, word tb, int m, int n,
						       int k, in alpha, in a, word type_a, int lda,
						       long long stride_a, in b, word type_b,
						       int ldb, long long stride_b, in beta, out c,
						       word type_c, int ldc, long long stride_c,
						       int count, word compute, word algorithm)
{
	return 0;
}

__attribute__((noipa)) word cublasGemmBatchedEx(handle h, word ta, word tb, int m, int n, int k,
						in alpha, in_list a, word type_a, int lda,
						in_list b, word type_b, int ldb, in beta,
						out_list c, word type_c, int ldc, int count,
						word compute, word algorithm)
{
	return 0;
}

__attribute__((noipa)) word cublasSgemmGroupedBatched(handle h, const word *ta, const word *tb,
						      const int *m, const int *n, const int *k,
						      in alpha, in_list a, const int *lda,
						      in_list b, const int *ldb, in beta,
						      out_list c, const int *ldc, int groups,
						      const int *sizes)
{
	return 0;
}

__attribute__((noipa)) word cublasGemmGroupedBatchedEx(handle h, const word *ta, const word *tb,
						       const int *m, const int *n, const int *k,
						       in alpha, in_list a, word type_a,
						       const int *lda, in_list b, word type_b,
						       const int *ldb, in beta, out_list c,
						       word type_c, const int *ldc, int groups,
						       const int *sizes, word compute)
{
	return 0;
}

__attribute__((noipa)) word cublasSgemv_v2(handle h, word trans, int m, int n, in alpha, in a,
					   int lda, in x, int incx, in beta, out y, int incy)
{
	return 0;
}

__attribute__((noipa)) word cublasSgemvStridedBatched(handle h, word trans, int m, int n, in alpha,
						      in a, int lda, long long stride_a, in x,
						      int incx, long long stride_x, in beta, out y,
						      int incy, long long stride_y, int count)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_SYMM(cublasDsymm_v2)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_SYMM(cublasZhemm_v2)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_SYRK(cublasSsyrk_v2)
{
	return 0;
}

__attribute__((noipa)) CUBLAS_SYRK(cublasCherk_v2)
{
	return 0;
}

__attribute__((noipa)) word cublasDtrmm_v2(handle h, word side, word uplo, word trans, word diag,
					   int m, int n, in alpha, in a, int lda, in b, int ldb,
					   out c, int ldc)
{
	return 0;
}

__attribute__((noipa)) word cublasStrsm_v2(handle h, word side, word uplo, word trans, word diag,
					   int m, int n, in alpha, in a, int lda, out b, int ldb)
{
	return 0;
}

__attribute__((noipa)) word cublasStrsmBatched(handle h, word side, word uplo, word trans,
					       word diag, int m, int n, in alpha, in_list a,
					       int lda, out_list b, int ldb, int count)
{
	return 0;
}

__attribute__((noipa)) void cublasSgemm(char ta, char tb, int m, int n, int k, float alpha, in a,
					int lda, in b, int ldb, float beta, out c, int ldc)
{
}
