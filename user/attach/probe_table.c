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

static uint32_t alloc_group(const struct plan_function *alloc_probe)
{
	return probes_alloc_group((enum perfx_domain)alloc_probe->alloc_probe.domain,
				  is_free(alloc_probe));
}

uint32_t probes_entry_group(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];

	if (function->role == PLAN_ALLOC_PROBE)
		return alloc_group(function);
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
	return is_free(alloc_probe) ? probes->wanted[alloc_probe->alloc_probe.domain].frees
				    : probes->wanted[alloc_probe->alloc_probe.domain].allocations;
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

/* An allocator's function: the table of allocation probes has its action. */
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

/* An annotation function: the table of annotations has its action. */
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
static uint32_t id_of_usdt(const struct probes *probes, size_t index)
{
	const struct plan_function *functions = probes->plan->functions;
	const struct plan_module *module = &probes->plan->modules[functions[index].module];

	for (size_t i = module->functions_first; i < index; i++)
		if (functions[i].role == PLAN_USDT &&
		    !strcmp(functions[i].name, functions[index].name))
			return probes->placed[i].id;
	return 0;
}

static uint32_t id_of(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	if (!placed->id && probes->plan->functions[index].role == PLAN_USDT)
		placed->id = id_of_usdt(probes, index);
	if (!placed->id)
		placed->id = tracer__new_function(probes->tracer);
	return placed->id;
}

static enum perfx_probe_kind alloc_exit_kind(const struct plan_function *function)
{
	return plan_is_annotation(function) ? PERFX_PROBE_ANNOTATION_EXIT : PERFX_PROBE_ALLOC_EXIT;
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
		if (function->role == PLAN_ALLOC_PROBE || plan_is_annotation(function))
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

/* The driver's function that a runtime's calls for the same work. Its return can be declined, exit
 * sites would be hit all the same. */
static bool is_part_of_outer(const struct probes *probes, const struct plan_function *function,
			     const struct placed *placed)
{
	const struct perfx_cost_program *program =
		placed->cost_program ? &probes->plan->cost_programs[placed->cost_program] : NULL;

	return program && program->flags & PERFX_COST_F_DEVICE && function->by_default &&
	       placed->ret == PERFX_RETURN_PROBE;
}

bool probes_is_leaf(const struct probes *probes, const struct placed *placed)
{
	return placed->cost_program &&
	       probes->plan->cost_programs[placed->cost_program].flags & PERFX_COST_F_LEAF;
}

int probes_place(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct calibration *calibration = probes->hit_costs.calibration;
	struct placed *placed = &probes->placed[index];
	struct perfx_probe probe = {.kind = entry_kind(placed->ret),
				    .call_cost_ns = call_ns(probes, index),
				    .own_cost_ns = (uint32_t)calibration_span_ns(
					    calibration, placed->entry_site.kind, placed->ret),
				    .cost_program = cost_program_of(probes, placed->cost_program),
				    .object_arg = placed->object_arg,
				    .event_arg = placed->event_arg,
				    .is_go = plan_is_go(function)};
	int64_t slot;

	probe.function = id_of(probes, index);
	if (function->role == PLAN_ALLOC_PROBE &&
	    place_alloc_probe(probes, function, placed, &probe))
		return -ENOSPC;
	if (function->role == PLAN_HINT)
		probe.kind = PERFX_PROBE_HINT;
	if (plan_is_annotation(function) && place_annotation(probes, function, placed, &probe))
		return -ENOSPC;
	if (function->role != PLAN_ALLOC_PROBE && !plan_is_annotation(function))
		mark_entry(&probe, function, placed);
	if (probes->counters_all ||
	    (probes->counters_enabled && plan_knows_work(probes->plan, placed->cost_program)))
		probe.flags |= PERFX_PROBE_F_PERF;
	if (is_part_of_outer(probes, function, placed))
		probe.flags |= PERFX_PROBE_F_OUTERMOST;
	if (probes->adopts && probes->plan->modules[function->module].is_ml)
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

static unsigned flags_of(const struct probes *probes, const struct plan_function *function)
{
	const char *step_range = probes->plan->options.step_range;
	bool is_step = step_range && !strcmp(step_range, function->name);

	return function->stream_flags | (is_step ? PERFX_FUNCTION_STEP : 0);
}

static void describe_function(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_module *module = &probes->plan->modules[function->module];
	struct perfx_function record = {.offset = function->offset,
					.function = probes->placed[index].id,
					.source = (uint16_t)function->source,
					.flags = (uint16_t)flags_of(probes, function),
					.operator_bytes = function->operator_bytes};
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_FUNCTION, record, function->name,
		  module->path, module->build_id);
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

static void describe_entry(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];

	describe_probe(probes, index,
		       (struct perfx_probe_record){.probe = placed->entry,
						   .offset = site_offset(function,
									 placed->entry_site.vaddr),
						   .site = (uint8_t)placed->entry_site.kind},
		       calibration_entry_ns(probes->hit_costs.calibration, placed->entry_site.kind,
					    placed->ret));
}

static void describe_exit(struct probes *probes, size_t index, size_t exit)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct exit_site *site = &function->site.exits[exit];

	describe_probe(probes, index,
		       (struct perfx_probe_record){.probe = probes->placed[index].first_exit +
							    (uint32_t)exit,
						   .offset = site_offset(function, site->vaddr),
						   .site = (uint8_t)site->kind,
						   .is_exit = true},
		       calibration_exit_ns(probes->hit_costs.calibration, site->kind));
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
	struct placed *placed = &probes->placed[index];

	if (function->role == PLAN_ALLOC_PROBE)
		emit_allocator(probes, function);
	if (!placed->described)
		describe_function(probes, index);
	else if (function->role == PLAN_ALLOC_PROBE)
		return; /* attached anew */
	placed->described = true;
	describe_entry(probes, index);
	if (placed->ret != PERFX_RETURN_EXIT)
		return;
	for (size_t i = 0; i < placed->exits_count; i++)
		if (!placed_enters_at(placed, &function->site.exits[i]))
			describe_exit(probes, index, i);
}

static bool was_called(const struct probes *probes, uint32_t function)
{
	uint32_t count;
	const struct perfx_context_node *nodes = tracer__contexts(probes->tracer, &count);

	for (uint32_t id = 1; id < count; id++)
		if (nodes[id].function == function)
			return true;
	return false;
}

void probes__skip_nameless(struct probes *probes)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &plan->functions[i];

		if (!plan_is_annotation(function) || function->source != PERFX_SOURCE_TORCH ||
		    function->annotation.action != PERFX_ANNOTATION_OPEN || !probes->placed[i].id ||
		    !was_called(probes, probes->placed[i].id))
			continue;
		skipped_hint(probes->skipped, "names of record_function",
			     "this PyTorch passes them to no function that can be probed: use "
			     "PyTorch 2.0 or later");
		return;
	}
}
