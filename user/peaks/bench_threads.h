/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that all do the same at appointed times.
 *
 * A measurement is a row of short bursts, each beginning at a time that was agreed upon before:
 * whoever shares the CPUs with it disturbs some of them, seldom all, and a thread that was kept
 * from running shows it by its CPU time. Short also because a scheduler lets a thread that has
 * slept run for some milliseconds before it considers others.
 */
#ifndef PERFX_PEAKS_BENCH_THREADS_H
#define PERFX_PEAKS_BENCH_THREADS_H

#include "peaks/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_threads;

/* One thread for each CPU that this process may use. NULL with errno. */
struct bench_threads *bench_threads__new(void);
void bench_threads__free(struct bench_threads *bench_threads);
size_t bench_threads__size(const struct bench_threads *bench_threads);

/* The result of a row of bursts. */
struct bench_rate {
	double per_s; /* 0: not measured */
	bool clean;   /* all threads had their CPUs for the whole of some burst */
};

/* Operations a second: by the threads' CPU time, so that it is what they can do while they run,
 * whoever they share the CPUs with. */
struct bench_rate bench_threads__flops(struct bench_threads *bench_threads,
				       const struct fma_kernel *kernel, bool all);

/* Takes memory for bench_threads__bandwidth, each thread its own part: well beyond the last-level
 * caches, where there is as much memory and time. 0 or -errno. */
int bench_threads__take_memory(struct bench_threads *bench_threads);
/* Bytes a second by STREAM's count, by the clock: memory is shared with whoever runs meanwhile. */
struct bench_rate bench_threads__bandwidth(struct bench_threads *bench_threads, bool all);

#endif
