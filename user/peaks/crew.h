/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that all do the same at appointed times.
 *
 * A measurement is a row of short bursts, each beginning at a time that was agreed upon before:
 * whoever shares the CPUs with it disturbs some of them, seldom all, and a thread that was kept
 * from running shows it by its CPU time. Short also because a scheduler lets a thread that has
 * slept run for some milliseconds before it asks who else wants to.
 */
#ifndef PERFX_PEAKS_CREW_H
#define PERFX_PEAKS_CREW_H

#include "peaks/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct crew;

/* One thread for each CPU that this process may use. NULL with errno. */
struct crew *crew__new(void);
void crew__free(struct crew *crew);
size_t crew__size(const struct crew *crew);

/* What a row of bursts has given. */
struct crew_rate {
	double per_s; /* 0: not measured */
	bool clean;   /* all threads had their CPUs for the whole of some burst */
};

/* Operations a second: by the threads' CPU time, so that it is what they can do while they run,
 * whoever they share the CPUs with. */
struct crew_rate crew__flops(struct crew *crew, const struct fma_kernel *kernel, bool all);

/* Takes memory for crew__bandwidth, each thread its own part: well beyond the last-level caches,
 * where there is as much memory and time. 0 or -errno. */
int crew__take_memory(struct crew *crew);
/* Bytes a second by STREAM's count, by the clock: memory is shared with whoever runs meanwhile. */
struct crew_rate crew__bandwidth(struct crew *crew, bool all);

#endif
