/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What traced calls hand to GPUs, as records: GPU_LAUNCHES, GPU_COPIES, GPU_NAME. The kernel has
 * the sums (bpf/gpu.bpf.h); here kernels get their names.
 *
 * A kernel that is known by the address of its host stub has that function's name. What is mapped
 * there is noted when its first sum is sent, at most a second after the launch; the name is looked
 * up at the end, all of a file at a time (session/frames.h says why). One that is known by its
 * handle alone, because it got that before anybody looked, is "kernel at 0x7f…".
 */
#ifndef PERFX_SESSION_GPU_WORK_H
#define PERFX_SESSION_GPU_WORK_H

#include "decode/pack.h"
#include "gpu/gpu_names.h"

struct tracer;
struct frames;
struct gpu_work;

/* What has been added to the sums since the last time. */
void gpu_work__emit(struct gpu_work *work);
/* The names of kernels that have been emitted since the last time. */
void gpu_work__name(struct gpu_work *work);

#endif
