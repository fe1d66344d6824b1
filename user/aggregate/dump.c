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
};

/* Threads of a dump. */
struct thread_states {
	struct map64 ids; /* process, tid → list[] */
	struct state_seen *list;
	size_t capacity, count;
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

/* The target belongs to the wait of the last record only. */
static struct profile_wait_target target_of(const struct state_seen *seen)
{
	if (!seen->text || seen->target.time_ns < seen->record.time_ns)
		return (struct profile_wait_target){.text = ""};
	return (struct profile_wait_target){.kind = seen->target.kind,
					    .text = seen->text,
					    .pid = seen->target.pid,
					    .tid = seen->target.owner_tid,
					    .deadline_ns = seen->target.deadline_ns};
}

/* Where a thread was sampled most often, of those that ran; rows of samples are in that order. */
static void add_samples(const struct profile_process *process, struct profile_thread_state *state)
{
	FOR_EACH_OF (sample, process->samples) {
		if (sample->tid != state->tid || sample->state != PERFX_SAMPLE_ON_CPU)
			continue;
		state->samples_count += sample->count;
		if (!state->stack)
			state->stack = sample->stack;
	}
}

static void add_state(struct finish_ctx *ctx, struct profile_process *process,
		      const struct state_seen *seen)
{
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
		.stack = stack_of(ctx, record->process, record->stack),
		.target = target_of(seen),
	};
	memcpy(state->arguments, record->arguments, sizeof(state->arguments));
	add_samples(process, state);
}

ORDER(by_tid, struct profile_thread_state, ASCENDING(a->tid, b->tid))

static int fill_states(struct finish_ctx *ctx)
{
	const struct thread_states *states = ctx->a->thread_states;

	FOR_EACH_OF (seen, *states) {
		struct profile_process *process = process_at(ctx, seen->record.process);

		if (seen->comm && process)
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

		if (seen->comm && process)
			add_state(ctx, process, seen);
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
}

const struct part part_thread_states = {
	PART_STATE(thread_states),
	.add = {TAKES(THREAD_STATE, thread_state), TAKES(WAIT_TARGET, wait_target)},
	.finish = fill_states,
	.clear = clear_states,
};
