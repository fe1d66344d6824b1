// SPDX-License-Identifier: BSD-2-Clause
/*
 * How the budget (session/budget.h) reduces the cost of probes. A function has two steps down:
 *
 *	timed → counted → not traced
 *
 * The first step removes the probes at its exits, the second the probe at its entry. An offset
 * cannot be removed from a link. Single links are closed in groups by function; other links are
 * replaced by new links of the file without the offset. Allocation probes are removed and restored
 * by domain.
 */
#include "attach/probes_internal.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"

#include <stdlib.h>

void expenses_add(struct expenses *expenses, enum worth worth, struct expense expense)
{
	expenses->all_ns += expense.ns;
	expenses->ns[worth] += expense.ns;
	if (expense.ns > expenses->most[worth].ns)
		expenses->most[worth] = expense;
}

static bool is_torch_range(const struct plan_function *function)
{
	return plan_is_annotation(function) && function->source == PERFX_SOURCE_TORCH;
}

/* PyTorch 1.13 begins and ends a range without a name for each node of a backward pass. The same
 * function ends its other ranges, so the ranges of a file go together. */
static bool may_be_nameless(const struct plan *plan, const struct plan_function *function)
{
	const struct plan_module *module = &plan->modules[function->module];

	if (!is_torch_range(function) || plan_ends_again(function))
		return false;
	for (size_t i = 0; i < module->functions_count; i++) {
		const struct plan_function *other = &plan->functions[module->functions_first + i];

		if (is_torch_range(other) && other->annotation.action == PERFX_ANNOTATION_OPEN &&
		    !other->annotation.text_arg)
			return true;
	}
	return false;
}

void probes__steps_end_by_range(struct probes *probes)
{
	probes->steps_end_by_range = true;
}

void probes__find_nested(struct probes *probes)
{
	uint32_t count, ids = 1;
	const struct perfx_context_node *nodes = tracer__contexts(probes->tracer, &count);
	bool *knows_work, *is_called_alone, *is_inside;

	for (size_t i = 0; i < probes->placed_count; i++)
		ids = probes->placed[i].id >= ids ? probes->placed[i].id + 1 : ids;
	knows_work = calloc(ids, sizeof(*knows_work));
	is_called_alone = calloc(ids, sizeof(*is_called_alone));
	is_inside = calloc(count + 1, sizeof(*is_inside));
	for (size_t i = 0; knows_work && i < probes->placed_count; i++)
		knows_work[probes->placed[i].id] = probes->placed[i].worth == WORTH_FLOPS;
	/* a caller's node is older than its callees' */
	for (uint32_t i = 1; knows_work && is_called_alone && is_inside && i < count; i++) {
		uint32_t parent = nodes[i].parent < i ? nodes[i].parent : 0;

		is_inside[i] =
			parent && (is_inside[parent] || (nodes[parent].function < ids &&
							 knows_work[nodes[parent].function]));
		if (nodes[i].function < ids && !is_inside[i])
			is_called_alone[nodes[i].function] = true;
	}
	for (size_t i = 0; knows_work && is_called_alone && is_inside && i < probes->placed_count;
	     i++)
		probes->placed[i].is_nested = !is_called_alone[probes->placed[i].id];
	free(is_inside);
	free(is_called_alone);
	free(knows_work);
}

static enum worth worth_now(const struct probes *probes, size_t index)
{
	const struct placed *placed = &probes->placed[index];

	/* a backward pass ends a step only where no range does */
	if (probes->steps_end_by_range && !probes->plan->options.step_range && placed->ends_steps &&
	    probes->plan->functions[index].source == PERFX_SOURCE_TORCH)
		return WORTH_PHASES;
	return placed->worth == WORTH_FLOPS && placed->is_nested ? WORTH_DETAIL : placed->worth;
}

void probes__add_expenses(const struct probes *probes, bool everything, struct expenses *expenses)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		bool is_annotation = plan_is_annotation(function);
		struct expense expense = {.of = EXPENSE_FUNCTION,
					  .index = i,
					  .ns = placed->expense.entry_ns +
						placed->expense.exits_ns};

		/* by default, functions that the user chose stay at any cost */
		if (!placed->attached || function->role == PLAN_ALLOC_PROBE ||
		    (!everything && !function->by_default && !is_torch_range(function)))
			continue;
		/* nor are the probes that options ask for reduced: --step-range, annotations */
		if ((placed->ends_steps && plan->options.step_range) ||
		    (placed->stays && is_annotation) ||
		    (function->role != PLAN_CALLS && !may_be_nameless(plan, function) &&
		     function->role != PLAN_FILE_CALL && !(is_annotation && function->by_default)))
			expenses->all_ns += expense.ns;
		else
			expenses_add(expenses, worth_now(probes, i), expense);
	}
}

/* Recorded before the probes change, so that no call which this concerns comes first. No time rests
 * on ends that have another one before them. */
static void emit_reduced(struct probes *probes, size_t index, enum perfx_reduced_to to)
{
	const struct plan_function *functions = probes->plan->functions;
	const struct placed *placed = &probes->placed[index];
	const struct perfx_probe *probe = tracer__probe(probes->tracer, placed->entry);
	bool has_cost = plan_flops_rest_on(probes->plan, probe->cost_program);
	bool loses_cost = has_cost && !probes_is_leaf(probes, placed);
	struct perfx_reduced record = {
		.time_ns = clock_monotonic_ns(), .function = placed->id, .to = (uint8_t)to};

	if (plan_ends_again(&functions[index]))
		return;
	/* a kernel of BLAS in TensorFlow's library works for XLA's thunks and for other operators:
	 * while a thunk's end is seen, it is known for which */
	if (probe->object_arg)
		FOR_EACH_PLACED(i, probes, functions[index].module)
	loses_cost |= probes->placed[i].attached && probes_is_leaf(probes, &probes->placed[i]) &&
		      !plan_is_worker(&functions[i]);
	record.loses_cost =
		to == PERFX_REDUCED_REMOVED ? has_cost || probe->object_arg : loses_cost;
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_REDUCED, record);
}

