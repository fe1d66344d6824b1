// SPDX-License-Identifier: BSD-2-Clause
/* Allocation probes: which are attached, and what they cost. */
#include "attach/probes_internal.h"
#include "base/grow.h"

/* Groups from here on are allocation probes'; those below are functions' (their index + 1). */
#define ALLOC_PROBE_GROUPS 0x80000000u

static bool is_free(const struct plan_function *alloc_probe)
{
	return alloc_probe->alloc_probe.action == PERFX_ACTION_FREE ||
	       alloc_probe->alloc_probe.action == PERFX_ACTION_UNMAP;
}

static uint32_t group_of(enum perfx_domain domain, bool frees)
{
	return ALLOC_PROBE_GROUPS + 2 * (uint32_t)domain + frees;
}

uint32_t probes_alloc_group(const struct plan_function *alloc_probe)
{
	return group_of((enum perfx_domain)alloc_probe->alloc_probe.domain, is_free(alloc_probe));
}

bool probes_alloc_wanted(const struct probes *probes, const struct plan_function *alloc_probe)
{
	return is_free(alloc_probe) ? probes->wanted[alloc_probe->alloc_probe.domain].frees
				    : probes->wanted[alloc_probe->alloc_probe.domain].allocations;
}

void probes_emit_allocator(struct probes *probes, const struct plan_function *alloc_probe)
{
	const struct plan *plan = probes->plan;
	size_t index = alloc_probe->alloc_probe.allocator - 1u;
	struct perfx_allocator record = {.allocator = alloc_probe->alloc_probe.allocator,
					 .domain = alloc_probe->alloc_probe.domain};

	if (grow_array(&probes->allocators_emitted, &probes->allocators_capacity,
		       plan->allocators_count, sizeof(*probes->allocators_emitted)) ||
	    probes->allocators_emitted[index])
		return;
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_ALLOCATOR, record,
		  plan->allocators[index].name, plan->modules[plan->allocators[index].module].path);
	probes->allocators_emitted[index] = true;
}

/* Takes a group's links away: its allocation probes are as if never attached. */
static void detach_group(struct probes *probes, uint32_t group)
{
	tracer__detach_group(probes->tracer, group);
	for (size_t i = 0; i < probes->placed_capacity && i < probes->plan->functions_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];

		if (!function->is_alloc_probe || probes_alloc_group(function) != group)
			continue;
		probes->alloc_probes_count -= probes->placed[i].attached;
		probes->placed[i].attached = false;
	}
}

/* Attaches a group's allocation probes wherever their files are attached already. */
static void attach_group(struct probes *probes, uint32_t group)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_capacity && i < plan->functions_count; i++)
		if (plan->functions[i].is_alloc_probe &&
		    probes_alloc_group(&plan->functions[i]) == group)
			probes->placed[i].stale = true;
	probes_reattach(probes);
}

static void want(struct probes *probes, bool *wanted, bool now, uint32_t group)
{
	if (*wanted == now)
		return;
	*wanted = now;
	if (now)
		attach_group(probes, group);
	else
		detach_group(probes, group);
}

void probes__want_alloc(struct probes *probes, enum perfx_domain domain, bool allocations,
			bool frees)
{
	/* frees first: a block that comes must be seen to go */
	want(probes, &probes->wanted[domain].frees, frees, group_of(domain, true));
	want(probes, &probes->wanted[domain].allocations, allocations, group_of(domain, false));
}

struct alloc_probe_cost probes__alloc_cost(const struct probes *probes, enum perfx_domain domain)
{
	const struct plan *plan = probes->plan;
	struct alloc_probe_cost cost = {0};

	for (size_t i = 0; i < probes->placed_capacity && i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		uint64_t hits;

		if (!function->is_alloc_probe || function->alloc_probe.domain != domain ||
		    !placed->entry)
			continue;
		hits = tracer__hits(probes->tracer, placed->entry);
		if (is_free(function))
			cost.frees_count += hits;
		else
			cost.allocations_count += hits;
		cost.cost_ns += probes_function_cost_ns(probes, i);
	}
	return cost;
}
