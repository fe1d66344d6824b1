// SPDX-License-Identifier: BSD-2-Clause
/* From plan to the table that the programs look into. */
#include "attach/probes_internal.h"

#include <errno.h>
#include <string.h>

static uint32_t call_cost_ns(const struct probes *probes, const struct plan_function *function)
{
	const struct calibration *calibration = probes->calibration;
	double cost = calibration_hit_ns(calibration, (enum perfx_site)function->site.entry_kind,
					 function->ret);

	/* one of the exits is hit; which one is not known, so the first */
	if (function->ret == PERFX_RETURN_EXIT && function->site.exits_count)
		cost += calibration_hit_ns(
			calibration, (enum perfx_site)function->site.exits[0].kind, function->ret);
	return (uint32_t)cost;
}

/* The part of a call's cost that lies between its own two time stamps. */
static uint32_t own_cost_ns(const struct probes *probes, const struct plan_function *function)
{
	const struct calibration *calibration = probes->calibration;

	return (uint32_t)(function->ret == PERFX_RETURN_PROBE
				  ? calibration->empty_span_by_return_ns[function->site.entry_kind]
				  : calibration->empty_span_ns[function->site.entry_kind]);
}

static enum perfx_probe_kind entry_kind(enum perfx_return ret)
{
	switch (ret) {
	case PERFX_RETURN_EXIT:
		return PERFX_PROBE_ENTRY;
	case PERFX_RETURN_PROBE:
		return PERFX_PROBE_RETURN;
	case PERFX_RETURN_NONE:
		break;
	}
	return PERFX_PROBE_COUNT;
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

/* What an entry site is besides: an exit, a loop's target. */
static void mark_entry(struct perfx_probe *probe, const struct plan_function *function)
{
	const struct site_plan *site = &function->site;

	if (site->entry_repeats)
		probe->flags |= PERFX_PROBE_F_REPEATS;
	if (function->ret != PERFX_RETURN_EXIT || !site->entry_is_exit)
		return;
	for (size_t i = 0; i < site->exits_count; i++) {
		struct perfx_probe exit = exit_probe(0, &site->exits[i], 0);

		if (site->exits[i].vaddr != site->entry_vaddr)
			continue;
		probe->condition = exit.condition;
		probe->flags |= exit.kind == PERFX_PROBE_EXIT ? PERFX_PROBE_F_LEAVES
							      : PERFX_PROBE_F_LEAVES_IF;
	}
}

/* An allocator's function: what it does is in the allocation probes' table. */
static int place_alloc_probe(struct probes *probes, const struct plan_function *function,
			     struct placed *placed, struct perfx_probe *probe)
{
	int64_t alloc_probe;

	if (!placed->rule) {
		alloc_probe = tracer__add_alloc_probe(probes->tracer, &function->alloc_probe);
		if (alloc_probe < 0)
			return (int)alloc_probe;
		placed->rule = (uint32_t)alloc_probe;
	}
	*probe = (struct perfx_probe){
		.function = probe->function, .kind = PERFX_PROBE_ALLOC, .rule = placed->rule};
	return 0;
}

/* A marking function: likewise, in theirs. */
static int place_annotation(struct probes *probes, const struct plan_function *function,
			    struct placed *placed, struct perfx_probe *probe)
{
	int64_t annotation;

