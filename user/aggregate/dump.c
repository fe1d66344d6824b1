// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"

#include "base/order.h"

#include <stdlib.h>

struct state_seen {
	struct perfx_thread_state record; /* the last; size 0: its target alone is known */
	uint64_t first_ns;		  /* of the first that had a stack, and its stack */
	uint32_t first_stack;
	const char *comm;
	struct perfx_wait_target target;
	const char *text;
	/* Samples on a CPU during the dump; of their stacks the most frequent, by majority vote. */
	uint64_t samples_count, votes;
	uint32_t sampled_stack;
	bool is_last; /* of the last dump */
};

struct task_seen {
	struct perfx_async_task record;
	const char *name, *coroutines;
};

/* Threads of a dump, and the asyncio tasks of their processes. */
struct thread_states {
	struct map64 ids; /* process, tid → list[] */
	struct state_seen *list;
	size_t capacity, count;
	struct task_seen *tasks; /* of the last reading */
	size_t tasks_count, tasks_capacity;
};

/* NULL with errno: ERANGE, ENOMEM. */
static struct state_seen *state_get(struct aggregate *a, uint32_t process, uint32_t tid)
{
	struct thread_states *states = a->thread_states;
	struct state_seen *seen = MAP64_FIND_OF(states, MAP64_PAIR(process, tid));

	if (seen)
		return seen;
	errno = ERANGE;
	if (states->count >= AGGREGATE_THREAD_STATES_MAX || !process_get(a, process))
		return NULL;
	return MAP64_ITEM_OF(states, MAP64_PAIR(process, tid));
}

static int handle_thread_state(struct aggregate *a, const struct event *event)
{
	struct state_seen *seen =
		state_get(a, event->thread_state.process, event->thread_state.tid);

	if (!seen)
		return rejected(a);
	saw_time(a, event->thread_state.time_ns);
	if (!seen->first_stack && event->thread_state.stack &&
	    !(event->thread_state.flags & PERFX_THREAD_STATE_UNFINISHED)) {
		seen->first_ns = event->thread_state.time_ns;
		seen->first_stack = event->thread_state.stack;
	}
	seen->record = event->thread_state;
	seen->comm = intern(a, event->strings[0]);
	return seen->comm ? 0 : -ENOMEM;
}

static int handle_wait_target(struct aggregate *a, const struct event *event)
{
	struct state_seen *seen = state_get(a, event->wait_target.process, event->wait_target.tid);

	if (!seen)
		return rejected(a);
	seen->target = event->wait_target;
	seen->text = intern(a, event->strings[0]);
	return seen->text ? 0 : -ENOMEM;
}

static int handle_async_task(struct aggregate *a, const struct event *event)
{
	struct thread_states *states = a->thread_states;
	struct task_seen seen = {event->async_task, intern(a, event->strings[0]),
				 intern(a, event->strings[1])};

	if (!seen.name || !seen.coroutines)
		return -ENOMEM;
	if (states->tasks_count && states->tasks[0].record.time_ns < seen.record.time_ns)
		states->tasks_count = 0;
	if (states->tasks_count >= AGGREGATE_THREAD_STATES_MAX ||
	    !process_get(a, seen.record.process))
		return rejected(a);
	return LIST_ADD(states->tasks, seen) ? -ENOMEM : 0;
}

/* The target belongs to the wait of the last record only. */
static struct profile_wait_target target_of(const struct state_seen *seen)
{
	if (!seen->text || seen->target.time_ns < seen->record.time_ns)
		return (struct profile_wait_target){.text = ""};
	return (struct profile_wait_target){.kind = seen->target.kind,
					    .text = seen->text,
					    .pid = seen->target.pid,
					    .tid = seen->target.owner_tid,
					    .deadline_ns = seen->target.deadline_ns,
					    .orphaned = seen->target.flags & PERFX_TARGET_ORPHANED};
}

/* All records of a dump are within this time. */
#define DUMP_NS 1000000000u

static void add_sample(void *ctx, uint32_t process, uint32_t tid, uint32_t stack)
{
	struct thread_states *states = ctx;
	struct state_seen *seen = MAP64_FIND_OF(states, MAP64_PAIR(process, tid));

	if (!seen)
		return;
	seen->samples_count++;
	if (!seen->votes)
		seen->sampled_stack = stack;
	seen->votes += seen->sampled_stack == stack ? 1 : -1ull;
}

/* Keeps the threads of the last dump; others have ended since. Counts the samples of its time, and
 * returns its length. */
