/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How well threads share the work of a function: its speed-up is the CPU time that the caller and
 * its pool worked while it ran, over the time that it took; its efficiency that over the number of
 * these threads. Polling for other threads is no work.
 */
#ifndef PERFX_ANALYZE_PARALLELISM_H
#define PERFX_ANALYZE_PARALLELISM_H

#include "analyze/thread_pool.h"

struct parallelism {
	unsigned threads_count; /* that ran; 0: nothing is known */
	uint64_t samples_count;
	double speedup, efficiency;
	double error; /* standard error of the efficiency */
};

/* A function that several threads share. */
struct parallel_function {
	uint32_t function;
	uint64_t total_ns;
	struct parallelism parallelism;
};

struct parallel_functions {
	struct parallel_function *list; /* total_ns descending */
	size_t count;
};

/* Of those that the thread alone calls, with enough samples. 0 or -ENOMEM; _clear either way. */
int parallel_functions_find(struct parallel_functions *functions,
			    const struct profile_process *process, uint32_t tid);
void parallel_functions_clear(struct parallel_functions *functions);

#endif
