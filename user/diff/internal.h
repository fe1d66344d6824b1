/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this module share. */
#ifndef PERFX_DIFF_INTERNAL_H
#define PERFX_DIFF_INTERNAL_H

#include "diff/diff.h"

/* NAN where the count is absent or the time 0. */
double diff_per_s(uint64_t count, uint64_t ns);
double diff_of(uint64_t part, uint64_t whole);
/* A rate that is below 0 where it is not known. */
double diff_known(double number);

/* functions.c, memory.c, gpu.c: both of one process; 0 or -ENOMEM */
int diff_functions(const struct diff *diff, struct diff_process *process);
int diff_memory(struct diff *diff, struct diff_process *process);
int diff_gpu(const struct diff *diff, struct diff_process *process);
/* Once it is known how many tests there are. */
void diff_judge_function(const struct diff *diff, struct diff_function *function);
void diff_judge_gpu(const struct diff *diff, struct diff_gpu *gpu);
int diff_order_functions(const void *a, const void *b);
/* change: of a mean; > 0 is worse */
enum diff_verdict diff_judge(const struct diff *diff, const struct welch *welch, double change);

#endif
