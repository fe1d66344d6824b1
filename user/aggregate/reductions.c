// SPDX-License-Identifier: BSD-2-Clause
/* Which calls were not seen: the overhead budget reduced their function, or probes came late. */
#include "aggregate/calls.h"
#include "aggregate/gpu.h"
#include "aggregate/steps.h"

#include <stdlib.h>

/* The cost that the measured calls of one function had in one process. */
struct usual_cost {
	uint32_t process, function;
	uint64_t calls_count;
	uint64_t flops, bytes; /* of each call */
	uint16_t flags;	       /* PERFX_SPAN_MOVES, PERFX_SPAN_SUBMITTED */
	uint8_t state, dtype;
	bool varies;
	bool reduced; /* its calls no longer have a cost of their own */
	bool assumed; /* they are counted, and taken to have this one */
	bool is_part; /* their work is that of calls that are only counted */
};

struct usual_costs {
	struct usual_cost *list;
	size_t count, capacity;
	struct map64 ids; /* process << 32 | function → list[] */
};

struct reductions {
	struct usual_costs usual;
	struct perfx_reduced *list; /* in order of time */
	size_t list_capacity, list_count;
	struct profile_late *late;
	size_t late_capacity, late_count;
};

static struct usual_cost *usual_cost_find(const struct usual_costs *usual, uint32_t process,
					  uint32_t function)
{
	return MAP64_FIND_OF(usual, MAP64_PAIR(process, function));
}

/* NULL: no memory. */
static struct usual_cost *get(struct usual_costs *usual, uint32_t process, uint32_t function)
{
	struct usual_cost *cost = MAP64_ITEM_OF(usual, MAP64_PAIR(process, function));

	if (cost) {
		cost->process = process;
		cost->function = function;
	}
	return cost;
}

/* The cost of the outer call contains the work of the inner one, so the inner one's own numbers do
 * not matter. */
static bool is_inside(unsigned state)
{
	return state == PERFX_COST_INSIDE || state == PERFX_COST_ELSEWHERE;
}

/* Did enough calls have one cost? */
static bool is_usual(const struct usual_cost *cost)
{
	return !cost->varies &&
	       cost->calls_count >= (is_inside(cost->state) ? USUAL_INSIDE_MIN : USUAL_CALLS_MIN);
}

int usual_cost_add(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	struct usual_costs *usual = &a->reductions->usual;
	struct usual_cost *cost = row->usual_cost ? &usual->list[row->usual_cost - 1]
						  : get(usual, row->process, row->function);

	if (!cost)
		return -ENOMEM;
	row->usual_cost = (uint32_t)(cost - usual->list) + 1;
	if (!cost->calls_count++) {
		cost->flops = span->flops;
		cost->bytes = span->bytes;
		cost->flags = span->flags & (PERFX_SPAN_MOVES | PERFX_SPAN_SUBMITTED);
		cost->state = span->cost_state;
		cost->dtype = span->dtype;
	}
	cost->varies |= cost->state != span->cost_state ||
			(!is_inside(cost->state) &&
			 (cost->state != PERFX_COST_COUNTED || cost->flops != span->flops ||
			  cost->bytes != span->bytes || cost->dtype != span->dtype));
	return 0;
}

bool usual_cost_is_part(const struct aggregate *a, struct row *row)
{
	const struct usual_costs *usual = &a->reductions->usual;
	const struct usual_cost *cost =
		row->usual_cost ? &usual->list[row->usual_cost - 1]
				: usual_cost_find(usual, row->process, row->function);

	if (cost)
		row->usual_cost = (uint32_t)(cost - usual->list) + 1;
	return cost && cost->is_part;
}

bool usual_cost_assume(const struct aggregate *a, struct perfx_span *span)
{
	const struct usual_cost *cost =
		usual_cost_find(&a->reductions->usual, span->process, span->function);

	if (!cost || !cost->assumed)
		return false;
	span->cost_state = cost->state;
	span->dtype = cost->dtype;
	span->flags |= cost->flags;
	span->flops = cost->flops;
	span->bytes = cost->bytes;
	return true;
}

static int usual_costs_take_over(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	const struct usual_costs *usual = &before->reductions->usual;

	(void)from_ns;
	FOR_EACH_OF (from, *usual) {
		struct usual_cost *to;

		if (!process_goes_on(a, from->process))
			continue;
		to = get(&a->reductions->usual, from->process, from->function);
		if (!to)
			return -ENOMEM;
		*to = *from;
	}
	return 0;
}

/* Calls of it were recorded under names of their own: those of XLA's operations, of jitted
 * functions. */
