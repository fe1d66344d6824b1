// SPDX-License-Identifier: BSD-2-Clause
/*
 * cuBLAS, cuBLASLt and NCCL: work that the host hands to the GPU. The time of these calls is that
 * of handing over; their operations and bytes are what the GPU will do. Arguments: cublas_api.h,
 * cublasLt.h and nccl.h of CUDA 13.0; those of older releases are the same.
 *
 * A cuBLAS name is cublas [SDCZH] NAME [_v2] [_64]; the 64-bit twins differ in the width of their
 * integers alone. Without _v2, names that have such a twin are the API of 2007, which has no
 * handle.
 */
#include "cost/builtin.h"

#include "base/text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define MNK		      "let m=int(arg4); let n=int(arg5); let k=int(arg6); "
#define GEMM		      "flops=2*x*m*n*k; bytes=e*(k*(m+n)+m*n)"
#define BATCHED(count)	      "let b=int(" count "); flops=2*x*m*n*k*b; bytes=b*e*(k*(m+n)+m*n)"
#define GROUPED(count, sizes) "flops=2*x*groups(arg4,arg5,arg6," sizes ",int(" count "))"
#define MN		      "let m=int(arg3); let n=int(arg4); "
#define GEMV		      "flops=2*x*m*n; bytes=e*(m*n+m+n)"
#define SIDE(m, n) \
	"let m=int(" m "); let n=int(" n "); let s=select(eq(u32(arg2),0),m,n); " /* LEFT */
#define SYMM  "flops=2*x*m*n*s; bytes=e*(s*(s+1)/2+2*m*n)"
#define TRMM  "flops=x*m*n*s; bytes=e*(s*(s+1)/2+m*n)"
#define NK    "let n=int(arg4); let k=int(arg5); "
#define SYRK  "flops=x*n*n*k; bytes=e*(n*k+n*(n+1)/2)"
#define SYRKX "flops=x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)"
#define SYR2K "flops=2*x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)"
/* The type of A decides; CUDA_C_32F is 4, CUDA_C_64F 5. */
#define OF_TYPE "let type=u32(stack3); dtype=cuda(type); let x=1+3*(eq(type,4)+eq(type,5)); "

/* By the name behind the letter, or without a letter; x, e and dtype are the letter's. */
static const struct cublas_function {
	const char *name, *text;
	bool twin; /* takes a handle only with _v2 (gemm of half precision: never had a twin) */
} typed[] = {
	{"gemm", MNK GEMM, true},
	{"gemm3m", MNK GEMM, false},
	{"gemmStridedBatched", MNK BATCHED("stack12"), false},
	{"gemm3mStridedBatched", MNK BATCHED("stack12"), false},
	{"gemmBatched", MNK BATCHED("stack9"), false},
	{"gemm3mBatched", MNK BATCHED("stack9"), false},
	{"gemmGroupedBatched", GROUPED("stack9", "stack10"), false},
	{"gemv", MN GEMV, true},
	{"gemvBatched", MN "let b=int(stack7); flops=2*x*m*n*b; bytes=e*b*(m*n+m+n)", false},
	{"gemvStridedBatched", MN "let b=int(stack10); flops=2*x*m*n*b; bytes=e*b*(m*n+m+n)",
	 false},
	{"symm", SIDE("arg4", "arg5") SYMM, true},
	{"hemm", SIDE("arg4", "arg5") SYMM, true},
	{"trmm", SIDE("arg6", "stack1") TRMM, true},
	{"trsm", SIDE("arg6", "stack1") TRMM, true},
	{"trsmBatched",
	 SIDE("arg6", "stack1") "let b=int(stack7); flops=x*m*n*s*b; bytes=e*b*(s*(s+1)/2+m*n)",
	 false},
	{"syrk", NK SYRK, true},
	{"herk", NK SYRK, true},
	{"syr2k", NK SYR2K, true},
	{"her2k", NK SYR2K, true},
	{"syrkx", NK SYRKX, false},
	{"herkx", NK SYRKX, false},
};

static const struct cublas_function untyped[] = {
	{"GemmEx", OF_TYPE MNK "flops=2*x*m*n*k", false},
	{"SgemmEx", OF_TYPE MNK "flops=2*x*m*n*k", false},
	{"CgemmEx", OF_TYPE MNK "flops=2*x*m*n*k", false},
	{"Cgemm3mEx", OF_TYPE MNK "flops=2*x*m*n*k", false},
	{"GemmBatchedEx", OF_TYPE MNK "flops=2*x*m*n*k*int(stack12)", false},
	{"GemmStridedBatchedEx", OF_TYPE MNK "flops=2*x*m*n*k*int(stack15)", false},
	{"GemmGroupedBatchedEx", OF_TYPE GROUPED("stack12", "stack13"), false},
};

static const struct {
	char letter;
	const char *dtype;
	int x, e;
} letters[] = {
	{'S', "f32", 1, 4},   {'D', "f64", 1, 8}, {'C', "c64", 4, 8},
	{'Z', "c128", 4, 16}, {'H', "f16", 1, 2},
};

/*
 * A layout's rows and columns are noted under its address, its number of matrices (1 unless it is
 * set) and type one byte further. Create gives the address when it returns: what it is given waits
 * under the address of the variable that will hold it. Attribute 5 is the number of matrices; notes
 * of the others go under 1, which is no address.
 */
#define LT_NOTE(layout, type, rows, cols)      \
	"note(" layout "," rows "," cols "); " \
	"note(" layout "+1,1,u32(" type "))"
#define LT_MATMUL                                                          \
	"submits; dtype=cuda(noted1(arg5+1)); let type=noted1(arg5+1); "   \
	"flops=2*(1+3*(eq(type,4)+eq(type,5)))*noted0(arg5)*noted1(arg5)*" \
	"noted1(stack6)*noted0(stack6+1)"

