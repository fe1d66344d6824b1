/* SPDX-License-Identifier: BSD-2-Clause */
/* Peaks that the user gives: --peak-flops, --peak-bandwidth, --no-peaks. */
#ifndef PERFX_PEAKS_GIVEN_H
#define PERFX_PEAKS_GIVEN_H

#include "peaks/peaks.h"

struct peaks_given {
	uint64_t flops[PERFX_DTYPES]; /* a second, all CPUs together; 0: not given */
	uint64_t bytes;		      /* likewise */
	bool measure_nothing;
};

/* "1.2T", or by type "f32:1.2T,f64:600G". 0 or -EINVAL. */
int peaks_given_flops(struct peaks_given *given, const char *text);
/* "25G", "204.8GB/s". */
int peaks_given_bytes(struct peaks_given *given, const char *text);

bool peaks_given_any(const struct peaks_given *given);
/* Both kinds are given: nothing is left to be measured. */
bool peaks_given_all(const struct peaks_given *given);

#endif
