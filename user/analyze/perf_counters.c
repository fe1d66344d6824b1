// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/perf_counters.h"

/* -1: none counts them. */
static int flops_counter(const struct profile *profile)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name && profile->perf_counters[i].is_flops)
			return i;
	return -1;
}

struct flops_check flops_check_of_row(const struct profile *profile, const struct profile_row *row)
{
	const struct profile_call_counters *perf = row->perf;
	int counter = flops_counter(profile);

	if (!perf || counter < 0)
		return (struct flops_check){0};
	if (perf->flops)
		return (struct flops_check){true, perf->flops, perf->counted_flops};
	if (row->cost.counted_count || !row->inclusive.flops ||
	    perf->calls_count != row->calls_count)
		return (struct flops_check){0};
	return (struct flops_check){true, row->inclusive.flops, perf->values[counter]};
}

struct flops_check flops_check_of_process(const struct profile *profile,
					  const struct profile_process *process)
{
	int counter = flops_counter(profile);

	if (counter < 0 || !process->perf.threads_count || !process->compute.cost.flops)
		return (struct flops_check){0};
	return (struct flops_check){true, process->compute.cost.flops,
				    process->perf.values[counter]};
}

double flops_check_difference(const struct flops_check *flops)
{
	return ((double)flops->counted - (double)flops->estimated) / (double)flops->estimated;
}

double perf_share(const struct profile_process_counters *perf)
{
	return perf->running_ns < perf->enabled_ns
		       ? (double)perf->running_ns / (double)perf->enabled_ns
		       : 1;
}
