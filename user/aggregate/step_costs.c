// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include <errno.h>
#include <stdlib.h>

/* Calls that are kept for steps that are known only later: the first one, whose beginning is known
 * when its first range is over, and those by a period. When there are more, what such a step
 * computed is not known. 24 bytes each. */
#define STEP_CALLS_MAX 16384

struct step_call {
	uint64_t end_ns, flops;
	uint32_t tid;
	uint8_t cost_state, dtype;
};

struct step_process {
	uint32_t process;
	struct step_limits limits;
	uint64_t limited_flops; /* by then */
	uint64_t gap_ns;	/* end of the last time in which calls were not seen; 0 */
	struct step_tally sum;	/* but thread_flops */
	uint64_t calls_from_ns; /* calls that ended by then are not kept */
	struct step_call *calls;
	size_t calls_count, calls_capacity;
	bool calls_full;
	uint64_t *changes; /* times at which probes of it were changed */
	size_t changes_count, changes_capacity;
};

static struct step_process *step_process_of(const struct step_costs *costs, uint32_t process)
{
	return MAP64_FIND_OF(costs, process);
}

static struct step_process *get(struct step_costs *costs, uint32_t process)
{
	bool is_new = !step_process_of(costs, process);
	struct step_process *of = MAP64_ITEM_OF(costs, process);

	if (of && is_new)
		*of = (struct step_process){.process = process, .limits = costs->limits};
	return of;
}

int step_costs_add(struct step_costs *costs, const struct perfx_span *span)
{
	uint64_t end_ns = span->start_ns + span->duration_ns;
	struct step_process *process = get(costs, span->process);

	if (!process)
		return -ENOMEM;
	step_tally_call(&process->sum, span->cost_state, span->dtype, span->flops);
	if (process->limits.costs_ns && end_ns <= process->limits.costs_ns &&
	    span->cost_state == PERFX_COST_COUNTED)
		process->limited_flops += span->flops;
	if (process->calls_count == STEP_CALLS_MAX) {
		process->calls_full = true;
		return 0;
	}
	return LIST_ADD(process->calls, (struct step_call){.end_ns = end_ns,
							   .flops = span->flops,
							   .tid = span->tid,
							   .cost_state = span->cost_state,
							   .dtype = span->dtype});
}

struct step_tally step_costs_sum(const struct step_costs *costs, uint32_t process)
{
	const struct step_process *of = step_process_of(costs, process);

	return of ? of->sum : (struct step_tally){0};
}

bool step_costs_since(const struct step_costs *costs, uint32_t process, uint32_t tid,
		      uint64_t from_ns, struct step_tally *into)
{
	const struct step_process *of = step_process_of(costs, process);

	*into = (struct step_tally){0};
	if (of && (of->calls_full || from_ns < of->calls_from_ns))
		return false;
	for (size_t i = 0; of && i < of->calls_count; i++) {
		const struct step_call *call = &of->calls[i];

		if (call->end_ns <= from_ns)
			continue;
		step_tally_call(into, call->cost_state, call->dtype, call->flops);
		if (call->cost_state == PERFX_COST_COUNTED && call->tid == tid)
			into->thread_flops += call->flops;
	}
	return true;
}

int step_costs_gap(struct step_costs *costs, uint32_t process, uint64_t until_ns)
{
	struct step_process *of = get(costs, process);

	if (of)
		of->gap_ns = until_ns;
	return of ? 0 : -ENOMEM;
}

uint64_t step_costs_gap_end(const struct step_costs *costs, uint32_t process)
{
	const struct step_process *of = step_process_of(costs, process);

	return of ? of->gap_ns : 0;
}

int step_costs_change(struct step_costs *costs, uint32_t process, uint64_t time_ns)
{
	struct step_process *of = get(costs, process);

	return of ? LIST_ADD(of->changes, time_ns) : -ENOMEM;
}

/* Links of a file are made anew in about 10 ms, beside other programs in several times that. */
#define CHANGE_NS 50000000

bool step_costs_changed(const struct step_costs *costs, uint32_t process, uint64_t from_ns,
			uint64_t to_ns)
{
	const struct step_process *of = step_process_of(costs, process);

	for (size_t i = 0; of && i < of->changes_count; i++)
		if (of->changes[i] < to_ns && from_ns < of->changes[i] + CHANGE_NS)
			return true;
	return false;
}

static void lower(uint64_t *limit_ns, uint64_t ns)
{
	if (ns && (!*limit_ns || ns < *limit_ns))
		*limit_ns = ns;
}

static void lower_all(struct step_limits *limits, const struct step_limits *to)
{
	lower(&limits->times_ns, to->times_ns);
	lower(&limits->costs_ns, to->costs_ns);
	lower(&limits->waits_ns, to->waits_ns);
	lower(&limits->backward_ns, to->backward_ns);
}

int step_costs_limit(struct step_costs *costs, uint32_t process, const struct step_limits *limits)
{
	struct step_process *of = get(costs, process);

	if (!of)
		return -ENOMEM;
	if (!of->limits.costs_ns)
		of->limited_flops = of->sum.flops;
	lower_all(&of->limits, limits);
	return 0;
}

void step_costs_limit_later(struct step_costs *costs, const struct step_limits *limits)
{
	lower_all(&costs->limits, limits);
}

struct step_limits step_costs_limits(const struct step_costs *costs, uint32_t process)
{
	const struct step_process *of = step_process_of(costs, process);

	return of ? of->limits : costs->limits;
}

uint64_t step_costs_limited_flops(const struct step_costs *costs, uint32_t process)
{
	const struct step_process *of = step_process_of(costs, process);

	return of ? of->limited_flops : 0;
}

static void forget_calls(struct step_process *process, uint64_t now_ns)
{
	process->calls_count = 0;
	process->calls_full = false;
	process->calls_from_ns = now_ns;
}

void step_costs_forget_calls(struct step_costs *costs, uint32_t process, uint64_t now_ns)
{
	struct step_process *of = step_process_of(costs, process);

	if (of)
		forget_calls(of, now_ns);
}

int step_costs_continue(struct step_costs *costs, struct step_costs *before, uint64_t from_ns,
			bool (*goes_on)(void *ctx, uint32_t process), void *ctx)
{
	for (size_t i = 0; i < before->count; i++) {
		struct step_process *from = &before->list[i], *to;

		if (!goes_on(ctx, from->process))
			continue;
		to = get(costs, from->process);
		if (!to)
			return -ENOMEM;
		*to = *from;
		from->calls = NULL;
		from->calls_count = from->calls_capacity = 0;
		from->changes = NULL;
		from->changes_count = from->changes_capacity = 0;
		if (to->calls_full)
			forget_calls(to, from_ns);
	}
	return 0;
}

void step_costs_clear(struct step_costs *costs)
{
	FOR_EACH_OF (process, *costs) {
		free(process->calls);
		free(process->changes);
	}
	free(costs->list);
	map64_clear(&costs->ids);
	*costs = (struct step_costs){0};
}
