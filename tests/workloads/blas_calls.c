/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of BLAS whose operations and bytes are worked out by hand beside each call, as numbers,
 * independent of the tracer's formulas. Further keys of "expect":
 *	flops   floating-point operations of the function's own calls
 *	bytes   of its operands and results, each once; half of a triangle
 *	unread  calls with invalid arguments
 * Arguments of the program:
 *	THREADS TIMES   also that many threads multiply that often, each with other shapes
 *	failing         calls that BLAS refuses, left by longjmp or not, with a good one between
 */
#include "known.h"

#include <cblas.h>
#include <pthread.h>
#include <setjmp.h>

/* The Fortran interface: all arguments by reference; C calls omit the lengths of strings. */
#define FORTRAN_GEMM(name)                                                                       \
	void name(const char *transa, const char *transb, const int *m, const int *n,            \
		  const int *k, const void *alpha, const void *a, const int *lda, const void *b, \
		  const int *ldb, const void *beta, void *c, const int *ldc)
#define FORTRAN_GEMV(name)                                                                         \
	void name(const char *trans, const int *m, const int *n, const void *alpha, const void *a, \
		  const int *lda, const void *x, const int *incx, const void *beta, void *y,       \
		  const int *incy)
#define FORTRAN_SYMM(name)                                                                         \
	void name(const char *side, const char *uplo, const int *m, const int *n,                  \
		  const void *alpha, const void *a, const int *lda, const void *b, const int *ldb, \
		  const void *beta, void *c, const int *ldc)
#define FORTRAN_SYRK(name)                                                                     \
	void name(const char *uplo, const char *trans, const int *n, const int *k,             \
		  const void *alpha, const void *a, const int *lda, const void *beta, void *c, \
		  const int *ldc)
#define FORTRAN_SYR2K(name)                                                                        \
	void name(const char *uplo, const char *trans, const int *n, const int *k,                 \
		  const void *alpha, const void *a, const int *lda, const void *b, const int *ldb, \
		  const void *beta, void *c, const int *ldc)
#define FORTRAN_TRXM(name)                                                                      \
	void name(const char *side, const char *uplo, const char *transa, const char *diag,     \
		  const int *m, const int *n, const void *alpha, const void *a, const int *lda, \
		  void *b, const int *ldb)

FORTRAN_GEMM(sgemm_);
FORTRAN_GEMM(dgemm_);
FORTRAN_GEMM(cgemm_);
FORTRAN_GEMM(zgemm_);
FORTRAN_GEMV(sgemv_);
FORTRAN_GEMV(dgemv_);
FORTRAN_GEMV(cgemv_);
FORTRAN_GEMV(zgemv_);
FORTRAN_SYMM(dsymm_);
FORTRAN_SYMM(chemm_);
FORTRAN_SYRK(ssyrk_);
FORTRAN_SYRK(zherk_);
FORTRAN_SYR2K(dsyr2k_);
FORTRAN_TRXM(strsm_);
FORTRAN_TRXM(ztrmm_);

#define FUNCTIONS_MAX 64

static struct expected {
	const char *name;
	uint64_t calls, unwound, unread, flops, bytes;
} expected[FUNCTIONS_MAX];

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

/* Room for every matrix; contents do not matter. Doubles, for alignment. */
#define ROOM (1 << 21)
static double a[ROOM], b[ROOM], c[ROOM];

static const double one[2] = {1, 0}; /* a real or complex number of either precision */
static const float one_single[2] = {1, 0};

#define N(value) (&(const int){value})

#define COLUMNS	   CblasColMajor
#define ROWS	   CblasRowMajor
#define NO	   CblasNoTrans
#define TRANSPOSED CblasTrans
#define ADJOINT	   CblasConjTrans
#define LEFT	   CblasLeft
#define RIGHT	   CblasRight
#define UPPER	   CblasUpper
#define LOWER	   CblasLower
#define PLAIN	   CblasNonUnit

