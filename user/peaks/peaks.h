/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this host can do: floating-point operations a second by type, and bytes of memory a second,
 * with one thread and with one on each CPU that this process may use. See docs/peaks.md for what
 * the numbers mean.
 */
#ifndef PERFX_PEAKS_PEAKS_H
#define PERFX_PEAKS_PEAKS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stdint.h>

enum peaks_who { PEAKS_ONE = 0, PEAKS_ALL = 1 };

struct peaks {
	uint32_t threads;	       /* of PEAKS_ALL */
	double flops[2][PERFX_DTYPES]; /* a second, by peaks_who and type; 0: not known */
	double bytes[2];	       /* a second, by peaks_who; 0: not known */
	/* Others were working: the bandwidth is what they left, and may be more. */
	bool busy;
	uint64_t measured_unix; /* seconds */
};

/* Takes about half a second; all CPUs are busy meanwhile. Needs no privilege. 0 or -errno; what
 * cannot be measured is not known. */
int peaks_measure(struct peaks *peaks);

/* The CPUs are idle: a look at it of a tenth of a second. Only then it is no harm to measure
 * unasked. */
bool peaks_host_is_idle(void);

/* The better of each, for two measurements of the same host: whatever disturbs one lowers it. */
void peaks_merge(struct peaks *peaks, const struct peaks *other);

/* The types that are measured, 0 at the end. */
extern const enum perfx_dtype peaks_dtypes[];

#endif