/* ncclDataType_t: 0, 1 int8; 2, 3 int32; 4, 5 int64; 6 half; 7 float; 8 double; 9 bfloat16; 10, 11
 * float8. What each rank sends, or for one-sided calls what is sent. Of count and type of
 * all-gather, reduce-scatter and their like, which are a rank's part, nccl-tests' bandwidth is that
 * of n parts times (n - 1) / n: n - 1 of them. */
#define NCCL(count, type, bus)                         \
	"moves; let t=u32(" type "); bytes=i64(" count \
	")*(1+3*(eq(t,2)+eq(t,3)+eq(t,7))+7*(eq(t,4)+eq(t,5)+eq(t,8))+eq(t,6)+eq(t,9)); " bus

/* A communicator's ranks are noted under its address, which the call gives when it returns. That of
 * one made by ncclCommInitAll or ncclCommSplit is known once its count is asked for. */
#define NCCL_RANKS "let at=arg1; let n=i32(arg2); exit; note(load64(at),n,0)"

static const struct {
	const char *library, *name, *text;
	enum perfx_source source;
} whole[] = {
	{"libcublasLt*", "cublasLtMatrixLayoutCreate",
	 LT_NOTE("arg1", "arg2", "arg3",
		 "arg4") "; let at=arg1; exit; note(load64(at),noted0(at),noted1(at)); "
			 "note(load64(at)+1,noted0(at+1),noted1(at+1))",
	 PERFX_SOURCE_CUDA},
	{"libcublasLt*", "cublasLtMatrixLayoutInit_internal",
	 LT_NOTE("arg1", "arg3", "arg4", "arg5"), PERFX_SOURCE_CUDA},
	{"libcublasLt*", "cublasLtMatrixLayoutSetAttribute",
	 "note(select(eq(u32(arg2),5),arg1+1,1),*i32(arg3),noted1(arg1+1))", PERFX_SOURCE_CUDA},
	{"libcublasLt*", "cublasLtMatmul", LT_MATMUL, PERFX_SOURCE_CUDA},
	{"libnccl*", "ncclCommInitRank", NCCL_RANKS, PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclCommInitRankConfig", NCCL_RANKS, PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclCommInitRankScalable", NCCL_RANKS, PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclCommCount", "let comm=arg1; let at=arg2; exit; note(comm,*i32(at),0)",
	 PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclAllReduce", NCCL("arg3", "arg4", "bus(ring,arg6)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclReduce", NCCL("arg3", "arg4", "bus(once)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclReduceScatter", NCCL("arg3", "arg4", "bus(others,arg6)"),
	 PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclAllGather", NCCL("arg3", "arg4", "bus(others,arg5)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclBroadcast", NCCL("arg3", "arg4", "bus(once)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclBcast", NCCL("arg2", "arg3", "bus(once)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclAlltoAll", NCCL("arg3", "arg4", "bus(others,arg5)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclGather", NCCL("arg3", "arg4", "bus(others,arg6)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclScatter", NCCL("arg3", "arg4", "bus(others,arg6)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclSend", NCCL("arg2", "arg3", "bus(once)"), PERFX_SOURCE_NCCL},
	{"libnccl*", "ncclRecv", NCCL("arg2", "arg3", "bus(once)"), PERFX_SOURCE_NCCL},
};

/* RCCL has NCCL's names. */
static bool is_of_library(const char *base, const char *library, enum perfx_source source)
{
	return !fnmatch(library, base, 0) ||
	       (source == PERFX_SOURCE_NCCL && !fnmatch("librccl*", base, 0));
}

static bool find_whole(const char *base, const char *symbol, struct builtin *builtin)
{
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		if (strcmp(symbol, whole[i].name) != 0 ||
		    !is_of_library(base, whole[i].library, whole[i].source))
			continue;
		builtin->source = whole[i].source;
		builtin->by_default = true;
		snprintf(builtin->text, sizeof(builtin->text), "%s", whole[i].text);
		return true;
	}
	return false;
}

static bool describe(const char *name, bool twin, bool wide, struct builtin *builtin)
{
	for (size_t i = 0; i < sizeof(untyped) / sizeof(untyped[0]); i++)
		if (!twin && !strcmp(name, untyped[i].name)) {
			snprintf(builtin->text, sizeof(builtin->text), "submits; int=%d; %s",
				 wide ? 64 : 32, untyped[i].text);
			return true;
		}
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (*name != letters[i].letter)
			continue;
		for (size_t j = 0; j < sizeof(typed) / sizeof(typed[0]); j++) {
			if (strcmp(name + 1, typed[j].name) != 0 ||
			    twin != (typed[j].twin && *name != 'H'))
				continue;
			snprintf(builtin->text, sizeof(builtin->text),
				 "submits; int=%d; dtype=%s; let x=%d; let e=%d; %s",
				 wide ? 64 : 32, letters[i].dtype, letters[i].x, letters[i].e,
				 typed[j].text);
			return true;
		}
	}
	return false;
}

bool builtin_cuda(const char *base_name, const char *symbol, struct builtin *builtin)
{
	char name[64];
	bool wide, twin;

	if (*symbol != 'c' && *symbol != 'n')
		return false;
	if (find_whole(base_name, symbol, builtin))
		return true;
	if (!begins_with(symbol, "cublas") || strlen(symbol + 6) >= sizeof(name) ||
	    fnmatch("libcublas*", base_name, 0) != 0)
		return false;
	strcpy(name, symbol + 6);
	wide = remove_suffix(name, "_64");
	twin = remove_suffix(name, "_v2");
	builtin->source = PERFX_SOURCE_CUDA;
	builtin->by_default = true;
	return describe(name, twin, wide, builtin);
}
