// SPDX-License-Identifier: BSD-2-Clause
/* The table of probes that the BPF programs read, in which group of links each is, and the records
 * that describe it: FUNCTION, PROBE and ALLOCATOR. */
#include "attach/probes_internal.h"
#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of link groups: exits of function i have i + 1, its entry ENTRY_GROUPS + i + 1 (both
 * PROBES_KEPT + i where it stays), and allocation probes ALLOC_PROBE_GROUPS and up. */
#define ENTRY_GROUPS	   0x40000000u
#define ALLOC_PROBE_GROUPS 0x80000000u

uint32_t probes_alloc_group(enum perfx_domain domain, bool frees)
{
	return ALLOC_PROBE_GROUPS + 2 * (uint32_t)domain + frees;
}

uint32_t probes_entry_group(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];

	if (function->role == PLAN_ALLOC_PROBE)
		return probes_alloc_group((enum perfx_domain)function->alloc_probe.domain,
					  is_free(function));
	if (probes->placed[index].stays)
		return PROBES_KEPT + (uint32_t)index;
	return has_own_links(probes) ? ENTRY_GROUPS + (uint32_t)index + 1 : 0;
}

uint32_t probes_exits_group(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];

	if (function->role == PLAN_ALLOC_PROBE || probes->placed[index].stays ||
	    !has_own_links(probes))
		return probes_entry_group(probes, index);
	return (uint32_t)index + 1;
}

bool probes_alloc_wanted(const struct probes *probes, const struct plan_function *alloc_probe)
{
	enum perfx_domain domain = alloc_probe->alloc_probe.domain;

	return is_free(alloc_probe) ? probes->wanted[domain].frees
				    : probes->wanted[domain].allocations;
}

static struct perfx_probe exit_probe(uint32_t function, const struct exit_site *site,
				     uint32_t cost_ns)
{
	struct perfx_probe probe = {
		.function = function,
		.kind = site->when == EXIT_ALWAYS ? PERFX_PROBE_EXIT : PERFX_PROBE_EXIT_IF,
		.condition = site->condition,
		.cfa_is_fp = site->cfa_reg == CFA_RBP,
		.cfa_offset = site->cfa_offset,
		.call_cost_ns = cost_ns,
	};

	/* codes come in pairs of opposites that differ in the lowest bit */
	if (site->when == EXIT_IF_NOT_TAKEN)
		probe.condition ^= 1;
	return probe;
}

/* An entry site may also be an exit, or the target of a loop. */
static void mark_entry(struct perfx_probe *probe, const struct plan_function *function,
		       const struct placed *placed)
{
	const struct site_plan *site = &function->site;

	if (placed->entry_site.repeats)
		probe->flags |= PERFX_PROBE_F_REPEATS;
	if (placed->ret != PERFX_RETURN_EXIT || !placed->entry_site.is_exit)
		return;
	for (size_t i = 0; i < site->exits_count; i++) {
		struct perfx_probe exit = exit_probe(0, &site->exits[i], 0);

		if (!placed_enters_at(placed, &site->exits[i]))
			continue;
		probe->condition = exit.condition;
		probe->flags |= exit.kind == PERFX_PROBE_EXIT ? PERFX_PROBE_F_LEAVES
							      : PERFX_PROBE_F_LEAVES_IF;
	}
}

/* Index of a cost program in the kernel's table, where all of the plan's are written up to now;
 * 0: no room. */
static uint32_t cost_program_of(struct probes *probes, uint32_t cost)
{
	const struct plan *plan = probes->plan;

	for (; probes->cost_programs_placed < plan->cost_programs_count;
	     probes->cost_programs_placed++)
		if (probes->cost_programs_placed &&
		    tracer__set_cost_program(probes->tracer, (uint32_t)probes->cost_programs_placed,
					     &plan->cost_programs[probes->cost_programs_placed]))
			break;
	return cost < probes->cost_programs_placed ? cost : 0;
}

/* All sites of a USDT probe are one function. */
static uint32_t id_of(struct probes *probes, size_t index)
{
	const struct plan_function *functions = probes->plan->functions;
	const struct plan_module *module = &probes->plan->modules[functions[index].module];
	struct placed *placed = &probes->placed[index];
	bool is_usdt = functions[index].role == PLAN_USDT;

	for (size_t i = module->functions_first; is_usdt && !placed->id && i < index; i++)
		if (functions[i].role == PLAN_USDT &&
		    !strcmp(functions[i].name, functions[index].name))
			placed->id = probes->placed[i].id;
	if (!placed->id)
		placed->id = tracer__new_function(probes->tracer);
	return placed->id;
}

