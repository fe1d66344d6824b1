/* SPDX-License-Identifier: BSD-2-Clause */
/* What was counted, beside what arguments say. */
#ifndef PERFX_ANALYZE_METERED_H
#define PERFX_ANALYZE_METERED_H

#include "aggregate/profile.h"

/* Operations by both of them, of the same work. */
struct metered_flops {
	bool known;
	uint64_t estimated, counted;
};

/* Of a function: of its calls with a figure; where it has none of its own, of all that it calls, if
 * every call was metered. */
struct metered_flops metered_flops_of_row(const struct profile *profile,
					  const struct profile_row *row);
struct metered_flops metered_flops_of_process(const struct profile *profile,
					      const struct profile_process *process);
/* (counted - estimated) / estimated */
double metered_difference(const struct metered_flops *flops);
/* Share of the time in which the processor had counters free; 1 where there were enough. */
double metered_share(const struct profile_metered_process *metered);

#endif
