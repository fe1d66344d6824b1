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

/* By default the user's own choice is kept, whatever it costs. */
static bool is_in_budget(const struct probes *probes, size_t index, bool everything)
{
	const struct plan_function *function = &probes->plan->functions[index];

	return probes->placed[index].attached && function->role != PLAN_ALLOC_PROBE &&
	       (everything || function->by_default || is_torch_range(function));
}

void probes__steps_end_by_range(struct probes *probes)
{
	probes->steps_end_by_range = true;
}

/* A backward pass ends a step only where no range does. */
static bool is_phase(const struct probes *probes, size_t index)
{
	const struct plan *plan = probes->plan;

	return probes->steps_end_by_range && !plan->options.step_range &&
	       probes->placed[index].ends_steps &&
	       plan->functions[index].source == PERFX_SOURCE_TORCH;
}

/* The budget keeps the probes that options ask for: --step-range, annotations. */
static bool can_be_reduced(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];

	return !(placed->ends_steps && probes->plan->options.step_range) &&
	       !(placed->stays && plan_is_annotation(function)) &&
	       (function->role == PLAN_CALLS || may_be_nameless(probes->plan, function) ||
		(plan_is_annotation(function) && function->by_default));
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

	if (is_phase(probes, index))
		return WORTH_PHASES;
	return placed->worth == WORTH_FLOPS && placed->is_nested ? WORTH_DETAIL : placed->worth;
}

void probes__add_expenses(const struct probes *probes, bool everything, struct expenses *expenses)
{
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct placed *placed = &probes->placed[i];
		struct expense expense = {.of = EXPENSE_FUNCTION,
					  .index = i,
					  .ns = placed->expense.entry_ns +
						placed->expense.exits_ns};

		if (!is_in_budget(probes, i, everything))
			continue;
		if (can_be_reduced(probes, i))
			expenses_add(expenses, worth_now(probes, i), expense);
		else
			expenses->all_ns += expense.ns;
	}
}

static void say(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	struct text note = {0};

	if (!placed->expense.now)
		return;
	if (placed->expense.by_limit)
		text_add(&note, "a higher --max-overhead keeps it");
	else
		text_printf(&note, "-F '%s:%s' keeps it",
			    probes->plan->modules[function->module].base, function->name);
	msg_reduced(function->name, placed->expense.now, text_peek(&note));
	placed->expense.now = NULL;
	text_clear(&note);
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

/* A kernel of BLAS in TensorFlow's library works for XLA's thunks and for other operators. While a
 * thunk's end is seen, it is known for which. */
static bool shares_kernels(const struct probes *probes, size_t index)
{
	const struct plan *plan = probes->plan;
	const struct plan_module *module = &plan->modules[plan->functions[index].module];
	size_t end = module->functions_first + module->functions_count;

	for (size_t i = module->functions_first; i < end; i++)
		if (probes->placed[i].attached && probes_is_leaf(probes, &probes->placed[i]) &&
		    !plan_is_worker(&plan->functions[i]))
			return true;
	return false;
}

/* Recorded before the probes change, so that no call which this concerns comes first. No time rests
 * on ends that have another one before them. */
static void emit_reduced(struct probes *probes, size_t index, enum perfx_reduced_to to)
{
	const struct placed *placed = &probes->placed[index];
	const struct perfx_probe *probe = tracer__probe(probes->tracer, placed->entry);
	bool has_cost = plan_flops_rest_on(probes->plan, probe->cost_program);
	bool by_arguments = has_cost && !probes_is_leaf(probes, placed);
	bool by_kernels = probe->object_arg && shares_kernels(probes, index);
	struct perfx_reduced record = {
		.time_ns = clock_monotonic_ns(),
		.function = placed->id,
		.to = (uint8_t)to,
		.loses_cost = to == PERFX_REDUCED_REMOVED ? has_cost || probe->object_arg
							  : by_arguments || by_kernels,
	};

	if (!plan_ends_again(&probes->plan->functions[index]))
		SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_REDUCED, record);
}

/* Calls are counted, not timed, from now on: by choice, so the missing times are no loss. */
static void only_count(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	placed->only_counted = true;
	probes_only_count(probes, index);
	probes_refresh_entry(probes, index);
}

static void drop_exits(struct probes *probes, size_t index)
{
	uint32_t group = probes_exits_group(probes, index);

	emit_reduced(probes, index, PERFX_REDUCED_COUNTED);
	probes->detached_count += exit_probes_count(probes, index);
	only_count(probes, index);
	if (group)
		links__detach_group(tracer__links(probes->tracer), group);
	probes->placed[index].expense.now = "only counted";
}