static void reduce_one(struct probes *probes, size_t index, bool everything)
{
	static const char *const why[2][2] = {
		{"removed during the recording: too many calls for the default set",
		 "removed during the recording: too many calls for the default set; FLOPs of later "
		 "calls are not known"},
		{"removed during the recording: too many calls for --max-overhead",
		 "removed during the recording: too many calls for --max-overhead; FLOPs of later "
		 "calls are not known"},
	};
	const struct plan_function *function = &probes->plan->functions[index];
	struct links *links = tracer__links(probes->tracer);
	struct placed *placed = &probes->placed[index];
	uint32_t exits = probes_exits_group(probes, index);
	uint32_t entry = probes_entry_group(probes, index);
	double timed_ns = probes_entry_ns(probes, index);
	/* without its exits, or its return probe: a perf link of that cannot go alone, nor can a
	 * part of a group */
	bool counted =
		!placed->stays && (placed->ret == PERFX_RETURN_EXIT ||
				   (placed->ret == PERFX_RETURN_PROBE && !has_own_links(probes)));

	emit_reduced(probes, index, counted ? PERFX_REDUCED_COUNTED : PERFX_REDUCED_REMOVED);
	probes->detached_count += !counted;
	for (size_t i = 0; placed->ret == PERFX_RETURN_EXIT && i < placed->exits_count; i++)
		probes->detached_count += !placed_enters_at(placed, &function->site.exits[i]);
	/* Calls are counted, not timed, from now on: by choice, so the missing times are no loss.
	 * Also until the links are gone; calls that are open then have no end. */
	placed->only_counted = true;
	probes_only_count(probes, index);
	probes_refresh_entry(probes, index);
	if (exits)
		links__detach_group(links, exits);
	placed->expense.by_limit = everything;
	placed->expense.exits_ns = 0;
	if (counted) {
		if (timed_ns > 0)
			placed->expense.entry_ns *= probes_entry_ns(probes, index) / timed_ns;
		placed->expense.now = "only counted";
	} else {
		if (entry)
			links__detach_group(links, entry);
		placed->expense.entry_ns = 0;
		placed->expense.now = "not traced";
		placed->given_up = true;
		placed->attached = false;
		probes->functions_count--;
		skipped_add(probes->skipped, function->name,
			    why[everything][worth_now(probes, index) == WORTH_FLOPS]);
	}
	if (!entry)
		probes->attachments[function->module].outdated = true;
}

/* The functions that begin and that end a range are reduced together. */
void probes__reduce(struct probes *probes, size_t index, bool everything)
{
	const struct plan *plan = probes->plan;
	const struct plan_module *module = &plan->modules[plan->functions[index].module];

	if (!may_be_nameless(plan, &plan->functions[index])) {
		reduce_one(probes, index, everything);
		return;
	}
	for (size_t i = module->functions_first;
	     i < module->functions_first + module->functions_count; i++)
		if (is_torch_range(&plan->functions[i]) && probes->placed[i].attached)
			reduce_one(probes, i, everything);
}

void probes__apply_reductions(struct probes *probes)
{
	bool any = false;

	for (size_t i = 0; i < probes->attachments_capacity; i++) {
		if (!probes->attachments[i].outdated)
			continue;
		/* both sets of a file's links are there for a moment; one of them takes effect */
		probes_age_ungrouped(probes, i);
		FOR_EACH_PLACED(k, probes, i)
		probes->placed[k].nests &= !probes->placed[k].stale;
		probes_reattach_module(probes, i);
		probes->attachments[i].outdated = false;
		any = true;
	}
	if (any)
		probes__open(probes);
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];
		struct placed *placed = &probes->placed[i];
		struct text note = {0};

		if (!placed->expense.now)
			continue;
		if (placed->expense.by_limit)
			text_add(&note, "a higher --max-overhead keeps it");
		else
			text_printf(&note, "-F '%s:%s' keeps it",
				    probes->plan->modules[function->module].base, function->name);
		msg_reduced(function->name, placed->expense.now, text_peek(&note));
		placed->expense.now = NULL;
		text_clear(&note);
	}
}

uint64_t probes__detached_count(const struct probes *probes)
{
	return probes->detached_count;
}

/* Attaches or removes a group's allocation probes, wherever their files are attached. */
static void want(struct probes *probes, bool *wanted, bool now, uint32_t group)
{
	struct links *links = tracer__links(probes->tracer);

	if (*wanted == now)
		return;
	*wanted = now;
	/* earlier links of the group are gone before, so that no allocation is counted by both */
	if (now)
		links__wait(links);
	else
		links__detach_group(links, group);
	for (size_t i = 0; i < probes->placed_count; i++) {
		struct placed *placed = &probes->placed[i];

		if (probes->plan->functions[i].role != PLAN_ALLOC_PROBE ||
		    probes_entry_group(probes, i) != group)
			continue;
		if (now)
			placed->stale = true;
		else
			placed->attached = false;
	}
	if (now)
		probes_reattach(probes);
}

void probes__want_alloc(struct probes *probes, enum perfx_domain domain, bool allocations,
			bool frees)
{
	/* frees first: every recorded block must have its free seen */
	want(probes, &probes->wanted[domain].frees, frees, probes_alloc_group(domain, true));
	want(probes, &probes->wanted[domain].allocations, allocations,
	     probes_alloc_group(domain, false));
}
