// SPDX-License-Identifier: BSD-2-Clause
/* The overhead budget of what nobody asked for. */
#include "base/message.h"
#include "record/probes_internal.h"

bool probes_droppable(const struct plan_function *function)
{
	bool stepped = false;

	for (size_t i = 0; i < function->site.exits_count; i++)
		stepped = stepped || function->site.exits[i].kind == SITE_STEPPED;
	return function->by_default && function->ret == PERFX_RETURN_EXIT && stepped;
}

static double exits_cost_ns(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	double cost_ns = 0;

	for (size_t i = 0; i < placed->exits_count; i++)
		cost_ns += (double)tracer__hits(probes->tracer, placed->first_exit + (uint32_t)i) *
			   calibration_hit_ns(probes->calibration,
					      (enum perfx_site)function->site.exits[i].kind,
					      PERFX_RETURN_EXIT);
	return cost_ns;
}

static void drop_exits(struct probes *probes, size_t index, double percent)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const char *base = probes->plan->modules[function->module].base;

	probes_only_count(probes, index, "timing it was too dear for the default");
	tracer__probe(probes->tracer, probes->placed[index].entry)->flags |=
		PERFX_PROBE_F_BY_CHOICE;
	tracer__detach_group(probes->tracer, (uint32_t)index + 1);
	probes->detached_count += probes->placed[index].exits_count;
	msg_say("%s: timing it cost %.0f %%: counted from now on; -F '%s:%s' insists",
		function->name, percent, base, function->name);
}

void probes__enforce_budget(struct probes *probes, uint64_t elapsed_ns)
{
	for (size_t i = 0;
	     i < probes->plan->functions_count && i < probes->placed_capacity && elapsed_ns; i++) {
		double percent;

		if (!probes->placed[i].attached || !probes_droppable(&probes->plan->functions[i]))
			continue;
		percent = 100 * exits_cost_ns(probes, i) / (double)elapsed_ns;
		if (percent > BUDGET_PERCENT)
			drop_exits(probes, i, percent);
	}
}

uint64_t probes__detached_count(const struct probes *probes)
{
	return probes->detached_count;
}