/* A multiply-add is 2 operations, of complex numbers 8. */
static void multiply(void)
{
	/* 3×5 by 5×4: 60 multiply-adds, 15 + 20 + 12 elements */
	CALL(cblas_sgemm, 120, 47 * 4, COLUMNS, NO, NO, 3, 4, 5, 1, (float *)a, 3, (float *)b, 5, 0,
	     (float *)c, 3);
	CALL(cblas_sgemm, 120, 47 * 4, ROWS, TRANSPOSED, NO, 3, 4, 5, 1, (float *)a, 3, (float *)b,
	     4, 0, (float *)c, 4);
	CALL(cblas_dgemm, 120, 47 * 8, COLUMNS, NO, TRANSPOSED, 3, 4, 5, 1, a, 3, b, 4, 0, c, 3);
	CALL(cblas_dgemm, 120, 47 * 8, ROWS, TRANSPOSED, TRANSPOSED, 3, 4, 5, 1, a, 3, b, 5, 0, c,
	     4);
	CALL(cblas_cgemm, 480, 47 * 8, COLUMNS, NO, ADJOINT, 3, 4, 5, one_single, a, 3, b, 4,
	     one_single, c, 3);
	CALL(cblas_zgemm, 480, 47 * 16, ROWS, ADJOINT, NO, 3, 4, 5, one, a, 3, b, 4, one, c, 4);
	/* 64×64×64, for other kernels: 262144 multiply-adds, 3 · 4096 elements */
	CALL(cblas_sgemm, 524288, 49152, COLUMNS, NO, NO, 64, 64, 64, 1, (float *)a, 64, (float *)b,
	     64, 0, (float *)c, 64);
	CALL(cblas_dgemm, 524288, 98304, COLUMNS, NO, NO, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
	CALL(sgemm_, 120, 47 * 4, "N", "N", N(3), N(4), N(5), one_single, a, N(3), b, N(5),
	     one_single, c, N(3));
	CALL(dgemm_, 120, 47 * 8, "t", "N", N(3), N(4), N(5), one, a, N(5), b, N(5), one, c, N(3));
	CALL(cgemm_, 480, 47 * 8, "C", "T", N(3), N(4), N(5), one_single, a, N(5), b, N(4),
	     one_single, c, N(3));
	CALL(zgemm_, 480, 47 * 16, "N", "C", N(3), N(4), N(5), one, a, N(3), b, N(4), one, c, N(3));
}

static void multiply_edges(void)
{
	/* a zero in each dimension: nothing is touched, except perhaps one operand */
	CALL(cblas_sgemm, 0, 0, COLUMNS, NO, NO, 0, 4, 5, 1, (float *)a, 1, (float *)b, 5, 0,
	     (float *)c, 1);
	CALL(cblas_dgemm, 0, 0, COLUMNS, NO, NO, 3, 0, 5, 1, a, 3, b, 5, 0, c, 3);
	CALL(dgemm_, 0, 0, "N", "N", N(3), N(4), N(0), one, a, N(3), b, N(1), one, c, N(3));
	CALL(cblas_cgemm, 0, 0, COLUMNS, NO, NO, 0, 0, 0, one_single, a, 1, b, 1, one_single, c, 1);
	/* a number; a dot product of 7; an outer product of 6 and 7 */
	CALL(cblas_sgemm, 2, 3 * 4, COLUMNS, NO, NO, 1, 1, 1, 1, (float *)a, 1, (float *)b, 1, 0,
	     (float *)c, 1);
	CALL(cblas_dgemm, 14, 15 * 8, COLUMNS, NO, NO, 1, 1, 7, 1, a, 1, b, 7, 0, c, 1);
	CALL(zgemm_, 336, 55 * 16, "N", "N", N(6), N(7), N(1), one, a, N(6), b, N(1), one, c, N(6));
	/* a window of a large matrix: 2×3 by 3×2, rows 500000 elements apart */
	CALL(cblas_sgemm, 24, 16 * 4, COLUMNS, NO, NO, 2, 2, 3, 1, (float *)a, 500000, (float *)b,
	     500000, 0, (float *)c, 500000);
	CALL(dgemm_, 24, 16 * 8, "N", "N", N(2), N(2), N(3), one, a, N(500000), b, N(500000), one,
	     c, N(500000));
	/* alpha = 0 changes the computation, but not the count by shapes */
	CALL(cblas_dgemm, 120, 47 * 8, COLUMNS, NO, NO, 3, 4, 5, 0, a, 3, b, 5, 1, c, 3);
}

static void multiply_vectors(void)
{
	/* 30×20: 600 multiply-adds, 650 elements, transposed or not */
	CALL(cblas_sgemv, 1200, 650 * 4, COLUMNS, NO, 30, 20, 1, (float *)a, 30, (float *)b, 1, 0,
	     (float *)c, 1);
	CALL(cblas_dgemv, 1200, 650 * 8, ROWS, TRANSPOSED, 30, 20, 1, a, 20, b, 3, 0, c, 2);
	CALL(cblas_cgemv, 4800, 650 * 8, COLUMNS, ADJOINT, 30, 20, one_single, a, 30, b, 1,
	     one_single, c, 1);
	CALL(cblas_zgemv, 4800, 650 * 16, ROWS, NO, 30, 20, one, a, 20, b, 1, one, c, 1);
	CALL(sgemv_, 1200, 650 * 4, "T", N(30), N(20), one_single, a, N(30), b, N(1), one_single, c,
	     N(1));
	CALL(dgemv_, 0, 0, "N", N(0), N(20), one, a, N(1), b, N(1), one, c, N(1));
	CALL(cgemv_, 8, 3 * 8, "N", N(1), N(1), one_single, a, N(1), b, N(1), one_single, c, N(1));
	CALL(zgemv_, 4800, 650 * 16, "C", N(30), N(20), one, a, N(30), b, N(1), one, c, N(1));
}

static void multiply_symmetric(void)
{
	/* c is 6×4; left 6×6 (144 multiply-adds, 21 + 48 elements), right 4×4 (96; 10 + 48) */
	CALL(cblas_ssymm, 288, 69 * 4, COLUMNS, LEFT, UPPER, 6, 4, 1, (float *)a, 6, (float *)b, 6,
	     0, (float *)c, 6);
	CALL(cblas_dsymm, 192, 58 * 8, COLUMNS, RIGHT, LOWER, 6, 4, 1, a, 4, b, 6, 0, c, 6);
	CALL(cblas_csymm, 1152, 69 * 8, ROWS, LEFT, LOWER, 6, 4, one_single, a, 6, b, 4, one_single,
	     c, 4);
	CALL(cblas_zhemm, 768, 58 * 16, COLUMNS, RIGHT, UPPER, 6, 4, one, a, 4, b, 6, one, c, 6);
	CALL(dsymm_, 192, 58 * 8, "R", "U", N(6), N(4), one, a, N(4), b, N(6), one, c, N(6));
	CALL(chemm_, 1152, 69 * 8, "l", "L", N(6), N(4), one_single, a, N(6), b, N(6), one_single,
	     c, N(6));
}

static void update_ranks(void)
{
	/* a 6×5 times itself: 21 of 36 sums of 5, counted as 36 · 5 operations */
	CALL(cblas_ssyrk, 180, 51 * 4, COLUMNS, UPPER, NO, 6, 5, 1, (float *)a, 6, 0, (float *)c,
	     6);
	CALL(cblas_dsyrk, 180, 51 * 8, ROWS, LOWER, TRANSPOSED, 6, 5, 1, a, 6, 0, c, 6);
	CALL(cblas_csyrk, 720, 51 * 8, COLUMNS, LOWER, NO, 6, 5, one_single, a, 6, one_single, c,
	     6);
	CALL(cblas_zsyrk, 720, 51 * 16, COLUMNS, UPPER, NO, 6, 5, one, a, 6, one, c, 6);
	CALL(cblas_cherk, 720, 51 * 8, COLUMNS, UPPER, ADJOINT, 6, 5, 1, a, 5, 0, c, 6);
	CALL(cblas_dsyr2k, 360, 81 * 8, COLUMNS, UPPER, NO, 6, 5, 1, a, 6, b, 6, 0, c, 6);
	CALL(cblas_zher2k, 1440, 81 * 16, COLUMNS, UPPER, NO, 6, 5, one, a, 6, b, 6, 0, c, 6);
	CALL(ssyrk_, 180, 51 * 4, "U", "T", N(6), N(5), one_single, a, N(5), one_single, c, N(6));
	CALL(zherk_, 720, 51 * 16, "L", "N", N(6), N(5), one, a, N(6), one, c, N(6));
	CALL(dsyr2k_, 0, 0, "L", "N", N(0), N(5), one, a, N(1), b, N(1), one, c, N(1));
	/* adds nothing to a triangle of 3 */
	CALL(cblas_dsyrk, 0, 0, COLUMNS, UPPER, NO, 3, 0, 1, a, 3, 1, c, 3);
}

/* b is 6×4: with a triangle of 6 on the left 6 · 24 operations, 21 + 24 elements; with one of 4 on
 * the right 4 · 24, 10 + 24. Solving and multiplying are alike. */
static void multiply_triangles(void)
{
	for (int i = 0; i < 6; i++)
		a[i * 7] = 1;
	CALL(cblas_strsm, 144, 45 * 4, COLUMNS, LEFT, UPPER, NO, PLAIN, 6, 4, 0, (float *)a, 6,
	     (float *)b, 6);
	CALL(cblas_dtrsm, 96, 34 * 8, COLUMNS, RIGHT, LOWER, TRANSPOSED, PLAIN, 6, 4, 0, a, 4, b,
	     6);
	CALL(cblas_ctrsm, 576, 45 * 8, ROWS, LEFT, UPPER, NO, PLAIN, 6, 4, (float[2]){0}, a, 6, b,
	     4);
	CALL(cblas_ztrsm, 384, 34 * 16, COLUMNS, RIGHT, LOWER, NO, PLAIN, 6, 4, (double[2]){0}, a,
	     4, b, 6);
	CALL(cblas_strmm, 96, 34 * 4, COLUMNS, RIGHT, UPPER, NO, PLAIN, 6, 4, 1, (float *)a, 4,
	     (float *)b, 6);
	CALL(cblas_dtrmm, 144, 45 * 8, ROWS, LEFT, UPPER, TRANSPOSED, PLAIN, 6, 4, 1, a, 6, b, 4);
	CALL(cblas_ctrmm, 576, 45 * 8, COLUMNS, LEFT, LOWER, NO, PLAIN, 6, 4, one_single, a, 6, b,
	     6);
	CALL(cblas_ztrmm, 384, 34 * 16, COLUMNS, RIGHT, LOWER, NO, PLAIN, 6, 4, one, a, 4, b, 6);
	CALL(strsm_, 96, 34 * 4, "R", "U", "N", "N", N(6), N(4), (float[2]){0}, a, N(4), b, N(6));
	CALL(ztrmm_, 576, 45 * 16, "l", "U", "N", "N", N(6), N(4), one, a, N(6), b, N(6));
}

static int threads_count, times;

/* Thread t multiplies (8 + t)×16 by 16×8 into its own result. */
static void *multiply_beside(void *argument)
{
	int t = (int)(intptr_t)argument;
	float *result = (float *)c + t * 4096;

	for (int i = 0; i < times; i++)
		cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 8 + t, 8, 16, 1, (float *)a,
			    8 + t, (float *)b, 16, 0, result, 8 + t);
	return NULL;
}

