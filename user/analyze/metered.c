// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/metered.h"

/* -1: none counts them. */
static int flops_meter(const struct profile *profile)
{
	for (int i = 0; i < PERFX_METERS; i++)
		if (profile->meters[i].name && profile->meters[i].is_flops)
			return i;
	return -1;
}

struct metered_flops metered_flops_of_row(const struct profile *profile,
					  const struct profile_row *row)
{
	const struct profile_metered *metered = row->metered;
	int meter = flops_meter(profile);

	if (!metered || meter < 0)
		return (struct metered_flops){0};
	if (metered->flops)
		return (struct metered_flops){true, metered->flops, metered->counted_flops};
	if (row->work.counted_count || !row->inclusive.flops ||
	    metered->calls_count != row->calls_count)
		return (struct metered_flops){0};
	return (struct metered_flops){true, row->inclusive.flops, metered->values[meter]};
}

struct metered_flops metered_flops_of_process(const struct profile *profile,
					      const struct profile_process *process)
{
	int meter = flops_meter(profile);

	if (meter < 0 || !process->metered.threads_count || !process->compute.work.flops)
		return (struct metered_flops){0};
	return (struct metered_flops){true, process->compute.work.flops,
				      process->metered.values[meter]};
}

double metered_difference(const struct metered_flops *flops)
{
	return ((double)flops->counted - (double)flops->estimated) / (double)flops->estimated;
}

double metered_share(const struct profile_metered_process *metered)
{
	return metered->running_ns < metered->enabled_ns
		       ? (double)metered->running_ns / (double)metered->enabled_ns
		       : 1;
}
