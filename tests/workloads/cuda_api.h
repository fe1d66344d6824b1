/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Some functions of cuBLAS, cuBLASLt and NCCL, as seen by a caller without a GPU: the order and
 * width of the arguments is theirs (CUDA 13); the values behind pointers do not matter. lib/ has
 * the empty libraries.
 */
#ifndef TESTS_WORKLOADS_CUDA_API_H
#define TESTS_WORKLOADS_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef void *handle; /* a library's, a stream, a communicator */
typedef const void *in;
typedef void *out;
typedef int word; /* enumerations: operations, data types, algorithms */
typedef void *const *in_list;
typedef void *const *out_list;

enum { /* cudaDataType */
       TYPE_F32 = 0,
       TYPE_F64 = 1,
       TYPE_F16 = 2,
       TYPE_I8 = 3,
       TYPE_C64 = 4,
       TYPE_BF16 = 14,
       TYPE_E4M3 = 28,
};

enum { SIDE_LEFT = 0, SIDE_RIGHT = 1 }; /* cublasSideMode_t */

#define CUBLAS_GEMM(name, integer)                                                             \
	word name(handle h, word ta, word tb, integer m, integer n, integer k, in alpha, in a, \
		  integer lda, in b, integer ldb, in beta, out c, integer ldc)
#define CUBLAS_GEMM_EX(name, integer)                                                          \
	word name(handle h, word ta, word tb, integer m, integer n, integer k, in alpha, in a, \
		  word type_a, integer lda, in b, word type_b, integer ldb, in beta, out c,    \
		  word type_c, integer ldc, word compute, word algorithm)
#define CUBLAS_GEMM_STRIDED(name)                                                                 \
	word name(handle h, word ta, word tb, int m, int n, int k, in alpha, in a, int lda,       \
		  long long stride_a, in b, int ldb, long long stride_b, in beta, out c, int ldc, \
		  long long stride_c, int count)
#define CUBLAS_GEMM_BATCHED(name)                                                                \
	word name(handle h, word ta, word tb, int m, int n, int k, in alpha, in_list a, int lda, \
		  in_list b, int ldb, in beta, out_list c, int ldc, int count)
#define CUBLAS_SYRK(name)                                                                          \
	word name(handle h, word uplo, word trans, int n, int k, in alpha, in a, int lda, in beta, \
		  out c, int ldc)
#define CUBLAS_SYMM(name)                                                                      \
	word name(handle h, word side, word uplo, int m, int n, in alpha, in a, int lda, in b, \
		  int ldb, in beta, out c, int ldc)

CUBLAS_GEMM(cublasSgemm_v2, int);
CUBLAS_GEMM(cublasDgemm_v2, int);
CUBLAS_GEMM(cublasCgemm_v2, int);
CUBLAS_GEMM(cublasZgemm_v2_64, int64_t);
CUBLAS_GEMM(cublasHgemm, int);
CUBLAS_GEMM_EX(cublasGemmEx, int);
CUBLAS_GEMM_EX(cublasGemmEx_64, int64_t);
CUBLAS_GEMM_STRIDED(cublasSgemmStridedBatched);
CUBLAS_GEMM_STRIDED(cublasCgemmStridedBatched);
CUBLAS_GEMM_BATCHED(cublasDgemmBatched);
word cublasGemmStridedBatchedEx(handle h, word ta, word tb, int m, int n, int k, in alpha, in a,
				word type_a, int lda, long long stride_a, in b, word type_b,
				int ldb, long long stride_b, in beta, out c, word type_c, int ldc,
				long long stride_c, int count, word compute, word algorithm);
word cublasGemmBatchedEx(handle h, word ta, word tb, int m, int n, int k, in alpha, in_list a,
			 word type_a, int lda, in_list b, word type_b, int ldb, in beta, out_list c,
			 word type_c, int ldc, int count, word compute, word algorithm);
word cublasSgemmGroupedBatched(handle h, const word *ta, const word *tb, const int *m, const int *n,
			       const int *k, in alpha, in_list a, const int *lda, in_list b,
			       const int *ldb, in beta, out_list c, const int *ldc, int groups,
			       const int *sizes);