static uint32_t call_ns(const struct probes *probes, size_t index)
{
	const struct placed *placed = &probes->placed[index];

	return (uint32_t)calibration_call_ns(probes->hit_costs.calibration,
					     &probes->plan->functions[index],
					     placed->entry_site.kind, placed->ret);
}

int probes_place_exits(struct probes *probes, size_t index, uint8_t flags)
{
	const struct plan_function *function = &probes->plan->functions[index];
	bool is_annotation = plan_is_annotation(function);
	struct placed *placed = &probes->placed[index];
	uint32_t cost_ns = call_ns(probes, index);

	if (placed->exits_count)
		return 0;
	for (size_t i = 0; i < function->site.exits_count; i++) {
		struct perfx_probe probe =
			exit_probe(placed->id, &function->site.exits[i], cost_ns);
		int64_t slot;

		probe.flags = flags;
		probe.is_go = plan_is_go(function);
		if (function->role == PLAN_ALLOC_PROBE || is_annotation) {
			probe.flags = probe.kind == PERFX_PROBE_EXIT ? PERFX_PROBE_F_LEAVES
								     : PERFX_PROBE_F_LEAVES_IF;
			probe.kind = is_annotation ? PERFX_PROBE_ANNOTATION_EXIT
						   : PERFX_PROBE_ALLOC_EXIT;
			probe.rule = placed->rule;
		}
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		if (!i)
			placed->first_exit = (uint32_t)slot;
		placed->exits_count++;
	}
	return 0;
}

bool probes_is_leaf(const struct probes *probes, const struct placed *placed)
{
	return placed->cost_program &&
	       probes->plan->cost_programs[placed->cost_program].flags & PERFX_COST_F_LEAF;
}

/* Allocators' functions and annotation functions have their actions in tables of their own. 0 or
 * -errno. */
static int place_rule(struct probes *probes, const struct plan_function *function,
		      struct placed *placed)
{
	int64_t rule = placed->rule;

	if (!rule)
		rule = function->role == PLAN_ALLOC_PROBE
			       ? tracer__add_alloc_probe(probes->tracer, &function->alloc_probe)
			       : tracer__add_annotation(probes->tracer, &function->annotation);
	if (rule < 0)
		return (int)rule;
	placed->rule = (uint32_t)rule;
	return 0;
}

int probes_place(struct probes *probes, size_t index)
{
	static const enum perfx_probe_kind kinds[] = {
		[PERFX_RETURN_NONE] = PERFX_PROBE_COUNT,
		[PERFX_RETURN_EXIT] = PERFX_PROBE_ENTRY,
		[PERFX_RETURN_PROBE] = PERFX_PROBE_RETURN,
	};
	const struct plan *plan = probes->plan;
	const struct plan_function *function = &plan->functions[index];
	struct placed *placed = &probes->placed[index];
	uint32_t cost_flags =
		plan->cost_programs ? plan->cost_programs[placed->cost_program].flags : 0;
	struct perfx_probe probe = {
		.kind = kinds[placed->ret],
		.call_cost_ns = call_ns(probes, index),
		.own_cost_ns = (uint32_t)calibration_span_ns(probes->hit_costs.calibration,
							     placed->entry_site.kind, placed->ret),
		.cost_program = cost_program_of(probes, placed->cost_program),
		.object_arg = placed->object_arg,
		.event_arg = placed->event_arg,
		.is_go = plan_is_go(function)};
	int64_t slot;

	probe.function = id_of(probes, index);
	if ((function->role == PLAN_ALLOC_PROBE || plan_is_annotation(function)) &&
	    place_rule(probes, function, placed))
		return -ENOSPC;
	if (function->role == PLAN_ALLOC_PROBE) {
		probe = (struct perfx_probe){.function = probe.function,
					     .kind = PERFX_PROBE_ALLOC,
					     .rule = placed->rule};
	} else if (plan_is_annotation(function)) {
		probe.kind = PERFX_PROBE_ANNOTATION;
		probe.rule = placed->rule;
		probe.own_cost_ns = 0;
		probe.condition =
			plan_annotation_begins(&function->annotation) ? ANNOTATION_BEGINS : 0;
	} else {
		if (function->role == PLAN_HINT)
			probe.kind = PERFX_PROBE_HINT;
		mark_entry(&probe, function, placed);
	}
	if (probes->counters_all ||
	    (probes->counters_enabled && plan_knows_work(plan, placed->cost_program)))
		probe.flags |= PERFX_PROBE_F_PERF;
	/* The driver's function that a runtime's calls for the same work. Its return can be
	 * declined, exit sites would be hit all the same. */
	if (placed->cost_program && cost_flags & PERFX_COST_F_DEVICE && function->by_default &&
	    placed->ret == PERFX_RETURN_PROBE)
		probe.flags |= PERFX_PROBE_F_OUTERMOST;
	if (probes->adopts && plan->modules[function->module].is_ml)
		probe.flags |= PERFX_PROBE_F_ADOPTS;
	if (placed->entry) {
		*tracer__probe(probes->tracer, placed->entry) = probe;
	} else {
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		placed->entry = (uint32_t)slot;
	}
	probes_refresh_entry(probes, index);
	return placed->ret == PERFX_RETURN_EXIT ? probes_place_exits(probes, index, 0) : 0;
}

