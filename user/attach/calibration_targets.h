/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of our own with a known first and last instruction: what features are tried on and what
 * calibration measures. There are two of each, so that entry and exit and a return probe can be
 * measured without waiting until the links of the one are gone.
 */
#ifndef PERFX_ATTACH_CALIBRATION_TARGETS_H
#define PERFX_ATTACH_CALIBRATION_TARGETS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stdint.h>

struct calib_target {
	enum perfx_site site;
	void (*call)(void);
	const unsigned char *entry; /* the instruction of that kind */
	const unsigned char *exit;  /* a `jmp` to the `ret`: a branch; NULL: none here */
};

/* The calibration target of a site kind, and that for return probes; NULL on an architecture
 * without. */
const struct calib_target *calib_target_of(enum perfx_site site, bool by_return);

/* File offset of an address in this program's own executable, for links on /proc/self/exe;
 * -errno. */
int64_t calib_target_offset(const void *address);

#endif