static void multiply_in_threads(void)
{
	pthread_t threads[64];

	for (int t = 0; t < threads_count; t++)
		known_require(!pthread_create(&threads[t], NULL, multiply_beside,
					      (void *)(intptr_t)t),
			      "a thread");
	for (int t = 0; t < threads_count; t++) {
		pthread_join(threads[t], NULL);
		for (int i = 0; i < times; i++)
			expect_call("cblas_sgemm", 256 * (8 + (uint64_t)t),
				    4 * (24 * (8 + (uint64_t)t) + 128));
	}
}

static void scenario(void)
{
	multiply();
	multiply_edges();
	multiply_vectors();
	multiply_symmetric();
	update_ranks();
	multiply_triangles();
	if (threads_count)
		multiply_in_threads();
}

static jmp_buf refused;
static bool jumps;

/* BLAS calls the program's own handler, if it has one, for a bad argument. */
void xerbla_(const char *name, const int *info, int length);
void xerbla_(const char *name, const int *info, int length)
{
	(void)name, (void)info, (void)length;
	if (jumps)
		longjmp(refused, 1);
}

static void refused_product(bool leave)
{
	jumps = leave;
	if (!setjmp(refused))
		/* lda must be at least 3 */
		dgemm_("N", "N", N(3), N(4), N(5), one, a, N(1), b, N(5), one, c, N(3));
	else
		expected_of("dgemm_")->unwound++;
	expected_of("dgemm_")->calls++;
}

static void failing_scenario(void)
{
	refused_product(true);
	/* the call that was left is not the parent: this call's work is its own */
	CALL(sgemm_, 120, 47 * 4, "N", "N", N(3), N(4), N(5), one_single, a, N(3), b, N(5),
	     one_single, c, N(3));
	jumps = false;
	sgemm_("N", "N", N(-1), N(4), N(5), one_single, a, N(3), b, N(5), one_single, c, N(3));
	expected_of("sgemm_")->calls++;
	expected_of("sgemm_")->unread++;
}

int main(int argc, char **argv)
{
	bool failing = argc > 1 && !strcmp(argv[1], "failing");

	if (argc > 2) {
		threads_count = atoi(argv[1]);
		times = atoi(argv[2]);
		known_require(threads_count <= 64, "at most 64 threads");
	}
	known_main(failing ? failing_scenario : scenario);
	for (struct expected *e = expected; e->name; e++) {
		known_expect(e->name, "calls", e->calls);
		known_expect(e->name, "unwound", e->unwound);
		known_expect(e->name, "unread", e->unread);
		known_expect(e->name, "flops", e->flops);
		known_expect(e->name, "bytes", e->bytes);
	}
	return 0;
}
