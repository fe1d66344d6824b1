/* SPDX-License-Identifier: BSD-2-Clause */
/* Hardware counts beside the FLOPs known from arguments. */
#ifndef PERFX_ANALYZE_PERF_COUNTERS_H
#define PERFX_ANALYZE_PERF_COUNTERS_H

#include "aggregate/profile.h"

/* Operations by both of them, of the same work. */
struct flops_check {
	bool known;
	uint64_t estimated, counted;
};

/* Of a function: of its calls with a known cost; where it has none of its own, of all that it
 * calls, if every call was counted. */
struct flops_check flops_check_of_row(const struct profile *profile, const struct profile_row *row);
struct flops_check flops_check_of_process(const struct profile *profile,
					  const struct profile_process *process);
/* (counted - estimated) / estimated */
double flops_check_difference(const struct flops_check *flops);
/* Share of the time in which the processor had counters free; 1 where there were enough. */
double perf_share(const struct profile_process_counters *perf);

#endif
