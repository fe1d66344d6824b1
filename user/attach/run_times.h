/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long the BPF programs run in the traced processes, by the kernel's own account
 * (BPF_ENABLE_STATS, Linux 5.8). A hit of a calibration target says what a hit costs at least; how
 * far a stack is walked and what lies in the caches is the traced program's.
 */
#ifndef PERFX_ATTACH_RUN_TIMES_H
#define PERFX_ATTACH_RUN_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum tracer_program {
	PROGRAM_HIT,
	PROGRAM_RETURN,
	PROGRAM_SESSION,
	PROGRAM_ANNOTATION,
	PROGRAM_MEMORY_HIT,
	PROGRAM_MEMORY_RETURN,
	PROGRAM_MEMORY_SESSION,
};
#define TRACER_PROGRAMS (PROGRAM_MEMORY_SESSION + 1)

/* Mean ns a run, by enum tracer_program; 0: not known. */
struct run_times {
	double ns[TRACER_PROGRAMS];
};

struct tracer;

/* Keeps the account from now on, or no longer. It makes every run of a BPF program on this machine
 * take some tens of ns longer, so it is kept for some of the time. */
void tracer__account_runs(struct tracer *tracer, bool on);
/* The runs that were accounted for since tracer__forget_runs. */
void tracer__run_times(const struct tracer *tracer, struct run_times *times);
void tracer__forget_runs(struct tracer *tracer);

#endif
