// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/steps.h"

/* What came by the overflow sums has no type. */
static uint64_t unrecorded_flops(const struct profile_compute *compute)
{
	for (size_t i = 0; i < compute->dtypes_count; i++)
		if (compute->dtypes[i].dtype == PERFX_DTYPE_UNKNOWN)
			return compute->dtypes[i].flops;
	return 0;
}

struct step_rates steps_rates(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_step_cost *cost = &process->steps.cost;
	struct step_rates rates = {.flops = -1, .flops_per_s = -1, .thread_share = -1, .mfu = -1};

	rates.unrecorded_flops = unrecorded_flops(&process->compute);
	if (!cost->counted_count || !cost->steps_count)
		return rates;
	rates.flops = (double)cost->flops / (double)cost->steps_count;
	if (cost->ns)
		rates.flops_per_s = (double)cost->flops * 1e9 / (double)cost->ns;
	if (cost->flops)
		rates.thread_share = (double)cost->thread_flops / (double)cost->flops;
	rates.roof = roofline_whole_roof(profile, cost->dtype);
	rates.mfu = roofline_mfu(profile, cost->dtype, cost->flops, cost->ns);
	return rates;
}

double steps_mfu(const struct profile *profile, const struct profile_steps *steps,
		 const struct profile_step *step)
{
	if (!steps->cost.counted_count)
		return -1;
	return roofline_mfu(profile, steps->cost.dtype, step->flops, step->total_ns);
}

bool steps_slow(const struct profile_steps *steps, const struct profile_step *step)
{
	return (double)step->max_ns > STEPS_SLOW * (double)steps->p50_ns;
}

uint64_t steps_unrecorded(const struct profile_process *process)
{
	for (size_t i = 0; process->steps.count && i < process->rows_count; i++)
		if (process->rows[i].function == process->steps.function)
			return process->rows[i].overflow_count;
	return 0;
}
