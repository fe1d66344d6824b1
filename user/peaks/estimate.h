/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a host should be able to do, by what its CPU says of itself: nothing is run, so it may be
 * asked beside a job. A guess, by a third or so: the clock under load, and how many vector units
 * there are, are not to be found out that way; of memory nothing is.
 */
#ifndef PERFX_PEAKS_ESTIMATE_H
#define PERFX_PEAKS_ESTIMATE_H

#include "peaks/peaks.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu_units {
	double hz;
	uint32_t cores, threads; /* that may be used; threads share the units of a core */
	unsigned vector_bits;
	unsigned vectors_per_cycle;
	bool fma; /* a vector instruction multiplies and adds */
	/* Half-wide types: as many times f32's rate as they are narrower, or by AMX. */
	bool has_f16, has_bf16, amx_f16, amx_bf16;
};

/* This host's; hz 0: not known. */
void cpu_units_read(struct cpu_units *units);
/* Operations a second with one thread and with all; 0: not known. */
void peaks_of_units(const struct cpu_units *units, struct peaks *peaks);

/* 0, or -ENOENT: the CPU does not say enough. */
int peaks_estimate(struct peaks *peaks);

#endif
