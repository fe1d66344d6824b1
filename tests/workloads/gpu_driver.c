/* SPDX-License-Identifier: BSD-2-Clause */
/* Like a program with a static CUDA runtime: only the driver is a library. */
#define DRIVER_ONLY
#include "gpu_calls.c"
