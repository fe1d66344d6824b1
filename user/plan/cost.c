// SPDX-License-Identifier: BSD-2-Clause
/*
 * A function's cost, and a site that suits it: one where the arguments that its program reads are
 * still in registers, and exits at which the result is there when it asks for that.
 */
#include "cost/cost_model.h"

#include "base/grow.h"
#include "plan/defaults.h"
#include "plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the program calls argument n is in the register that has it at the site. */
static void move_arguments(struct perfx_cost_program *cost, const struct site_plan *site)
{
	for (size_t i = 0; i < cost->entry_count; i++) {
		struct perfx_instruction *instruction = &cost->code[i];

		if (instruction->op == PERFX_OP_ARG)
			instruction->n = (__u8)(site->arguments[instruction->n - 1] + 1);
	}
}

/* Its index in plan->costs, one for each distinct program; -ENOMEM, -ENOSPC. */
static int64_t add_cost(struct plan *plan, const struct perfx_cost_program *cost)
{
	for (size_t i = 1; i < plan->cost_programs_count; i++)
		if (!memcmp(&plan->cost_programs[i], cost, sizeof(*cost)))
			return (int64_t)i;
	if (plan->cost_programs_count == PERFX_MAX_COST_PROGRAMS)
		return -ENOSPC;
	if (grow_array(&plan->cost_programs, &plan->cost_programs_capacity,
		       plan->cost_programs_count + 2, sizeof(*plan->cost_programs)))
		return -ENOMEM;
	if (!plan->cost_programs_count)
		plan->cost_programs_count = 1; /* index 0 is none */
	plan->cost_programs[plan->cost_programs_count] = *cost;
	return (int64_t)plan->cost_programs_count++;
}

/* Will the result be seen, however it is timed? */
static bool sees_result(const struct plan *plan, const struct plan_function *function)
{
	return function->site.exits_state == EXITS_KNOWN ||
	       plan->options.return_mode == RETURN_PROBE ||
	       return_probe_is_safe(plan->modules[function->module].base, function->symbol);
}

static int take_cost(struct plan *plan, struct perfx_cost_program *cost, const char *origin,
		     struct plan_function *function)
{
	int64_t index;

	move_arguments(cost, &function->site);
	index = add_cost(plan, cost);
	if (index == -ENOMEM)
		return -ENOMEM;
	if (index < 0) {
		function->cost_why = "too many kinds of cost programs";
		return 0;
	}
	function->cost_program = (uint32_t)index;
	function->is_worker = cost->flags & PERFX_COST_F_WORKER;
	function->cost_origin = origin;
	return 0;
}

/* The Itanium ABI: an object that is returned has its place in the first register. */
#define EVENT_ARG 1
#define THUNK_ARG 2

/* A site at which the thunk that is run is still in a register, and where its event goes. */
static int site_of_runner(struct image *image, const struct site_options *options,
			  struct plan_function *function)
{
	struct site_options wanted = *options;
	int err;

	wanted.argument_regs = 1u << (THUNK_ARG - 1) | 1u << (EVENT_ARG - 1);
	wanted.arguments_may_move = true;
	err = site_plan(image, function->vaddr, function->size, &wanted, &function->site);
	if (!err) {
		function->object_arg = (uint8_t)(function->site.arguments[THUNK_ARG - 1] + 1);
		function->event_arg = (uint8_t)(function->site.arguments[EVENT_ARG - 1] + 1);
		return 0;
	}
	function->cost_why = "no instruction at which its arguments are still there";
	site_plan__clear(&function->site);
	return site_plan(image, function->vaddr, function->size, options, &function->site);
}

int plan_site(struct plan *plan, struct image *image, struct plan_function *function)
{
	struct site_options options = {.entry_only = plan->options.site_entry_only,
				       .optimized_nop5 = plan->options.optimized_nop5,
				       .nop5_kills = plan->options.nop5_kills};
	struct site_options wanted = options;
	struct perfx_cost_program cost;
	const char *origin;
	int err;

	function->is_entry_point = function->vaddr && function->vaddr == image__entry_point(image);
	if (runs_thunks(function->symbol))
		return site_of_runner(image, &options, function);
	if (cost_model__find(plan->options.cost_model, plan->modules[function->module].base,
			     function->symbol, &cost, &origin))
		return site_plan(image, function->vaddr, function->size, &options, &function->site);
	wanted.argument_regs = cost_argument_regs(&cost);
	wanted.arguments_may_move = true;
	wanted.needs_result = cost_has_exit(&cost);
	err = site_plan(image, function->vaddr, function->size, &wanted, &function->site);
	if (!err && (!wanted.needs_result || sees_result(plan, function)))
		return take_cost(plan, &cost, origin, function);
	function->cost_why = err ? "no instruction at which its arguments are still there"
				 : "it needs the result, and the exits are not all known";
	site_plan__clear(&function->site);
	return site_plan(image, function->vaddr, function->size, &options, &function->site);
}

/* --- perfx_flops() --- */

struct hints {
	struct plan *plan;
	struct image *image;
	uint32_t module, cost_program;
	size_t first; /* function of this module */
};

static bool is_planned(const struct hints *hints, uint64_t vaddr)
{
	for (size_t i = hints->first; i < hints->plan->functions_count; i++)
		if (hints->plan->functions[i].is_hint && hints->plan->functions[i].vaddr == vaddr)
			return true;
	return false;
}

static int add_hint(uint64_t vaddr, void *ctx)
{
	struct hints *hints = ctx;
	struct plan_function function = {
		.module = hints->module,
		.name = strdup("perfx_flops"),
		.symbol = strdup("perfx_flops"),
		.vaddr = vaddr,
		.offset = (uint64_t)image__offset(hints->image, vaddr),
		.source = PERFX_SOURCE_PERFX,
		.site = {.entry_vaddr = vaddr, .entry_kind = SITE_NOP, .exits_state = EXITS_KNOWN},
		.ret = PERFX_RETURN_NONE,
		.ret_why = "a place, not a function",
		.cost_program = hints->cost_program,
		.is_hint = true,
	};
	int err = function.name && function.symbol ? 0 : -ENOMEM;

	if (!err && !is_planned(hints, vaddr)) {
		hints->plan->modules[hints->module].is_ml = true; /* annotated */
		err = plan_add_function(hints->plan, &function);
		if (!err)
			return 0;
	}
	free(function.name);
	free(function.symbol);
	return err;
}

/* What the register has is the number itself. */
static int64_t hint_cost(struct plan *plan)
{
	struct perfx_cost_program cost;
	char why[128];

	return cost_compile("flops = arg1", &cost, why, sizeof(why)) ? -EINVAL
								     : add_cost(plan, &cost);
}

int plan_hints(struct plan *plan, struct image *image, size_t module)
{
	struct hints hints = {.plan = plan,
			      .image = image,
			      .module = (uint32_t)module,
			      .first = plan->functions_count};
	int64_t cost = plan->options.cost_model ? hint_cost(plan) : 0;

	if (cost == -ENOMEM)
		return -ENOMEM;
	if (cost <= 0)
		return 0;
	hints.cost_program = (uint32_t)cost;
	return image__each_hint(image, add_hint, &hints);
}
