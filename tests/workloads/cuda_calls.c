/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of cuBLAS, cuBLASLt and NCCL by their real names and calling convention, into libraries
 * that do nothing (lib/). Further keys of "expect", worked out by hand beside each call:
 *	flops     floating-point operations of the function's own calls
 *	bytes     of its operands and results, if their types are known
 *	silenced  calls whose work counts for another call
 *	moved     bytes of the collectives of all functions together
 *	bus       bytes of these on the busiest link, if the number of ranks is known
 */
#include "cuda_api.h"
#include "known.h"

#define FUNCTIONS_MAX 64

static struct expected {
	const char *name;
	uint64_t calls, silenced, unread, flops, bytes;
} expected[FUNCTIONS_MAX];

static uint64_t moved, over_bus;

static struct expected *expected_of(const char *name)
{
	struct expected *e = expected;

	while (e->name && strcmp(e->name, name) != 0)
		e++;
	known_require(e < expected + FUNCTIONS_MAX - 1, "more functions than places");
	e->name = name;
	return e;
}

static void expect_call(const char *name, uint64_t flops, uint64_t bytes)
{
	struct expected *e = expected_of(name);

	e->calls++;
	e->flops += flops;
	e->bytes += bytes;
}

#define CALL(name, flops, bytes, ...)                 \
	do {                                          \
		name(__VA_ARGS__);                    \
		expect_call(#name, (flops), (bytes)); \
	} while (0)

#define MOVE(name, bytes, bus, ...)       \
	do {                              \
		name(__VA_ARGS__);        \
		moved += (bytes);         \
		over_bus += (bus);        \
		expect_call(#name, 0, 0); \
	} while (0)

/* Addresses of a GPU and of its library, which are never dereferenced. */
static void *const gpu = (void *)0x7f0000000000;
static void *const lib = (void *)0x10;
#define LIST ((void *const *)gpu)

/* 3×5 by 5×4: 60 multiply-adds, of complex numbers 8 operations each; 47 elements */
static void multiply(void)
{
	CALL(cublasSgemm_v2, 120, 188, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, gpu, 5, gpu, gpu, 3);
	CALL(cublasDgemm_v2, 120, 376, lib, 1, 0, 3, 4, 5, gpu, gpu, 5, gpu, 5, gpu, gpu, 3);
	CALL(cublasCgemm_v2, 480, 376, lib, 2, 0, 3, 4, 5, gpu, gpu, 5, gpu, 5, gpu, gpu, 3);
	CALL(cublasZgemm_v2_64, 480, 752, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, gpu, 5, gpu, gpu, 3);
	CALL(cublasHgemm, 120, 94, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, gpu, 5, gpu, gpu, 3);
	/* beyond 32 bits: 2 · 3·10⁹ */
	CALL(cublasZgemm_v2_64, 24000000000, 16 * 6000000001, lib, 0, 0, 3000000000, 1, 1, gpu, gpu,
	     3000000000, gpu, 1, gpu, gpu, 3000000000);
	CALL(cublasSgemm_v2, 0, 0, lib, 0, 0, 0, 4, 5, gpu, gpu, 1, gpu, 5, gpu, gpu, 1);
	CALL(cublasGemmEx, 120, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, TYPE_BF16, 3, gpu, TYPE_BF16, 5,
	     gpu, gpu, TYPE_F32, 3, 68, 99);
	CALL(cublasGemmEx, 480, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, TYPE_C64, 3, gpu, TYPE_C64, 5, gpu,
	     gpu, TYPE_C64, 3, 68, -1);
	CALL(cublasGemmEx, 120, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, TYPE_I8, 3, gpu, TYPE_I8, 5, gpu,
	     gpu, TYPE_F32, 3, 68, -1);
	/* its own dtype is the narrower one of its nested calls */
	CALL(cublasGemmEx_64, 120, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, TYPE_F16, 3, gpu, TYPE_F16, 5,
	     gpu, gpu, TYPE_F16, 3, 68, 99);
	expected_of("cublasLtMatmul")->calls++;
	expected_of("cublasLtMatmul")->silenced++;
}

static void multiply_batches(void)
{
	static const int m[] = {3, 10, 1}, n[] = {4, 10, 1}, k[] = {5, 10, 9}, sizes[] = {2, 1, 7};
	static const word plain[3];

	CALL(cublasSgemmStridedBatched, 840, 1316, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, 15LL, gpu, 5,
	     20LL, gpu, gpu, 3, 12LL, 7);
	CALL(cublasCgemmStridedBatched, 3360, 2632, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, 15LL, gpu, 5,
	     20LL, gpu, gpu, 3, 12LL, 7);
	/* no batch at all */
	CALL(cublasSgemmStridedBatched, 0, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, 3, 15LL, gpu, 5, 20LL,
	     gpu, gpu, 3, 12LL, 0);
	CALL(cublasDgemmBatched, 840, 2632, lib, 0, 0, 3, 4, 5, gpu, LIST, 3, LIST, 5, gpu, LIST, 3,
	     7);
	CALL(cublasGemmStridedBatchedEx, 840, 0, lib, 0, 0, 3, 4, 5, gpu, gpu, TYPE_F16, 3, 15LL,
	     gpu, TYPE_F16, 5, 20LL, gpu, gpu, TYPE_F16, 3, 12LL, 7, 68, 99);
	CALL(cublasGemmBatchedEx, 840, 0, lib, 0, 0, 3, 4, 5, gpu, LIST, TYPE_BF16, 3, LIST,
	     TYPE_BF16, 5, gpu, LIST, TYPE_BF16, 3, 7, 68, 99);
	/* 2 · 60 + 1 · 1000 + 7 · 9 multiply-adds */
	CALL(cublasSgemmGroupedBatched, 2366, 0, lib, plain, plain, m, n, k, gpu, LIST, m, LIST, k,
	     gpu, LIST, m, 3, sizes);
	CALL(cublasGemmGroupedBatchedEx, 2366, 0, lib, plain, plain, m, n, k, gpu, LIST, TYPE_F16,
	     m, LIST, TYPE_F16, k, gpu, LIST, TYPE_F16, m, 3, sizes, 68);
}

/* As in blas_calls.c: 30×20 by a vector; a 6×4 result, with 6×6 on the left or 4×4 on the right. */
static void multiply_others(void)
{
	CALL(cublasSgemv_v2, 1200, 2600, lib, 0, 30, 20, gpu, gpu, 30, gpu, 1, gpu, gpu, 1);
	CALL(cublasSgemvStridedBatched, 8400, 18200, lib, 0, 30, 20, gpu, gpu, 30, 600LL, gpu, 1,
	     20LL, gpu, gpu, 1, 30LL, 7);
	CALL(cublasDsymm_v2, 288, 552, lib, SIDE_LEFT, 0, 6, 4, gpu, gpu, 6, gpu, 6, gpu, gpu, 6);
	CALL(cublasZhemm_v2, 768, 928, lib, SIDE_RIGHT, 0, 6, 4, gpu, gpu, 4, gpu, 6, gpu, gpu, 6);
	CALL(cublasSsyrk_v2, 180, 204, lib, 0, 0, 6, 5, gpu, gpu, 6, gpu, gpu, 6);
	CALL(cublasCherk_v2, 720, 408, lib, 0, 0, 6, 5, gpu, gpu, 6, gpu, gpu, 6);
	CALL(cublasDtrmm_v2, 96, 272, lib, SIDE_RIGHT, 0, 0, 0, 6, 4, gpu, gpu, 4, gpu, 6, gpu, 6);
	CALL(cublasStrsm_v2, 144, 180, lib, SIDE_LEFT, 0, 0, 0, 6, 4, gpu, gpu, 6, gpu, 6);
	CALL(cublasStrsmBatched, 1008, 1260, lib, SIDE_LEFT, 0, 0, 0, 6, 4, gpu, LIST, 6, LIST, 6,
	     7);
	/* its arguments do not tell the type, unlike those of the newer one */
	cublasSgemm('N', 'N', 3, 4, 5, 1, gpu, 3, gpu, 5, 0, gpu, 3);
}

static void matmul(handle a, handle b, handle d)
{
	cublasLtMatmul(lib, lib, gpu, gpu, a, gpu, b, gpu, gpu, d, gpu, d, NULL, gpu, 1 << 20,
		       NULL);
}

/* The shapes are in layouts, which are made before. */
static void multiply_layouts(void)
{
	uint64_t place[3][8];
	handle a, b, d;
	int32_t count = 7;
	int64_t stride = 100;

	cublasLtMatrixLayoutCreate(&a, TYPE_BF16, 3, 5, 3);
	cublasLtMatrixLayoutCreate(&b, TYPE_BF16, 5, 4, 5);
	cublasLtMatrixLayoutCreate(&d, TYPE_F32, 3, 4, 3);
	matmul(a, b, d);
	expect_call("cublasLtMatmul", 120, 0);
	cublasLtMatrixLayoutSetAttribute(a, LT_BATCH_STRIDE, &stride, sizeof(stride));
	for (int i = 0; i < 3; i++)
		cublasLtMatrixLayoutSetAttribute((handle[]){a, b, d}[i], LT_BATCH_COUNT, &count,
						 sizeof(count));
	matmul(a, b, d);
	expect_call("cublasLtMatmul", 840, 0);
	cublasLtMatrixLayoutDestroy(a);
	cublasLtMatrixLayoutDestroy(b);
	cublasLtMatrixLayoutDestroy(d);

	/* a destroyed layout's address may be reused: by one without a batch */
	cublasLtMatrixLayoutCreate(&a, TYPE_C64, 30, 5, 30);
	cublasLtMatrixLayoutCreate(&b, TYPE_C64, 5, 2, 5);
	cublasLtMatrixLayoutCreate(&d, TYPE_C64, 30, 2, 30);
	matmul(a, b, d);
	expect_call("cublasLtMatmul", 2400, 0);
	cublasLtMatrixLayoutDestroy(a);
	cublasLtMatrixLayoutDestroy(b);
	cublasLtMatrixLayoutDestroy(d);

	/* on the stack */
	cublasLtMatrixLayoutInit_internal(place[0], sizeof(place[0]), TYPE_E4M3, 16, 32, 16);
	cublasLtMatrixLayoutInit_internal(place[1], sizeof(place[1]), TYPE_E4M3, 32, 8, 32);
	cublasLtMatrixLayoutInit_internal(place[2], sizeof(place[2]), TYPE_F16, 16, 8, 16);
	matmul(place[0], place[1], place[2]);
	expect_call("cublasLtMatmul", 8192, 0);
}

static void matmul_of_untraced(handle a, handle b, handle d)
{
	matmul(a, b, d);
	expected_of("cublasLtMatmul")->calls++;
	expected_of("cublasLtMatmul")->unread++;
}

/* Three ranks; the number of ranks of `early` is unknown. An all-reduce passes a link 2·2/3 times,
 * a rank's part to or from each other rank 2 times, anything else once. */
static void communicate(handle early)
{
	static const struct nccl_id id = {"junk"};
	handle three;
	int ranks;

	ncclCommInitRank(&three, 3, id, 1);
	expect_call("ncclCommInitRank", 0, 0);
	MOVE(ncclAllReduce, 4000, 5333, gpu, gpu, 1000, NCCL_F32, 0, three, lib);
	MOVE(ncclAllReduce, 2000, 2666, gpu, gpu, 1000, NCCL_BF16, 0, three, lib);
	MOVE(ncclAllReduce, 0, 0, gpu, gpu, 0, NCCL_F64, 0, three, lib);
	MOVE(ncclReduce, 8000, 8000, gpu, gpu, 1000, NCCL_F64, 0, 1, early, lib);
	MOVE(ncclReduceScatter, 2000, 4000, gpu, gpu, 1000, NCCL_F16, 0, three, lib);
	MOVE(ncclAllGather, 1000, 2000, gpu, gpu, 1000, NCCL_I8, three, lib);
	MOVE(ncclBroadcast, 8000, 8000, gpu, gpu, 1000, NCCL_I64, 0, lib, lib);
	MOVE(ncclBcast, 4000, 4000, gpu, 1000, NCCL_I32, 0, lib, lib);
	MOVE(ncclSend, 1000, 1000, gpu, 1000, NCCL_E5M2, 1, lib, lib);
	MOVE(ncclRecv, 20000000000, 20000000000, gpu, 5000000000, NCCL_F32, 1, lib, lib);
	MOVE(ncclAlltoAll, 4000, 8000, gpu, gpu, 1000, NCCL_F32, three, lib);
	/* known once the program has queried it */
	if (!early)
		return;
	MOVE(ncclAllGather, 1000, 0, gpu, gpu, 1000, NCCL_I8, (char *)early + 1, lib);
	ncclCommCount(early, &ranks);
	expect_call("ncclCommCount", 0, 0);
	MOVE(ncclAllGather, 1000, 6000, gpu, gpu, 1000, NCCL_I8, early, lib);
}

int main(int argc, char **argv)
{
	uint64_t early[3][8];
	uint64_t runs = 0;
	handle seven = NULL;

	/* before tracing */
	for (int i = 0; i < 3; i++)
		cublasLtMatrixLayoutInit_internal(early[i], sizeof(early[i]), TYPE_F32, 3, 3, 3);
	if (argc > 1 && !strcmp(argv[1], "early"))
		ncclCommInitRank(&seven, 7, (struct nccl_id){"junk"}, 1);
	known_ready();
	for (; known_go(); runs++) {
		multiply();
		multiply_batches();
		multiply_others();
		multiply_layouts();
		matmul_of_untraced(early[0], early[1], early[2]);
		communicate(seven);
		known_say("done");
	}
	for (struct expected *e = expected; e->name; e++) {
		known_expect(e->name, "calls", e->calls);
		known_expect(e->name, "silenced", e->silenced);
		known_expect(e->name, "unread", e->unread);
		known_expect(e->name, "flops", e->flops);
		known_expect(e->name, "bytes", e->bytes);
	}
	known_expect("*", "moved", moved);
	known_expect("*", "bus", over_bus);
	return 0;
}
