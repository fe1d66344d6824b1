// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/peaks.h"

#include "base/clock.h"
#include "peaks/bench_threads.h"
#include "peaks/host.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

const enum perfx_dtype peaks_dtypes[] = {PERFX_DTYPE_F64, PERFX_DTYPE_F32, PERFX_DTYPE_F16,
					 PERFX_DTYPE_BF16, 0};

/* This share of the machine's CPU time: more is another's work, not the noise of a quiet one. */
#define BUSY_SHARE 0.05

static void measure_flops(struct peaks *peaks, struct bench_threads *bench_threads,
			  enum perfx_dtype dtype)
{
	const struct fma_kernel *kernel = fma_kernel_for(dtype);

	if (!kernel)
		return;
	peaks->flops[PEAKS_ONE][dtype] = bench_threads__flops(bench_threads, kernel, false).per_s;
	peaks->flops[PEAKS_ALL][dtype] = bench_threads__flops(bench_threads, kernel, true).per_s;
}

/* A product of half-wide numbers by their own instructions, or in f32 once they are widened. */
static void bound_half(struct peaks *peaks, enum perfx_dtype dtype)
{
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		double *flops = peaks->flops[who];

		if (!fma_half_is_known(dtype))
			flops[dtype] = 0;
		else if (flops[dtype] < flops[PERFX_DTYPE_F32])
			flops[dtype] = flops[PERFX_DTYPE_F32];
	}
}

static bool measure_bytes(struct peaks *peaks, struct bench_threads *bench_threads)
{
	bool clean = true;

	if (bench_threads__take_memory(bench_threads))
		return true;
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		struct bench_rate rate = bench_threads__bandwidth(bench_threads, who == PEAKS_ALL);

		peaks->bytes[who] = rate.per_s;
		clean = clean && rate.clean;
	}
	return clean;
}

/* More threads can do no less than one: where they did, they were disturbed. */
static void at_least_one(const double *one, double *all)
{
	*all = *all < *one ? *one : *all;
}

static bool others_worked(uint64_t all_ns, uint64_t own_ns, uint64_t elapsed_ns)
{
	double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);

	return (double)all_ns - (double)own_ns > BUSY_SHARE * cpus * (double)elapsed_ns;
}

int peaks_measure(struct peaks *peaks)
{
	uint64_t start_ns = clock_monotonic_ns(), busy_ns = host_busy_ns();
	uint64_t own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct bench_threads *bench_threads = bench_threads__new();
	bool clean;

	*peaks = (struct peaks){.measured_unix = clock_ns(CLOCK_REALTIME) / 1000000000u};
	if (!bench_threads)
		return -errno;
	peaks->threads = (uint32_t)bench_threads__size(bench_threads);
	for (size_t i = 0; peaks_dtypes[i]; i++)
		measure_flops(peaks, bench_threads, peaks_dtypes[i]);
	clean = measure_bytes(peaks, bench_threads);
	bench_threads__free(bench_threads);
	bound_half(peaks, PERFX_DTYPE_F16);
	bound_half(peaks, PERFX_DTYPE_BF16);
	for (size_t i = 0; peaks_dtypes[i]; i++)
		at_least_one(&peaks->flops[PEAKS_ONE][peaks_dtypes[i]],
			     &peaks->flops[PEAKS_ALL][peaks_dtypes[i]]);
	at_least_one(&peaks->bytes[PEAKS_ONE], &peaks->bytes[PEAKS_ALL]);

	peaks->busy = !clean || others_worked(host_busy_ns() - busy_ns,
					      clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns,
					      clock_monotonic_ns() - start_ns);
	return 0;
}

#define LOOK_NS 100000000

bool peaks_host_is_idle(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	uint64_t start_ns = clock_monotonic_ns(), busy_ns = host_busy_ns();

	nanosleep(&look, NULL);
	return busy_ns &&
	       !others_worked(host_busy_ns() - busy_ns, 0, clock_monotonic_ns() - start_ns);
}

static void merge_rate(double *rate, double other)
{
	*rate = other > *rate ? other : *rate;
}

void peaks_merge(struct peaks *peaks, const struct peaks *other)
{
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		for (int dtype = 0; dtype < PERFX_DTYPES; dtype++)
			merge_rate(&peaks->flops[who][dtype], other->flops[who][dtype]);
		merge_rate(&peaks->bytes[who], other->bytes[who]);
	}
	peaks->busy = peaks->busy && other->busy;
	if (other->measured_unix > peaks->measured_unix)
		peaks->measured_unix = other->measured_unix;
}