static bool is_nameless(const struct aggregate *a, uint32_t function)
{
	FOR_EACH (row, a->calls->rows)
		if ((*row)->function == function)
			return false;
	return true;
}

static bool rests_on(const struct aggregate *a, uint32_t process, uint32_t function, bool nameless)
{
	const struct profile_function *named = function_at(a, function);

	if (!nameless)
		return row_find(a, process, function);
	FOR_EACH (row, a->calls->rows) {
		const struct profile_function *f = function_at(a, (*row)->function);

		if ((*row)->process == process && f && f->source == (named ? named->source : 0))
			return true;
	}
	return false;
}

/* No thread has more traced calls open than this (PERFX_MAX_DEPTH); a damaged file may. */
#define CALLS_DEEP 256

static bool is_called_by(const struct aggregate *a, const struct context *context,
			 uint32_t function)
{
	for (unsigned depth = 0; context->parent && depth < CALLS_DEEP; depth++) {
		context = &a->calls->contexts[context->parent];
		if (context->function == function)
			return true;
	}
	return false;
}

/* Calls inside those of the function will look as if they were alone. Was the work of their
 * functions always a part of others', so that it can stay that? */
static bool are_parts(const struct aggregate *a, uint32_t process, uint32_t function, bool mark)
{
	for (size_t i = 1; i < a->calls->contexts_count; i++) {
		const struct context *context = &a->calls->contexts[i];
		const struct costs *costs = context->sums.costs;
		struct usual_cost *inner;

		if (context->process != process || context->function == function || !costs ||
		    !costs->cost.nested_count || !is_called_by(a, context, function))
			continue;
		inner = usual_cost_find(&a->reductions->usual, process, context->function);
		if (!inner || (!inner->reduced && !(is_usual(inner) && is_inside(inner->state))))
			return false;
		inner->is_part |= mark;
	}
	return true;
}

/* Was the work of calls that the function gives names to unknown? Those that are to come are not
 * even known to be made. */
static bool names_unknown_work(const struct aggregate *a, uint32_t process, uint32_t function)
{
	const struct profile_function *by = function_at(a, function);

	if (!by || !is_nameless(a, function))
		return false;
	for (size_t i = 1; i < a->calls->contexts_count; i++) {
		const struct context *context = &a->calls->contexts[i];
		const struct profile_function *f = function_at(a, context->function);
		const struct costs *costs = context->sums.costs;

		if (context->process == process && costs && costs->cost.unread_count && f &&
		    f->source == by->source && f->flags & PERFX_FUNCTION_RANGE)
			return true;
	}
	return false;
}

/* cuBLASLt's functions without a cost of their own note the shapes of matrices, which its products
 * read. Are all products of CUDA's libraries inside calls whose cost is known? Then nothing rests
 * on the notes. */
static bool notes_for_parts(const struct aggregate *a, uint32_t process, uint32_t function)
{
	const struct profile_function *noting = function_at(a, function);
	size_t readers = 0;

	if (!noting || noting->source != PERFX_SOURCE_CUDA)
		return false;
	FOR_EACH_OF (cost, a->reductions->usual) {
		const struct profile_function *f = function_at(a, cost->function);

		if (cost->process != process || !f || f->source != PERFX_SOURCE_CUDA)
			continue;
		if (!is_usual(cost) || !is_inside(cost->state))
			return false;
		readers++;
	}
	return readers > 0;
}

/* Is it still known what the process computes, although calls of the function have no cost of their
 * own any more? */
static bool keeps_costs(const struct aggregate *a, uint32_t process,
			const struct perfx_reduced *record)
{
	struct usual_cost *cost = usual_cost_find(&a->reductions->usual, process, record->function);

	if (!record->loses_cost && !(cost && cost->assumed))
		return !names_unknown_work(a, process, record->function);
	if (!cost)
		return notes_for_parts(a, process, record->function);
	cost->reduced = true;
	cost->assumed = false;
	if (!is_usual(cost))
		return false;
	if (record->to == PERFX_REDUCED_REMOVED)
		return is_inside(cost->state);
	cost->assumed = are_parts(a, process, record->function, false);
	return cost->assumed && are_parts(a, process, record->function, true);
}

static bool is_concerned(const struct aggregate *a, uint32_t process,
			 const struct perfx_reduced *record, bool nameless)
{
	return (!record->merged || a->processes->list[process]->merged == record->merged) &&
	       (!record->function || rests_on(a, process, record->function, nameless));
}

