/* SPDX-License-Identifier: BSD-2-Clause */
/* As a program whose CUDA runtime is linked into it: only the driver is a library. */
#define DRIVER_ONLY
#include "gpu_calls.c"