/* Where calls are not timed, FLOPs are not emitted either, because nested calls would count theirs
 * again; except for a leaf, which has no nested calls. */
void probes_refresh_entry(struct probes *probes, size_t index)
{
	const struct placed *placed = &probes->placed[index];
	struct perfx_probe *probe = tracer__probe(probes->tracer, placed->entry);

	if (!placed->only_counted)
		return;
	probe->flags |= PERFX_PROBE_F_BY_CHOICE;
	if (!probes_is_leaf(probes, placed))
		probe->cost_program = 0;
}

void probes_drop_exits(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	for (size_t i = 0; i < placed->exits_count; i++)
		tracer__probe(probes->tracer, placed->first_exit + (uint32_t)i)->kind =
			PERFX_PROBE_INVALID;
}

void probes_only_count(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	placed->ret = PERFX_RETURN_NONE;
	/* an annotation that names its call still does: calls are counted by name */
	if (plan_is_annotation(function) && function->annotation.action == PERFX_ANNOTATION_CALL)
		tracer__probe(probes->tracer, placed->entry)->flags |= PERFX_PROBE_F_BY_CHOICE;
	else
		tracer__probe(probes->tracer, placed->entry)->kind = PERFX_PROBE_COUNT;
	probes_drop_exits(probes, index);
}

static void describe_probe(struct probes *probes, size_t index, struct perfx_probe_record record,
			   double cost_ns)
{
	const struct placed *placed = &probes->placed[index];

	record.cost_ps = (uint64_t)(cost_ns * 1000);
	record.function = placed->id;
	record.ret = placed->ret;
	record.link = placed->ret == PERFX_RETURN_PROBE ? tracer__return_link(probes->tracer)
							: tracer__hit_link(probes->tracer);
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_PROBE, record);
	probes->sites_count++;
}

static void emit_allocator(struct probes *probes, const struct plan_function *alloc_probe)
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

void probes_describe(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_module *module = &probes->plan->modules[function->module];
	const struct calibration *calibration = probes->hit_costs.calibration;
	const char *step_range = probes->plan->options.step_range;
	struct placed *placed = &probes->placed[index];
	struct perfx_function record = {.offset = function->offset,
					.function = placed->id,
					.source = (uint16_t)function->source,
					.flags = (uint16_t)function->stream_flags,
					.operator_bytes = function->operator_bytes};
	struct perfx_probe_record entry = {.probe = placed->entry,
					   .offset =
						   site_offset(function, placed->entry_site.vaddr),
					   .site = (uint8_t)placed->entry_site.kind};

	if (function->role == PLAN_ALLOC_PROBE) {
		emit_allocator(probes, function);
		if (placed->described)
			return; /* attached anew */
	}
	if (step_range && !strcmp(step_range, function->name))
		record.flags |= PERFX_FUNCTION_STEP;
	if (!placed->described)
		SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_FUNCTION, record,
			  function->name, module->path, module->build_id);
	placed->described = true;
	describe_probe(probes, index, entry,
		       calibration_entry_ns(calibration, placed->entry_site.kind, placed->ret));
	for (size_t i = 0; placed->ret == PERFX_RETURN_EXIT && i < placed->exits_count; i++) {
		const struct exit_site *site = &function->site.exits[i];
		struct perfx_probe_record exit = {.probe = placed->first_exit + (uint32_t)i,
						  .offset = site_offset(function, site->vaddr),
						  .site = (uint8_t)site->kind,
						  .is_exit = true};

		if (!placed_enters_at(placed, site))
			describe_probe(probes, index, exit,
				       calibration_exit_ns(calibration, site->kind));
	}
}

void probes__skip_nameless(struct probes *probes)
{
	uint32_t count;
	const struct perfx_context_node *nodes = tracer__contexts(probes->tracer, &count);

	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];
		uint32_t function_id = probes->placed[i].id;

		if (!plan_is_annotation(function) || function->source != PERFX_SOURCE_TORCH ||
		    function->annotation.action != PERFX_ANNOTATION_OPEN || !function_id)
			continue;
		for (uint32_t id = 1; id < count; id++) {
			if (nodes[id].function != function_id)
				continue;
			skipped_hint(probes->skipped, "names of record_function",
				     "this PyTorch passes them to no function that can be probed: "
				     "use PyTorch 2.0 or later");
			return;
		}
	}
}
