// SPDX-License-Identifier: BSD-2-Clause
/* Allocators' hooks: which are attached, and what they cost. */
#include "attach/probes_internal.h"
#include "base/grow.h"

/* Groups from here on are hooks'; those below are functions' (their index + 1). */
#define HOOK_GROUPS 0x80000000u

static bool is_free(const struct plan_function *hook)
{
	return hook->hook.action == PERFX_ACTION_FREE || hook->hook.action == PERFX_ACTION_UNMAP;
}

static uint32_t group_of(enum perfx_domain domain, bool frees)
{
	return HOOK_GROUPS + 2 * (uint32_t)domain + frees;
}

uint32_t probes_hook_group(const struct plan_function *hook)
{
	return group_of((enum perfx_domain)hook->hook.domain, is_free(hook));
}

bool probes_hook_wanted(const struct probes *probes, const struct plan_function *hook)
{
	return is_free(hook) ? probes->wanted[hook->hook.domain].frees
			     : probes->wanted[hook->hook.domain].allocations;
}

void probes_tell_allocator(struct probes *probes, const struct plan_function *hook)
{
	const struct plan *plan = probes->plan;
	size_t index = hook->hook.allocator - 1u;
	struct perfx_allocator record = {.allocator = hook->hook.allocator,
					 .domain = hook->hook.domain};

	if (grow_array(&probes->allocators_told, &probes->allocators_capacity,
		       plan->allocators_count, sizeof(*probes->allocators_told)) ||
	    probes->allocators_told[index])
		return;
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_ALLOCATOR, record,
		  plan->allocators[index].name, plan->modules[plan->allocators[index].module].path);
	probes->allocators_told[index] = true;
}

/* Takes a group's links away: its hooks are as if never attached. */
static void detach_group(struct probes *probes, uint32_t group)
{
	tracer__detach_group(probes->tracer, group);
	for (size_t i = 0; i < probes->placed_capacity && i < probes->plan->functions_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];

		if (!function->is_hook || probes_hook_group(function) != group)
			continue;
		probes->hooks_count -= probes->placed[i].attached;
		probes->placed[i].attached = false;
	}
}

/* Attaches a group's hooks wherever their files are attached already. */
static void attach_group(struct probes *probes, uint32_t group)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_capacity && i < plan->functions_count; i++)
		if (plan->functions[i].is_hook && probes_hook_group(&plan->functions[i]) == group)
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

void probes__want_hooks(struct probes *probes, enum perfx_domain domain, bool allocations,
			bool frees)
{
	/* frees first: a block that comes must be seen to go */
	want(probes, &probes->wanted[domain].frees, frees, group_of(domain, true));
	want(probes, &probes->wanted[domain].allocations, allocations, group_of(domain, false));
}

struct hook_cost probes__hook_cost(const struct probes *probes, enum perfx_domain domain)
{
	const struct plan *plan = probes->plan;
	struct hook_cost cost = {0};

	for (size_t i = 0; i < probes->placed_capacity && i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		uint64_t hits;

		if (!function->is_hook || function->hook.domain != domain || !placed->entry)
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
