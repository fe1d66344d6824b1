// SPDX-License-Identifier: BSD-2-Clause
/*
 * What hits cost: the trap as calibrated on calibration targets, the programs as they were seen to
 * run in the traced processes. Memory's programs walk stacks, and caches are colder there than in a
 * loop.
 */
#include "attach/probes_internal.h"

#include <stdlib.h>

/* The programs' account is kept for one tick in so many. */
#define ACCOUNT_PERIOD 10

void probes__watch_cost(struct probes *probes)
{
	uint64_t tick = probes->ticks_count++ % ACCOUNT_PERIOD;

	tracer__account_runs(probes->tracer, tick == 0);
	/* it has just ended: until the next one nothing changes */
	if (tick == 1)
		tracer__run_times(probes->tracer, &probes->run_times);
}

struct programs {
	enum tracer_program hit, at_return, session;
};

static const struct programs span_programs = {PROGRAM_HIT, PROGRAM_RETURN, PROGRAM_SESSION};
static const struct programs memory_programs = {PROGRAM_MEMORY_HIT, PROGRAM_MEMORY_RETURN,
						PROGRAM_MEMORY_SESSION};
static const struct programs mark_programs = {PROGRAM_ANNOTATION, PROGRAM_ANNOTATION,
					      PROGRAM_ANNOTATION};

static const struct programs *programs_of(const struct plan_function *function)
{
	return function->is_alloc_probe	 ? &memory_programs
	       : function->is_annotation ? &mark_programs
					 : &span_programs;
}

/* What programs run for at a hit, with its return where that is probed; 0: not known. */
static double runs_ns(const struct probes *probes, const struct run_times *times,
		      const struct programs *programs, enum perfx_return ret)
{
	double hit_ns = times->ns[programs->hit], return_ns = times->ns[programs->at_return];

	if (ret != PERFX_RETURN_PROBE)
		return hit_ns;
	if (tracer__return_link(probes->tracer) == PERFX_LINK_SESSION)
		return 2 * times->ns[programs->session];
	return hit_ns > 0 && return_ns > 0 ? hit_ns + return_ns : 0;
}

double probes_hit_ns(const struct probes *probes, const struct plan_function *function,
		     enum perfx_site site, enum perfx_return ret)
{
	double ns = calibration_hit_ns(probes->calibration, site, ret);
	double calibration_ns =
		runs_ns(probes, &probes->calibration->run_times, &span_programs, ret);
	double seen_ns = runs_ns(probes, &probes->run_times, programs_of(function), ret);

	if (!(ns > 0) || !(calibration_ns > 0) || !(seen_ns > 0))
		return ns;
	ns += seen_ns - calibration_ns;
	return ns > seen_ns ? ns : seen_ns;
}

double probes_function_cost_ns(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	double ns = (double)tracer__hits(probes->tracer, placed->entry) *
		    probes_hit_ns(probes, function, (enum perfx_site)function->site.entry_kind,
				  function->ret);

	for (size_t i = 0; i < placed->exits_count; i++)
		ns += (double)tracer__hits(probes->tracer, placed->first_exit + (uint32_t)i) *
		      probes_hit_ns(probes, function, (enum perfx_site)function->site.exits[i].kind,
				    PERFX_RETURN_EXIT);
	return ns;
}

double *probes_hit_costs(const struct probes *probes, uint32_t count)
{
	double *costs = calloc(count ? count : 1, sizeof(*costs));

	for (size_t i = 0;
	     costs && i < probes->placed_capacity && i < probes->plan->functions_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];
		const struct placed *placed = &probes->placed[i];

		if (!placed->entry)
			continue;
		costs[placed->entry] =
			probes_hit_ns(probes, function, (enum perfx_site)function->site.entry_kind,
				      function->ret);
		for (size_t k = 0; k < placed->exits_count; k++)
			costs[placed->first_exit + k] =
				probes_hit_ns(probes, function,
					      (enum perfx_site)function->site.exits[k].kind,
					      PERFX_RETURN_EXIT);
	}
	return costs;
}
