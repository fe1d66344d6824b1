// SPDX-License-Identifier: BSD-2-Clause
/*
 * The overhead budget of what was not asked for. Two steps down:
 *
 *	timed → counted → left alone
 *
 * The first takes the links of a function's exits away, where these are single-stepped; the second
 * that of its entry. An offset cannot leave a link, so what may have to go has a link of its own,
 * and there are not many: after SIGKILL the kernel closes them one by one.
 */
#include "attach/probes_internal.h"
#include "base/grow.h"
#include "base/message.h"

#define OWN_ENTRIES_MAX 32
/* Numbers of link groups: exits of function i have i + 1, its entry ENTRY_GROUPS + i + 1,
 * allocation probes ALLOC_PROBE_GROUPS and up. */
#define ENTRY_GROUPS 0x40000000u

/* The interval over which cost is measured; a burst in a shorter time is ignored. */
#define WINDOW_NS	1000000000u
#define WINDOW_LEAST_NS 250000000u

static bool has_stepped_exits(const struct plan_function *function)
{
	for (size_t i = 0; i < function->site.exits_count; i++)
		if (function->site.exits[i].kind == SITE_STEPPED)
			return true;
	return false;
}

/* Its exits have links of their own. */
static bool has_own_exits(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];

	return function->by_default && !probes->placed[index].stays &&
	       probes->placed[index].ret == PERFX_RETURN_EXIT && has_stepped_exits(function);
}

void probes_decide_own_entry(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	/* what was placed before stays as it was */
	if (placed->entry || placed->stays || !function->by_default ||
	    !(function->often || placed->ret == PERFX_RETURN_NONE ||
	      has_own_exits(probes, index)) ||
	    (probes->own_entries_count >= OWN_ENTRIES_MAX && !plan_is_annotation(function)))
		return;
	placed->own_entry = true;
	probes->own_entries_count++;
}

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

static uint32_t alloc_group(const struct plan_function *alloc_probe)
{
	return group_of((enum perfx_domain)alloc_probe->alloc_probe.domain, is_free(alloc_probe));
}

uint32_t probes_entry_group(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];

	if (function->role == PLAN_ALLOC_PROBE)
		return alloc_group(function);
	if (probes->placed[index].stays)
		return PROBES_KEPT;
	return probes->placed[index].own_entry ? ENTRY_GROUPS + (uint32_t)index + 1 : 0;
}

uint32_t probes_exits_group(const struct probes *probes, size_t index)
{
	return has_own_exits(probes, index) ? (uint32_t)index + 1
					    : probes_entry_group(probes, index);
}

static void begin_interval(const struct probes *probes, size_t index, uint64_t now_ns)
{
	struct placed *placed = &probes->placed[index];

	placed->interval.since_ns = now_ns;
	placed->interval.cost_ns = probes_function_cost_ns(probes, index);
}

/* Calls are counted, not timed, from now on; the missing time is by choice and no loss. FLOPs
 * are not emitted either, because nested calls would count theirs again; except for a leaf,
 * which has no nested calls. */
static void only_count(struct probes *probes, size_t index)
{
	struct perfx_probe *probe = tracer__probe(probes->tracer, probes->placed[index].entry);
	uint32_t cost = probes->placed[index].cost_program;

	probe->flags |= PERFX_PROBE_F_BY_CHOICE;
	if (cost && !(probes->plan->cost_programs[cost].flags & PERFX_COST_F_LEAF))
		probe->cost_program = 0;
	probes_only_count(probes, index);
}

static void say(const struct probes *probes, size_t index, const char *what, double percent,
		const char *now)
{
	const struct plan_function *function = &probes->plan->functions[index];

	msg_say("%s: %s cost %.0f %% of the time: %s from now on; use -F '%s:%s' to force it",
		function->name, what, percent, now, probes->plan->modules[function->module].base,
		function->name);
}

static size_t exit_probes_count(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	size_t count = 0;

	if (placed->ret != PERFX_RETURN_EXIT)
		return 0;
	for (size_t i = 0; i < placed->exits_count; i++)
		count += !placed_enters_at(placed, &function->site.exits[i]);
	return count;
}

