/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_BASE_CLOCK_H
#define PERFX_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Now, approximately: the offset moves only while the machine is suspended. */
static inline uint64_t clock_monotonic_to_boot(uint64_t monotonic_ns)
{
	return monotonic_ns + clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
}

#endif
