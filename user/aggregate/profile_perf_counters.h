/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events counted during calls: the hardware's counters, or the kernel's own. */
#ifndef PERFX_AGGREGATE_PROFILE_PERF_COUNTERS_H
#define PERFX_AGGREGATE_PROFILE_PERF_COUNTERS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stdint.h>

struct profile_perf_counter {
	const char *name, *unit; /* NULL: no such counter */
	bool is_flops;
};

/* Of the calls of a function, on their own threads, with what they call there. */
struct profile_call_counters {
	uint64_t calls_count, missed_count;
	uint64_t values[PERFX_PERF_COUNTERS];
	/* Of those with a cost of their own: what it says, and what was counted. */
	uint64_t flops, counted_flops;
};

/* Of all threads of a process. */
struct profile_process_counters {
	uint64_t threads_count; /* 0: nothing is known */
	uint64_t values[PERFX_PERF_COUNTERS];
	uint64_t enabled_ns, running_ns; /* less: others wanted the processor's counters too */
};

#endif
