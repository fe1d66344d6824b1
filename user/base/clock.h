/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks, and how long the parts of a start took. */
#ifndef PERFX_BASE_CLOCK_H
#define PERFX_BASE_CLOCK_H

#include <stddef.h>
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

static inline uint64_t clock_boot_to_monotonic(uint64_t boot_ns)
{
	return boot_ns + clock_ns(CLOCK_MONOTONIC) - clock_ns(CLOCK_BOOTTIME);
}

#define PHASES_MAX 8

struct phases {
	struct phase {
		const char *name; /* not copied */
		uint64_t begin_ns;
	} list[PHASES_MAX];
	size_t count;
};

/* Begins a phase and ends the one before it. With PHASES_MAX phases the last one goes on. */
void phases_begin(struct phases *phases, const char *name);

/* "ready in 812 ms: features 95, plan 310, load 240, calibrate 40, attach 127": the last one ends
 * at end_ns. */
void phases_format(const struct phases *phases, uint64_t end_ns, char *text, size_t size);

#endif
