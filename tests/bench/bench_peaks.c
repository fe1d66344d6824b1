// SPDX-License-Identifier: BSD-2-Clause
/*
 * What peaks_measure says this host can do, beside what OpenBLAS's dgemm and sgemm reach in the
 *same minute: a round is a measurement, then some products of large matrices. Products are timed by
 *the CPU time of the thread that makes them, the best counts. Prints one line a round, and the
 *best:
 *
 *	round f64 peak 112.7 dgemm 104.2 f32 peak 220.3 sgemm 203.0 spent 0.61
 *	best f64 peak 112.9 dgemm 106.0 f32 peak 221.0 sgemm 205.2
 *
 * GFLOP/s, one thread. With an argument: so many rounds.
 */
#include "base/clock.h"
#include "peaks/peaks.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1024

extern void openblas_set_num_threads(int count);

struct figures {
	double peak, gemm;
};

static double *a, *b, *c;

static double product(bool is_double)
{
	uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (is_double)
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c,
			    N);
	else
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, (float *)a, N,
			    (float *)b, N, 0, (float *)c, N);
	return 2.0 * N * N * N / (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns);
}

static double best_product(bool is_double)
{
	double best = 0;

	for (int i = 0; i < 8; i++) {
		double rate = product(is_double);

		best = rate > best ? rate : best;
	}
	return best;
}

static void keep(struct figures *best, struct figures now)
{
	best->peak = now.peak > best->peak ? now.peak : best->peak;
	best->gemm = now.gemm > best->gemm ? now.gemm : best->gemm;
}

static int one_round(struct figures best[2])
{
	uint64_t start_ns = clock_monotonic_ns();
	struct figures f64, f32;
	struct peaks peaks;
	double spent;

	if (peaks_measure(&peaks))
		return 1;
	spent = (double)(clock_monotonic_ns() - start_ns) * 1e-9;
	f64 = (struct figures){peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64] * 1e-9, best_product(true)};
	f32 = (struct figures){peaks.flops[PEAKS_ONE][PERFX_DTYPE_F32] * 1e-9, best_product(false)};
	printf("round f64 peak %.1f dgemm %.1f f32 peak %.1f sgemm %.1f spent %.2f\n", f64.peak,
	       f64.gemm, f32.peak, f32.gemm, spent);
	fflush(stdout);
	keep(&best[0], f64);
	keep(&best[1], f32);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	struct figures best[2] = {0};

	openblas_set_num_threads(1);
	a = malloc(sizeof(double) * N * N);
	b = malloc(sizeof(double) * N * N);
	c = malloc(sizeof(double) * N * N);
	if (!a || !b || !c)
		return 1;
	/* two such floats make an ordinary double as well */
	for (size_t i = 0; i < 2 * (size_t)N * N; i++)
		((float *)a)[i] = ((float *)b)[i] = 0.5f + (float)(i % 7) * 0.0625f;
	for (int i = 0; i < rounds; i++)
		if (one_round(best))
			return 1;
	printf("best f64 peak %.1f dgemm %.1f f32 peak %.1f sgemm %.1f\n", best[0].peak,
	       best[0].gemm, best[1].peak, best[1].gemm);
	return 0;
}
