/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a thread was on a CPU, by its samples. A pure function of the profile.
 */
#ifndef PERFX_ANALYZE_ACCOUNT_PLACE_H
#define PERFX_ANALYZE_ACCOUNT_PLACE_H

#include "analyze/wait_class.h"

/* Where a thread was on a CPU. */
struct account_place {
	uint32_t tid;
	enum account_class class; /* COMPUTING, SPINNING */
	/* The innermost line of the program's own, in Python or, in a stack without Python, native;
	 * the native function that a native one calls; the innermost Python line of any code; the
	 * innermost native function inside of that, of libc only where Python calls nothing else.
	 * NULL: none. */
	const struct profile_frame *own, *callee, *python, *native;
	uint32_t function; /* of the traced call around it; 0: none */
	uint64_t ns, count;
};

/* Sums over all samples of a process, by function: which functions only call others. */
struct place_sum {
	uint64_t all_ns, self_ns;
	size_t seen; /* the last sample that was added, from 1 */
};

/* Borrows the contexts. */
struct place_finder {
	const struct contexts *contexts;
	struct map64 by_frames; /* → sums[] */
	struct place_sum *sums;
	size_t sums_count, sums_capacity;
	uint64_t on_cpu_ns; /* of all threads */
	bool has_python;    /* some stack has a Python function */
	int err;
};

/* 0 or -ENOMEM; to be cleared in both cases. */
int place_finder_begin(struct place_finder *finder, const struct contexts *contexts);
void place_finder_clear(struct place_finder *finder);
/* Finds the place of a sample that is on a CPU. Leaves its ns and count at 0. */
struct account_place place_find(struct place_finder *finder, const struct profile_activity *sample,
				enum account_class class);
/* The innermost native function inside of Python that is neither the interpreter's nor libc's; of a
 * stack without Python libc's, where there is no other. NULL: none. */
const struct profile_frame *place_native(const struct profile_stack *stack);

#endif
