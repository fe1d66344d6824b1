/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spinning: a thread is on a CPU and only waits there, for another thread or for an event. It looks
 * busy and does no work, so reports keep its time apart from computing and from waiting. This is
 * the one place that decides which samples spin:
 *
 *	loops that only wait, by their instructions (profile_frame.spins, site/spin.h)
 *	functions that poll: sched_yield, poll and the like, which were called so often that samples
 *	meet them on a CPU; runtimes' barriers; waits for a GPU; waits for a child with time-outs
 *	barriers in code that is compiled at run time (oneDNN), whose instructions are not recorded:
 *	there nearly all samples are in a loop of two instructions
 */
#ifndef PERFX_ANALYZE_SPINNING_H
#define PERFX_ANALYZE_SPINNING_H

#include "aggregate/profile.h"

/* What is known about spinning in a process. */
struct spinning {
	uint64_t loop_address; /* of the loop in code compiled at run time; 0: none */
};

struct spinning spinning_of(const struct profile_process *process);
bool sample_spins(const struct spinning *spinning, const struct profile_activity *sample);
/* Does a thread that is on a CPU with this stack spin? NULL: no. */
bool stack_spins(const struct spinning *spinning, const struct profile_stack *stack);
/* The part of each line's on_cpu_ns that spins, as many as process->lines; the caller frees them.
 * NULL: out of memory. */
uint64_t *spinning_of_lines(const struct profile_process *process);

#endif
