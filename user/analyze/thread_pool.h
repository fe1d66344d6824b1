/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pool of threads that computes for the thread that drives a process (OpenMP, BLAS, XLA), as
 * samples of call stacks show it: how many threads it has, how long they work, and how long they
 * only poll for each other.
 *
 * A thread that waits for the rest of its pool polls before it sleeps, and so looks busy. It polls
 * in the runtime's own library, which computes nothing, or in the barriers of code that is compiled
 * at run time (oneDNN): there nearly all samples are in a loop of two instructions.
 */
#ifndef PERFX_ANALYZE_THREAD_POOL_H
#define PERFX_ANALYZE_THREAD_POOL_H

#include "aggregate/profile.h"

/* On a CPU, sampled. */
struct pool_time {
	uint64_t work_ns, spin_ns;
	double spin_error_ns; /* standard error */
};

struct thread_pool {
	unsigned threads_count; /* the driver included; 0: none was seen */
	const char *runtime;	/* its file, without folders; "": none */
	/* The driver's own part, and that of all others. */
	struct pool_time driver, others;
	uint64_t driver_wait_ns; /* blocked, for the others: exact */
	uint64_t loop_address;	 /* of the polling in code compiled at run time; 0: none */
};

/* 0 or -ENOMEM. */
int thread_pool_find(struct thread_pool *pool, const struct profile_process *process,
		     uint32_t driver_tid);
/* Does a thread with this stack run a part of the pool's work, or wait for one? */
bool stack_is_of_pool(const struct profile_stack *stack);
/* Does it only poll for the others? */
bool stack_spins(const struct thread_pool *pool, const struct profile_stack *stack);

#endif