static void drop_exits(struct probes *probes, size_t index, double percent)
{
	uint32_t group = probes_exits_group(probes, index);

	probes->detached_count += exit_probes_count(probes, index);
	only_count(probes, index);
	links__detach_group(tracer__links(probes->tracer), group);
	say(probes, index, "timing", percent, "only counted");
}

static void leave_alone(struct probes *probes, size_t index, double percent)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	bool timed = placed->ret != PERFX_RETURN_NONE;

	probes->detached_count += 1 + exit_probes_count(probes, index);
	/* until the links are gone; calls that are open then have no end */
	only_count(probes, index);
	links__detach_group(tracer__links(probes->tracer), probes_entry_group(probes, index));
	placed->given_up = true;
	placed->attached = false;
	probes->functions_count--;
	skipped_add(probes->skipped, function->name,
		    plan_knows_work(probes->plan, placed->cost_program)
			    ? "removed during the recording: too many calls for the default set; "
			      "FLOPs of later calls are not known"
			    : "removed during the recording: too many calls for the default set");
	say(probes, index, timed ? "timing" : "counting", percent, "not traced");
}

static void look(struct probes *probes, size_t index, uint64_t now_ns)
{
	struct placed *placed = &probes->placed[index];
	uint64_t elapsed_ns = now_ns - placed->interval.since_ns;
	double spent_ns = probes_function_cost_ns(probes, index) - placed->interval.cost_ns;
	double percent = elapsed_ns ? 100 * spent_ns / (double)elapsed_ns : 0;
	double of_ns = (double)(elapsed_ns > WINDOW_LEAST_NS ? elapsed_ns : WINDOW_LEAST_NS);
	/* XLA's FLOPs are known by its calls alone */
	bool lenient = placed->ret != PERFX_RETURN_NONE || placed->object_arg;
	bool expensive = 100 * spent_ns / of_ns > (lenient ? BUDGET_PERCENT : COUNT_BUDGET_PERCENT);

	if (expensive && has_own_exits(probes, index))
		drop_exits(probes, index, percent);
	else if (expensive && placed->own_entry)
		leave_alone(probes, index, percent);
	else if (elapsed_ns < WINDOW_NS)
		return;
	begin_interval(probes, index, now_ns);
}

void probes__enforce_budget(struct probes *probes, uint64_t now_ns)
{
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct placed *placed = &probes->placed[i];

		if (!placed->attached || !(placed->own_entry || has_own_exits(probes, i)))
			continue;
		if (placed->interval.since_ns)
			look(probes, i, now_ns);
		else
			begin_interval(probes, i, now_ns);
	}
}

uint64_t probes__detached_count(const struct probes *probes)
{
	return probes->detached_count;
}

/* --- allocation probes: which are attached, and what they cost --- */

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

/* Takes a group's links away, as if its allocation probes had never been attached. */
static void detach_group(struct probes *probes, uint32_t group)
{
	links__detach_group(tracer__links(probes->tracer), group);
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];

		if (function->role != PLAN_ALLOC_PROBE || alloc_group(function) != group)
			continue;
		probes->placed[i].attached = false;
	}
}

/* Attaches a group's allocation probes wherever their files are attached already. */
static void attach_group(struct probes *probes, uint32_t group)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_count; i++)
		if (plan->functions[i].role == PLAN_ALLOC_PROBE &&
		    alloc_group(&plan->functions[i]) == group)
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
	/* frees first: every recorded block must have its free seen */
	want(probes, &probes->wanted[domain].frees, frees, group_of(domain, true));
	want(probes, &probes->wanted[domain].allocations, allocations, group_of(domain, false));
}

struct alloc_probe_cost probes__alloc_cost(const struct probes *probes, enum perfx_domain domain)
{
	const struct plan *plan = probes->plan;
	struct alloc_probe_cost cost = {0};

	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		uint64_t hits;

		if (function->role != PLAN_ALLOC_PROBE || function->alloc_probe.domain != domain ||
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
