// SPDX-License-Identifier: BSD-2-Clause
/*
 * The ranks of jobs in a dump, grouped by the call that each is in. A collective that hangs leaves
 * most ranks in it and a few elsewhere: the smallest group is the one to look at.
 */
#include "analyze/dump.h"

#include "analyze/ranks.h"
#include "base/grow.h"
#include "base/order.h"
#include "cost/collectives.h"
#include "cost/gpu_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A data loader's workers inherit their trainer's environment. */
static bool is_rank(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_process *parent = profile_parent(profile, process);

	return process->rank.world_size > 1 && process->states_count &&
	       !(parent && parent->rank.world_size == process->rank.world_size &&
		 parent->rank.rank == process->rank.rank);
}

/* The outermost call, which is the program's own. NULL: none. */
static const char *call_in(const struct profile_stack *stack)
{
	for (size_t i = stack ? stack->frames_count : 0; i-- > 0;) {
		const struct profile_frame *frame = stack->frames[i];
		bool is_python = frame->language == PERFX_LANGUAGE_PYTHON;
		const char *call = collective_call(frame->function, frame->module_base,
						   is_python ? frame->file : "");

		if (call)
			return call;
	}
	return NULL;
}

static const char *library_in(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];
		const char *library = collective_library(frame->function, frame->module_base);

		if (library)
			return library;
	}
	return NULL;
}

/* "cudaStreamSynchronize"; NULL: it does not wait for a GPU. */
static const char *gpu_wait_in(const struct profile_stack *stack)
{
	for (size_t i = stack ? stack->frames_count : 0; i-- > 0;) {
		const struct gpu_call *call = gpu_call_find(stack->frames[i]->function);

		if (call && call->op == PERFX_GPU_OP_SYNC)
			return call->name;
	}
	return NULL;
}

/* What one rank is in. */
struct rank_call {
	size_t process, thread;
	const struct profile_rank *rank;
	const char *call, *library;
	bool in_collective;
	uint64_t age_ns;
};

static void find_call(const struct dump *dump, const struct profile_process *process,
		      struct rank_call *found)
{
	const struct profile_frame *place;
	const char *call;

	found->thread = DUMP_NONE;
	for (size_t i = 0; i < dump->threads_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];
		bool is_main = thread->state->tid == process->pid;

		if (thread->process != process)
			continue;
		found->library = found->library ?: library_in(thread->state->stack);
		if (found->thread == DUMP_NONE || is_main)
			found->thread = i;
	}
	if (found->thread == DUMP_NONE)
		return;
	found->age_ns = dump->threads[found->thread].state->age_ns;
	call = call_in(dump->threads[found->thread].state->stack);
	/* the main thread's calls count; it may have handed the collective to another thread */
	for (size_t i = 0; !call && found->library && i < dump->threads_count; i++)
		if (dump->threads[i].process == process)
			call = call_in(dump->threads[i].state->stack);
	call = call ?: gpu_wait_in(dump->threads[found->thread].state->stack);
	found->in_collective = call;
	found->library = call ? found->library : NULL;
	place = call ? NULL : dump_place(dump->threads[found->thread].state->stack);
	found->call = call ?: place ? frame_label(place) : "";
}

ORDER(by_call, struct rank_call, strcmp(a->rank->job, b->rank->job),
      ASCENDING(a->rank->world_size, b->rank->world_size),
      ASCENDING(a->in_collective, b->in_collective), strcmp(a->call, b->call),
      ASCENDING(a->rank->rank, b->rank->rank))

static bool is_one_group(const struct rank_call *a, const struct rank_call *b)
{
	return rank_is_same_job(a->rank, b->rank) && a->in_collective == b->in_collective &&
	       !strcmp(a->call, b->call);
}

static int add_group(struct dump *dump, const struct rank_call *calls, size_t count)
{
	struct dump_rank_group *group = &dump->ranks[dump->ranks_count];

	*group = (struct dump_rank_group){.processes = calloc(count, sizeof(size_t)),
					  .processes_count = count,
					  .thread = calls->thread,
					  .call = calls->call,
					  .library = calls->library,
					  .in_collective = calls->in_collective,
					  .least_age_ns = PROFILE_ABSENT};
	if (!group->processes)
		return -ENOMEM;
	dump->ranks_count++;
	for (size_t i = 0; i < count; i++) {
		group->processes[i] = calls[i].process;
		group->least_age_ns = min_u64(group->least_age_ns, calls[i].age_ns);
	}
	return 0;
}

struct group_order {
	struct dump_rank_group group;
	const struct profile_rank *rank;
};

/* The odd ones first. */
ORDER(by_oddness, struct group_order, strcmp(a->rank->job, b->rank->job),
      ASCENDING(a->rank->world_size, b->rank->world_size),
      ASCENDING(a->group.processes_count, b->group.processes_count),
      ASCENDING(a->group.in_collective, b->group.in_collective),
      ASCENDING(a->rank->rank, b->rank->rank))

static int order_groups(const struct profile *profile, struct dump *dump)
{
	struct group_order *orders = calloc(dump->ranks_count + 1, sizeof(*orders));

	if (!orders)
		return -ENOMEM;
	for (size_t i = 0; i < dump->ranks_count; i++)
		orders[i] = (struct group_order){
			dump->ranks[i], &profile->processes[dump->ranks[i].processes[0]].rank};
	SORT_ITEMS(orders, dump->ranks_count, by_oddness);
	for (size_t i = 0; i < dump->ranks_count; i++)
		dump->ranks[i] = orders[i].group;
	free(orders);
	return 0;
}

int dump_ranks(const struct profile *profile, struct dump *dump)
{
	struct rank_call *calls = calloc(profile->processes_count + 1, sizeof(*calls));
	size_t count = 0, end;
	int err = 0;

	dump->ranks = calloc(profile->processes_count + 1, sizeof(*dump->ranks));
	if (!calls || !dump->ranks) {
		free(calls);
		return -ENOMEM;
	}
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		if (!is_rank(profile, process))
			continue;
		calls[count] = (struct rank_call){.process = i, .rank = &process->rank};
		find_call(dump, process, &calls[count++]);
	}
	SORT_ITEMS(calls, count, by_call);
	for (size_t i = 0; !err && i < count; i = end) {
		for (end = i + 1; end < count && is_one_group(&calls[i], &calls[end]); end++)
			;
		err = add_group(dump, &calls[i], end - i);
	}
	free(calls);
	return err ?: order_groups(profile, dump);
}