uint64_t calls_seen_until(const struct aggregate *a, uint32_t process, uint32_t function,
			  uint32_t *with)
{
	const struct profile_function *f = function_at(a, function);

	for (size_t i = 0; f && i < a->reductions->list_count; i++) {
		const struct perfx_reduced *record = &a->reductions->list[i];
		const struct profile_function *removed = function_at(a, record->function);
		bool gives_names;

		if (record->to != PERFX_REDUCED_REMOVED)
			continue;
		/* its calls are recorded under this name: of a range, of an operation */
		gives_names =
			removed && f->source == removed->source &&
			(f->flags & PERFX_FUNCTION_RANGE ||
			 (f->offset == removed->offset && !strcmp(f->module, removed->module))) &&
			is_nameless(a, record->function);
		if (!is_concerned(a, process, record, gives_names) ||
		    !(removed == f || gives_names))
			continue;
		if (with)
			*with = record->function;
		return record->time_ns;
	}
	return 0;
}

/* The reduction limits the figures of a process that called the function before. Nobody knows which
 * functions a later process will call, so it limits every later process. */
static int handle_reduced(struct aggregate *a, const struct event *event)
{
	struct perfx_reduced record = event->reduced;
	uint64_t time_ns = record.time_ns ? record.time_ns : 1;
	const struct profile_function *f = function_at(a, record.function);
	bool nameless = record.function && is_nameless(a, record.function);
	bool keeps = false, limits_costs = false;
	struct step_limits later = {.times_ns = record.function ? time_ns : 0,
				    .costs_ns = record.loses_cost ? time_ns : 0,
				    .waits_ns = record.function ? 0 : time_ns};

	if (f &&
	    (step_class(f->source, f->name, f->flags) & STEP_PHASE_MASK) == PROFILE_PHASE_BACKWARD)
		later.backward_ns = time_ns;

	for (uint32_t i = 0; i < a->processes->count; i++) {
		struct step_limits limits = {0};

		if (a->processes->list[i] && is_concerned(a, i, &record, nameless)) {
			limits = later;
			limits.costs_ns = keeps_costs(a, i, &record) ? 0 : time_ns;
			keeps |= !limits.costs_ns;
			limits_costs |= limits.costs_ns != 0;
			periods_reduced(a->periods, i);
			if (record.function && step_costs_change(&a->steps->costs, i, time_ns))
				return -ENOMEM;
		}
		if (a->processes->list[i] && step_costs_limit(&a->steps->costs, i, &limits))
			return -ENOMEM;
	}
	step_costs_limit_later(&a->steps->costs, &later);
	gpu_reduced(a, &record);
	/* for reports, which name the functions whose reduction limits costs */
	record.loses_cost = limits_costs || (record.loses_cost && !keeps);
	return LIST_ADD(a->reductions->list, record);
}

static int handle_late(struct aggregate *a, const struct event *event)
{
	const struct perfx_late *record = &event->late;
	struct process *proc = process_find(a, record->process);
	struct profile_late *row;

	if (record->time_ns < record->since_ns)
		return undecoded(a);
	if (GROW_BY_ONE(a->reductions->late))
		return -ENOMEM;
	row = &a->reductions->late[a->reductions->late_count];
	*row = (struct profile_late){.process = record->process,
				     .cause = record->cause,
				     .since_ns = record->since_ns,
				     .late_ns = record->time_ns - record->since_ns,
				     .functions_count = record->functions_count,
				     .files_count = record->files_count,
				     .module = pool_add(&a->strings, event->strings[0])};
	if (!row->module)
		return -ENOMEM;
	a->reductions->late_count++;
	if (proc && record->cause == PERFX_LATE_MAPPED && record->functions_count &&
	    !proc->has_rows)
		proc->sets_up = true;
	return steps_gap(a->steps, record->process, record->time_ns);
}

static int reductions_fill(struct finish_ctx *ctx)
{
	const struct reductions *reductions = ctx->a->reductions;

	ctx->profile->reduced = reductions->list;
	ctx->profile->reduced_count = reductions->list_count;
	ctx->profile->late = reductions->late;
	ctx->profile->late_count = reductions->late_count;
	FOR_EACH (process, ctx->profile->processes)
		FOR_EACH (row, process->rows)
			row->seen_until_ns =
				calls_seen_until(ctx->a, process->index, row->function, NULL);
	return 0;
}

static void reductions_clear(void *state)
{
	struct reductions *reductions = state;

	free(reductions->usual.list);
	map64_clear(&reductions->usual.ids);
	free(reductions->list);
	free(reductions->late);
}

const struct part part_reductions = {
	PART_STATE(reductions),
	.add = {TAKES(REDUCED, reduced), TAKES(LATE, late)},
	.take_over = usual_costs_take_over,
	.finish = reductions_fill,
	.clear = reductions_clear,
};
