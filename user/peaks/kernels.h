/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops that a peak is measured with. Written in assembly, so that neither the optimiser nor
 * its absence (-O0, sanitizers) changes what they do. */
#ifndef PERFX_PEAKS_KERNELS_H
#define PERFX_PEAKS_KERNELS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised when a kernel is changed or added: kept results of older ones are measured anew. */
#define PEAKS_KERNELS_VERSION 1

/* Multiplies and adds in registers, nothing else. */
struct fma_kernel {
	const char *name; /* of the instructions: "AVX-512" */
	uint64_t flops;	  /* of one iteration; one multiply-add is 2 */
	void (*run)(uint64_t iterations, const void *constants);
	const void *constants;
};

/* The fastest kernel for a type that this CPU and its operating system can run; NULL: none. */
const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype);

/* Half-wide types: the CPU has no units for them that there is no kernel for. They can always be
 * widened, so that the peak of f32 is one of theirs. */
bool fma_half_is_known(enum perfx_dtype dtype);
/* Tiles of such numbers are multiplied by a unit of their own (AMX). */
bool fma_has_amx(enum perfx_dtype dtype);

/* a[i] = b[i] + 3 c[i]; aligned to 16 bytes, count even. 24 bytes an element by STREAM's count. */
#define TRIAD_BYTES 24
void triad(double *a, const double *b, const double *c, size_t count);

#endif
