/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events counted during calls: the hardware's counters, or the kernel's own. */
#ifndef PERFX_AGGREGATE_PROFILE_METERS_H
#define PERFX_AGGREGATE_PROFILE_METERS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stdint.h>

struct profile_meter {
	const char *name, *unit; /* NULL: no such meter */
	bool is_flops;
};

/* Of the calls of a function, on their own threads, with what they call there. */
struct profile_metered {
	uint64_t calls_count, missed_count;
	uint64_t values[PERFX_METERS];
	/* Of those with a figure of their own: what it says, and what was counted. */
	uint64_t flops, counted_flops;
};

/* Of all threads of a process. */
struct profile_metered_process {
	uint64_t threads_count; /* 0: nothing is known */
	uint64_t values[PERFX_METERS];
	uint64_t enabled_ns, running_ns; /* less: others wanted the processor's counters too */
};

#endif