static uint64_t find_last_dump(const struct finish_ctx *ctx, struct thread_states *states)
{
	uint64_t from_ns = UINT64_MAX, last_ns = 0;

	FOR_EACH_OF (seen, *states)
		if (seen->comm)
			last_ns = max_u64(last_ns, seen->record.time_ns);
	FOR_EACH_OF (seen, *states) {
		seen->samples_count = seen->votes = 0;
		seen->is_last = seen->comm && seen->record.time_ns + DUMP_NS > last_ns;
		if (seen->is_last)
			from_ns = min_u64(from_ns, seen->record.time_ns);
	}
	if (from_ns == UINT64_MAX)
		return 0;
	last_ns = min_u64(last_ns + DUMP_NS, ctx->a->last_ns);
	samples_on_cpu(ctx->a, from_ns, last_ns, add_sample, states);
	return last_ns - from_ns;
}

static void add_state(struct finish_ctx *ctx, struct profile_process *process,
		      const struct state_seen *seen, uint64_t dump_ns)
{
	bool runs = seen->record.state == 'R' && seen->samples_count;
	const struct perfx_thread_state *record = &seen->record;
	struct profile_thread_state *state = &process->states[process->states_count++];

	*state = (struct profile_thread_state){
		.tid = record->tid,
		.comm = seen->comm,
		.state = (char)record->state,
		.flags = record->flags,
		.reason = record->reason,
		.syscall = record->syscall,
		.fd = record->fd,
		.mode = record->mode,
		.device = record->device,
		.inode = record->inode,
		.object = record->object,
		.holder_tid = record->holder_tid,
		.tracer_pid = record->tracer_pid,
		.age_ns = record->since_ns ? sub_capped(record->time_ns, record->since_ns)
					   : PROFILE_ABSENT,
		.time_ns = record->time_ns,
		.first_ns = seen->first_ns ?: record->time_ns,
		.first_stack = stack_of(ctx, record->process, seen->first_stack),
		.stack = stack_of(ctx, record->process,
				  runs || !record->stack ? seen->sampled_stack : record->stack),
		.samples_count = seen->samples_count,
		.dump_ns = dump_ns,
		.target = target_of(seen),
	};
	memcpy(state->arguments, record->arguments, sizeof(state->arguments));
}

ORDER(by_tid, struct profile_thread_state, ASCENDING(a->tid, b->tid))

static int fill_tasks(struct finish_ctx *ctx, const struct thread_states *states)
{
	FOR_EACH (seen, states->tasks) {
		struct profile_process *process = process_at(ctx, seen->record.process);
		struct profile_async_task task = {
			.id = seen->record.task,
			.awaited_by = seen->record.awaited_by,
			.tid = seen->record.tid,
			.runs = seen->record.flags & PERFX_ASYNC_TASK_RUNS,
			.name = seen->name,
			.coroutines = seen->coroutines,
		};
		size_t capacity;

		if (!process)
			continue;
		capacity = process->tasks_count;
		if (!(capacity & (capacity - 1)) &&
		    !(process->tasks =
			      reallocarray(process->tasks, 2 * capacity + 1, sizeof(task))))
			return -ENOMEM;
		process->tasks[process->tasks_count++] = task;
	}
	return 0;
}

static int fill_states(struct finish_ctx *ctx)
{
	struct thread_states *states = ctx->a->thread_states;
	uint64_t dump_ns = find_last_dump(ctx, states);
	int err = fill_tasks(ctx, states);

	if (err)
		return err;

	FOR_EACH_OF (seen, *states) {
		struct profile_process *process = process_at(ctx, seen->record.process);

		if (seen->is_last && process)
			process->states_count++;
	}
	FOR_EACH (process, ctx->profile->processes) {
		if (!process->states_count)
			continue;
		process->states = calloc(process->states_count, sizeof(*process->states));
		if (!process->states)
			return -ENOMEM;
		process->states_count = 0;
	}
	FOR_EACH_OF (seen, *states) {
		struct profile_process *process = process_at(ctx, seen->record.process);

		if (seen->is_last && process)
			add_state(ctx, process, seen, dump_ns);
	}
	FOR_EACH (process, ctx->profile->processes)
		SORT_ITEMS(process->states, process->states_count, by_tid);
	return 0;
}

static void clear_states(void *state)
{
	struct thread_states *states = state;

	map64_clear(&states->ids);
	free(states->list);
	free(states->tasks);
}

const struct part part_thread_states = {
	PART_STATE(thread_states),
	.add = {TAKES(THREAD_STATE, thread_state), TAKES(WAIT_TARGET, wait_target),
		TAKES(ASYNC_TASK, async_task)},
	.finish = fill_states,
	.clear = clear_states,
};