word cublasGemmGroupedBatchedEx(handle h, const word *ta, const word *tb, const int *m,
				const int *n, const int *k, in alpha, in_list a, word type_a,
				const int *lda, in_list b, word type_b, const int *ldb, in beta,
				out_list c, word type_c, const int *ldc, int groups,
				const int *sizes, word compute);
word cublasSgemv_v2(handle h, word trans, int m, int n, in alpha, in a, int lda, in x, int incx,
		    in beta, out y, int incy);
word cublasSgemvStridedBatched(handle h, word trans, int m, int n, in alpha, in a, int lda,
			       long long stride_a, in x, int incx, long long stride_x, in beta,
			       out y, int incy, long long stride_y, int count);
CUBLAS_SYMM(cublasDsymm_v2);
CUBLAS_SYMM(cublasZhemm_v2);
CUBLAS_SYRK(cublasSsyrk_v2);
CUBLAS_SYRK(cublasCherk_v2);
word cublasDtrmm_v2(handle h, word side, word uplo, word trans, word diag, int m, int n, in alpha,
		    in a, int lda, in b, int ldb, out c, int ldc);
word cublasStrsm_v2(handle h, word side, word uplo, word trans, word diag, int m, int n, in alpha,
		    in a, int lda, out b, int ldb);
word cublasStrsmBatched(handle h, word side, word uplo, word trans, word diag, int m, int n,
			in alpha, in_list a, int lda, out_list b, int ldb, int count);
/* without a handle: the interface of 2007 */
void cublasSgemm(char ta, char tb, int m, int n, int k, float alpha, in a, int lda, in b, int ldb,
		 float beta, out c, int ldc);

enum { LT_ORDER = 1, LT_BATCH_COUNT = 5, LT_BATCH_STRIDE = 6 }; /* attributes of a layout */

word cublasLtMatrixLayoutCreate(handle *layout, word type, uint64_t rows, uint64_t columns,
				int64_t ld);
word cublasLtMatrixLayoutInit_internal(handle layout, size_t size, word type, uint64_t rows,
				       uint64_t columns, int64_t ld);
word cublasLtMatrixLayoutSetAttribute(handle layout, word attribute, in value, size_t size);
word cublasLtMatrixLayoutDestroy(handle layout);
word cublasLtMatmul(handle h, handle operation, in alpha, in a, handle layout_a, in b,
		    handle layout_b, in beta, in c, handle layout_c, out d, handle layout_d,
		    in algorithm, out workspace, size_t workspace_size, handle stream);

enum { /* ncclDataType_t */
       NCCL_I8 = 0,
       NCCL_I32 = 2,
       NCCL_I64 = 4,
       NCCL_F16 = 6,
       NCCL_F32 = 7,
       NCCL_F64 = 8,
       NCCL_BF16 = 9,
       NCCL_E5M2 = 11,
};

/* passed on the stack, with any contents */
struct nccl_id {
	char bytes[128];
};

word ncclCommInitRank(handle *comm, int ranks, struct nccl_id id, int rank);
word ncclCommCount(handle comm, int *ranks);
word ncclAllReduce(in from, out to, size_t count, word type, word op, handle comm, handle stream);
word ncclReduce(in from, out to, size_t count, word type, word op, int root, handle comm,
		handle stream);
word ncclReduceScatter(in from, out to, size_t count, word type, word op, handle comm,
		       handle stream);
word ncclAllGather(in from, out to, size_t count, word type, handle comm, handle stream);
word ncclBroadcast(in from, out to, size_t count, word type, int root, handle comm, handle stream);
word ncclBcast(out data, size_t count, word type, int root, handle comm, handle stream);
word ncclSend(in from, size_t count, word type, int peer, handle comm, handle stream);
word ncclRecv(out to, size_t count, word type, int peer, handle comm, handle stream);
word ncclAlltoAll(in from, out to, size_t count, word type, handle comm, handle stream);

#endif