static const char *why_removed(const struct probes *probes, size_t index)
{
	bool knows_work = worth_now(probes, index) == WORTH_FLOPS;

	if (probes->placed[index].expense.by_limit)
		return knows_work ? "removed during the recording: too many calls for "
				    "--max-overhead; FLOPs of later calls are not known"
				  : "removed during the recording: too many calls for "
				    "--max-overhead";
	return knows_work ? "removed during the recording: too many calls for the default set; "
			    "FLOPs of later calls are not known"
			  : "removed during the recording: too many calls for the default set";
}

static void leave_alone(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];
	uint32_t exits = probes_exits_group(probes, index),
		 entry = probes_entry_group(probes, index);

	emit_reduced(probes, index, PERFX_REDUCED_REMOVED);
	probes->detached_count += 1 + exit_probes_count(probes, index);
	/* until the links are gone; calls that are open then have no end */
	only_count(probes, index);
	if (exits)
		links__detach_group(tracer__links(probes->tracer), exits);
	if (entry)
		links__detach_group(tracer__links(probes->tracer), entry);
	placed->given_up = true;
	placed->attached = false;
	probes->functions_count--;
	skipped_add(probes->skipped, probes->plan->functions[index].name,
		    why_removed(probes, index));
	placed->expense.now = "not traced";
}

/* Without its exits, or its return probe: a perf link of that cannot go alone, nor can a part of a
 * group. */
static bool can_be_counted(const struct probes *probes, size_t index)
{
	enum perfx_return ret = probes->placed[index].ret;

	if (probes->placed[index].stays)
		return false;
	return ret == PERFX_RETURN_EXIT || (ret == PERFX_RETURN_PROBE && !has_own_links(probes));
}

static void reduce_one(struct probes *probes, size_t index, bool everything)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	double timed_ns = probes_entry_ns(probes, index);

	placed->expense.by_limit = everything;
	if (can_be_counted(probes, index)) {
		drop_exits(probes, index);
		if (timed_ns > 0)
			placed->expense.entry_ns *= probes_entry_ns(probes, index) / timed_ns;
	} else {
		placed->expense.entry_ns = 0;
		leave_alone(probes, index);
	}
	placed->expense.exits_ns = 0;
	if (!probes_entry_group(probes, index))
		probes->attachments[function->module].outdated = true;
}

/* What begins a range goes together with what ends it. */
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

/* Makes a file's links anew. Both sets are there for a moment, of which one takes effect. */
static void refresh(struct probes *probes, size_t module)
{
	const struct plan_module *planned = &probes->plan->modules[module];
	size_t end = planned->functions_first + planned->functions_count;

	for (size_t i = planned->functions_first; i < end && i < probes->placed_count; i++) {
		struct placed *placed = &probes->placed[i];

		if (!placed->attached || probes_entry_group(probes, i))
			continue;
		placed->stale = true;
		placed->nests = false;
	}
	links__age_file(tracer__links(probes->tracer), planned->fd, false);
	probes_reattach_module(probes, module);
}

void probes__apply_reductions(struct probes *probes)
{
	bool any = false;

	for (size_t i = 0; i < probes->attachments_capacity; i++) {
		if (!probes->attachments[i].outdated)
			continue;
		refresh(probes, i);
		probes->attachments[i].outdated = false;
		any = true;
	}
	if (any)
		probes__open(probes);
	for (size_t i = 0; i < probes->placed_count; i++)
		say(probes, i);
}

uint64_t probes__detached_count(const struct probes *probes)
{
	return probes->detached_count;
}

/* Takes a group's links away, as if its allocation probes had never been attached. */
static void detach_group(struct probes *probes, uint32_t group)
{
	links__detach_group(tracer__links(probes->tracer), group);
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];

		if (function->role != PLAN_ALLOC_PROBE || probes_entry_group(probes, i) != group)
			continue;
		probes->placed[i].attached = false;
	}
}

/* Attaches a group's allocation probes wherever their files are attached already. Earlier links of
 * the group are gone before, so that no allocation is counted by both. */
static void attach_group(struct probes *probes, uint32_t group)
{
	const struct plan *plan = probes->plan;

	links__wait(tracer__links(probes->tracer));
	for (size_t i = 0; i < probes->placed_count; i++)
		if (plan->functions[i].role == PLAN_ALLOC_PROBE &&
		    probes_entry_group(probes, i) == group)
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
	want(probes, &probes->wanted[domain].frees, frees, probes_alloc_group(domain, true));
	want(probes, &probes->wanted[domain].allocations, allocations,
	     probes_alloc_group(domain, false));
}
