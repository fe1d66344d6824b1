// SPDX-License-Identifier: BSD-2-Clause
#include "attach/placed.h"

#include "plan/defaults.h"

#include <string.h>

static void place_entry(struct placed *placed, const struct site_plan *site)
{
	placed->entry_site.vaddr = site->entry_vaddr;
	placed->entry_site.kind = site->entry_kind;
	placed->entry_site.is_exit = site->entry_is_exit;
	placed->entry_site.repeats = site->entry_repeats;
}

static bool ends_steps(const struct plan *plan, const struct plan_function *function)
{
	const char *named = plan->options.step_range;

	return default_step(function->symbol) ||
	       (function->stream_flags & (PERFX_FUNCTION_ROUND | PERFX_FUNCTION_INFERENCE)) ||
	       (named && !strcmp(named, function->name));
}

void placed_begin(struct placed *placed, const struct plan *plan,
		  const struct plan_function *function)
{
	uint8_t object_arg = plan_object_arg(function);

	*placed = (struct placed){.ret = plan_return(plan, function),
				  .cost_program = function->cost_program,
				  .object_arg = object_arg,
				  .event_arg = plan_event_arg(function),
				  .worth = WORTH_DETAIL,
				  .ends_steps = ends_steps(plan, function)};
	placed->relies_on_c = placed->ret != function->ret;
	if (placed->ends_steps)
		placed->worth = WORTH_STEP_ENDS;
	else if (default_may_be_step(function->symbol))
		placed->worth = WORTH_STEPS;
	else if (plan_is_annotation(function))
		placed->worth = plan_ends_again(function) || function->role == PLAN_FILE_CALL
					? WORTH_DETAIL
					: WORTH_PHASES;
	else if (plan_knows_work(plan, function->cost_program) || object_arg)
		placed->worth = WORTH_FLOPS;
	place_entry(placed, &function->site);
}

bool placed_move_entry(struct placed *placed, const struct plan_function *function,
		       struct image *image, const struct site_options *options)
{
	struct site_plan site;
	bool found;

	placed->cost_program = 0;
	placed->object_arg = placed->event_arg = 0;
	found = !site_plan(image, function->vaddr, function->size, options, &site);
	if (found)
		place_entry(placed, &site);
	site_plan__clear(&site);
	return found;
}

bool placed_prefer_exits(struct placed *placed, const struct plan *plan,
			 const struct plan_function *function)
{
	if (placed->ret != PERFX_RETURN_PROBE || plan->options.return_mode != RETURN_AUTO ||
	    function->site.exits_state != EXITS_KNOWN || placed->exits_failed)
		return false;
	placed->ret = PERFX_RETURN_EXIT;
	return true;
}

void placed_doubt_exits(struct placed *placed)
{
	placed->exits_failed = true;
	placed->ret = PERFX_RETURN_PROBE;
}

void placed_distrust_returns(struct placed *placed, const struct plan_function *function)
{
	if (!placed->relies_on_c)
		return;
	placed->relies_on_c = false;
	placed->ret = placed->exits_failed ? PERFX_RETURN_NONE : function->ret;
}
