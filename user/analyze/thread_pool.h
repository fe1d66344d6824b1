/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pool of threads that computes for the thread that drives a process (OpenMP, BLAS, XLA), as
 * samples of call stacks show it: how many threads it has, how long they work, and how long they
 * only poll for each other.
 */
#ifndef PERFX_ANALYZE_THREAD_POOL_H
#define PERFX_ANALYZE_THREAD_POOL_H

#include "aggregate/profile.h"
#include "analyze/spinning.h"
#include "base/text.h"

/* On a CPU, sampled, in the steps' time. */
struct pool_time {
	uint64_t work_ns, spin_ns;
	double spin_error_ns; /* standard errors */
};

struct thread_pool {
	unsigned threads_count; /* the driver included; 0: no pool was seen */
	const char *runtime;	/* file name of its library; "": unknown */
	/* Times of the driver, and of all other threads. */
	struct pool_time driver, others;
	uint64_t driver_wait_ns;     /* blocked; of the other threads: exact */
	uint64_t others_runnable_ns; /* waiting for a CPU */
	struct spinning spinning;
};

/* 0 or -ENOMEM. */
int thread_pool_find(struct thread_pool *pool, const struct profile_process *process,
		     uint32_t driver_tid);
/* Does a thread with this stack run a part of the pool's work, or wait for one? */
bool stack_is_of_pool(const struct profile_stack *stack);
/* Writes how to set the number of threads of the pool in which the process computes, as
 * "torch.set_num_threads(2), or OMP_NUM_THREADS=2 before the program starts". False: the pool is
 * unknown. */
bool thread_pool_add_setting(struct text *text, const struct profile_process *process,
			     unsigned threads);

/* How well threads share the work of a function. Its speed-up is the CPU time of the caller and its
 * pool during the calls over the duration of the calls; its efficiency is the speed-up over the
 * number of these threads. Polling is not counted as work. A speed-up below 1: for a part of the
 * time no thread worked. */

struct parallelism {
	unsigned threads_count; /* threads that ran; 0: unknown */
	uint64_t samples_count;
	double speedup, efficiency;
	double error; /* standard error of the efficiency */
	/* CPU time of all other threads, relative to that of the calls: they may work for the
	 * calls. And CPU time of the caller, working or polling. */
	double others, caller;
};

/* A function whose work several threads share. */
struct parallel_function {
	uint32_t function;
	uint64_t total_ns;
	struct parallelism parallelism;
};

struct parallel_functions {
	struct parallel_function *list; /* total_ns descending */
	size_t count;
};

/* Finds functions that only this thread calls, with enough samples, and in which it does not wait.
 * 0 or -ENOMEM; call _clear either way. */
int parallel_functions_find(struct parallel_functions *functions,
			    const struct profile_process *process, uint32_t tid);
void parallel_functions_clear(struct parallel_functions *functions);

#endif