	if (!placed->rule) {
		annotation = tracer__add_annotation(probes->tracer, &function->annotation);
		if (annotation < 0)
			return (int)annotation;
		placed->rule = (uint32_t)annotation;
	}
	probe->kind = PERFX_PROBE_ANNOTATION;
	probe->rule = placed->rule;
	probe->own_cost_ns = 0;
	probe->condition = plan_annotation_begins(&function->annotation) ? ANNOTATION_BEGINS : 0;
	return 0;
}

static void make_alloc_exit(struct perfx_probe *exit, uint32_t alloc_probe,
			    enum perfx_probe_kind kind)
{
	exit->flags =
		exit->kind == PERFX_PROBE_EXIT ? PERFX_PROBE_F_LEAVES : PERFX_PROBE_F_LEAVES_IF;
	exit->kind = kind;
	exit->rule = alloc_probe;
}

/* The programs' cost of that index. It is written when its first function is placed; what
 * finds no room there is as if it had none. */
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

/* Places of one USDT probe are one function. */
static uint32_t id_of_usdt(const struct probes *probes, size_t index)
{
	const struct plan_function *functions = probes->plan->functions;
	const struct plan_module *module = &probes->plan->modules[functions[index].module];

	for (size_t i = module->functions_first; i < index; i++)
		if (functions[i].is_usdt && !strcmp(functions[i].name, functions[index].name))
			return probes->placed[i].id;
	return 0;
}

static uint32_t id_of(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	if (!placed->id && probes->plan->functions[index].is_usdt)
		placed->id = id_of_usdt(probes, index);
	if (!placed->id)
		placed->id = tracer__new_function(probes->tracer);
	return placed->id;
}

static enum perfx_probe_kind alloc_exit_kind(const struct plan_function *function)
{
	return function->is_annotation ? PERFX_PROBE_ANNOTATION_EXIT : PERFX_PROBE_ALLOC_EXIT;
}

int probes_place_exits(struct probes *probes, size_t index, uint8_t flags)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	uint32_t cost_ns = call_cost_ns(probes, function);

	if (placed->exits_count)
		return 0;
	for (size_t i = 0; i < function->site.exits_count; i++) {
		struct perfx_probe probe =
			exit_probe(placed->id, &function->site.exits[i], cost_ns);
		int64_t slot;

		probe.flags = flags;
		if (function->is_alloc_probe || function->is_annotation)
			make_alloc_exit(&probe, placed->rule, alloc_exit_kind(function));
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		if (!i)
			placed->first_exit = (uint32_t)slot;
		placed->exits_count++;
	}
	return 0;
}

int probes_place(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	struct perfx_probe probe = {.kind = entry_kind(function->ret),
				    .call_cost_ns = call_cost_ns(probes, function),
				    .own_cost_ns = own_cost_ns(probes, function),
				    .cost_program = cost_program_of(probes, function->cost_program),
				    .object_arg = function->object_arg,
				    .event_arg = function->event_arg};
	int64_t slot;

	probe.function = id_of(probes, index);
	if (function->is_alloc_probe && place_alloc_probe(probes, function, placed, &probe))
		return -ENOSPC;
	if (function->is_hint)
		probe.kind = PERFX_PROBE_HINT;
	if (function->is_annotation && place_annotation(probes, function, placed, &probe))
		return -ENOSPC;
	if (!function->is_alloc_probe && !function->is_annotation)
		mark_entry(&probe, function);
	if (probes->counters_all || (probes->counters_enabled && probe.cost_program))
		probe.flags |= PERFX_PROBE_F_PERF;
	if (placed->entry) {
		*tracer__probe(probes->tracer, placed->entry) = probe;
	} else {
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		placed->entry = (uint32_t)slot;
	}
	return function->ret == PERFX_RETURN_EXIT ? probes_place_exits(probes, index, 0) : 0;
}

void probes_drop_exits(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	for (size_t i = 0; i < placed->exits_count; i++)
		tracer__probe(probes->tracer, placed->first_exit + (uint32_t)i)->kind =
			PERFX_PROBE_INVALID;
}

void probes_only_count(struct probes *probes, size_t index, const char *why)
{
	struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	function->ret = PERFX_RETURN_NONE;
	function->ret_why = why;
	/* what names the call still does: the name is counted */
	if (function->is_annotation && function->annotation.action == PERFX_ANNOTATION_CALL)
		tracer__probe(probes->tracer, placed->entry)->flags |= PERFX_PROBE_F_BY_CHOICE;
	else
		tracer__probe(probes->tracer, placed->entry)->kind = PERFX_PROBE_COUNT;
	probes_drop_exits(probes, index);
}
