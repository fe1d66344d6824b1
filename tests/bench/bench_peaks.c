// SPDX-License-Identifier: BSD-2-Clause
/*
 * What peaks_measure says that this host can do, beside what OpenBLAS reaches in the same minute,
 * one thread. A round is a measurement and then, for dgemm and sgemm, products of matrices of two
 * sizes (the small ones' run is as short as a burst of the clock, the large ones are where the
 * library is best), with the kernel of the measurement run for a moment before and after each, so
 * that it meets the same clock and the same neighbours. Both are timed by the thread's CPU time. A
 * line a round, GFLOP/s:
 *
 *	spent 0.61 f64 peak 112.7 beside 92.1 dgemm 88.2 f32 peak 220.3 beside 183.1 sgemm 171.0
 */
#include "base/clock.h"
#include "peaks/internal.h"
#include "peaks/peaks.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define N_MAX	   2048
#define PRODUCTS   12
#define MOMENT_NS  20000000u
#define HUGE_BYTES (2u << 20)

extern void openblas_set_num_threads(int count);
extern char *openblas_get_corename(void);

/* Room for doubles, with numbers that are also ordinary when read as floats. */
static void *matrix(void)
{
	size_t size = sizeof(double) * N_MAX * N_MAX;
	float *m = aligned_alloc(HUGE_BYTES, size);

	if (!m)
		exit(1);
	madvise(m, size, MADV_HUGEPAGE);
	for (size_t i = 0; i < 2 * (size_t)N_MAX * N_MAX; i++)
		m[i] = 0.5f + (float)(i % 7) * 0.0625f;
	return m;
}

static double product(enum perfx_dtype dtype, int n)
{
	static void *a, *b, *c;
	uint64_t start_ns;

	if (!a) {
		a = matrix();
		b = matrix();
		c = matrix();
	}
	start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (dtype == PERFX_DTYPE_F64)
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c,
			    n);
	else
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c,
			    n);
	return 2.0 * n * n * n / (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns);
}

static double moment(enum perfx_dtype dtype)
{
	const struct fma_kernel *kernel = fma_kernel_for(dtype);
	uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), spent_ns, flops = 0;

	if (!kernel)
		return 0;
	do {
		kernel->run(5000, kernel->constants);
		flops += 5000 * kernel->flops;
		spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	} while (spent_ns < MOMENT_NS);
	return (double)flops / (double)spent_ns;
}

static void beside(enum perfx_dtype dtype, double *kernel, double *gemm)
{
	*kernel = moment(dtype);
	*gemm = 0;
	for (int i = 0; i < PRODUCTS; i++) {
		double rate = product(dtype, i % 3 ? N_MAX / 2 : N_MAX), again = moment(dtype);

		*gemm = rate > *gemm ? rate : *gemm;
		*kernel = again > *kernel ? again : *kernel;
	}
}

static int one_round(void)
{
	uint64_t start_ns = clock_monotonic_ns(), spent_ns;
	double kernel64, kernel32, dgemm, sgemm;
	struct peaks peaks;

	if (peaks_measure(&peaks))
		return 1;
	spent_ns = clock_monotonic_ns() - start_ns;
	beside(PERFX_DTYPE_F64, &kernel64, &dgemm);
	beside(PERFX_DTYPE_F32, &kernel32, &sgemm);
	printf("spent %.2f f64 peak %.1f beside %.1f dgemm %.1f f32 peak %.1f beside %.1f sgemm "
	       "%.1f\n",
	       (double)spent_ns * 1e-9, peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64] * 1e-9, kernel64,
	       dgemm, peaks.flops[PEAKS_ONE][PERFX_DTYPE_F32] * 1e-9, kernel32, sgemm);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;

	openblas_set_num_threads(1);
	printf("core %s\n", openblas_get_corename());
	for (int i = 0; i < rounds; i++)
		if (one_round())
			return 1;
	return 0;
}
