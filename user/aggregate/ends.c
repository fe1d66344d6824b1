// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"

#include "base/order.h"

#include <stdlib.h>

struct end_seen {
	uint32_t process;
	struct profile_end end; /* without samples */
};

/* How processes ended, by their SIGNAL and DEATH records. */
struct ends {
	struct map64 ids; /* process → list[] */
	struct end_seen *list;
	size_t capacity, count;
};

/* NULL with errno: ERANGE, ENOMEM. */
static struct profile_end *end_get(struct aggregate *a, uint32_t process)
{
	struct ends *ends = a->ends;
	struct end_seen *seen = MAP64_FIND_OF(ends, process);

	if (!seen && process_get(a, process))
		seen = MAP64_ITEM_OF(ends, process);
	if (!seen)
		return NULL;
	if (!seen->process)
		*seen = (struct end_seen){.process = process,
					  .end = {.sender = "",
						  .sender_parent = "",
						  .file = "",
						  .cgroup = "",
						  .storage = "",
						  .oom_kills_count = PROFILE_ABSENT}};
	return &seen->end;
}

static int handle_signal(struct aggregate *a, const struct event *event)
{
	struct profile_end *end = end_get(a, event->signal.process);

	if (!end)
		return rejected(a);
	end->signal = event->signal;
	end->sender = intern(a, event->strings[0]);
	end->sender_parent = intern(a, event->strings[1]);
	end->file = intern(a, event->strings[2]);
	return end->sender && end->sender_parent && end->file ? 0 : -ENOMEM;
}

static int handle_death(struct aggregate *a, const struct event *event)
{
	const struct perfx_death *record = &event->death;
	struct profile_end *end = end_get(a, record->process);
	const char *text = intern(a, event->strings[0]);

	if (!end || !text)
		return text ? rejected(a) : -ENOMEM;
	switch ((enum perfx_death_part)record->part) {
	case PERFX_DEATH_CGROUP:
		end->cgroup = text;
		end->oom_kills_count = record->value;
		break;
	case PERFX_DEATH_NEIGHBOUR:
		if (end->neighbours_count < PROFILE_NEIGHBOURS_MAX)
			end->neighbours[end->neighbours_count++] =
				(struct profile_neighbour){record->pid, text, record->value};
		break;
	case PERFX_DEATH_STORAGE:
		end->storage = text;
		break;
	}
	return 0;
}

ORDER(by_rss, struct profile_neighbour, DESCENDING(a->rss_bytes, b->rss_bytes),
      ASCENDING(a->pid, b->pid))

/* Threads may end milliseconds before their process. */
#define ENDED_BEFORE_NS 100000000u

/* The name of a thread that lived until the end; NULL: it ended before. */
static const char *thread_at_end(const struct process *proc, uint32_t tid, uint64_t end_ns)
{
	const struct thread *thread = MAP64_FIND(proc->thread_ids, tid, proc->threads);

	if (!thread)
		return "";
	if (thread->state == 'X' && thread->last.time_ns + ENDED_BEFORE_NS < end_ns)
		return NULL;
	return thread->comm ?: "";
}

static int add_samples(struct finish_ctx *ctx, struct profile_process *process)
{
	struct profile_end *end = &process->end;
	const struct process *proc = process_find(ctx->a, process->index);
	ssize_t count;
	size_t kept = 0;

	end->samples = calloc(PROFILE_LAST_SAMPLES_MAX, sizeof(*end->samples));
	if (!end->samples)
		return -ENOMEM;
	count = samples_last(ctx, process->index, process->from_ns, process->to_ns, end->samples,
			     PROFILE_LAST_SAMPLES_MAX);
	if (count < 0)
		return (int)count;
	for (ssize_t i = 0; i < count; i++) {
		struct profile_last_sample sample = end->samples[i];

		sample.before_ns = sub_capped(process->to_ns, sample.before_ns);
		sample.comm = thread_at_end(proc, sample.tid, process->to_ns);
		if (sample.comm)
			end->samples[kept++] = sample;
	}
	end->samples_count = kept;
	return 0;
}

static int fill_ends(struct finish_ctx *ctx)
{
	FOR_EACH (process, ctx->profile->processes) {
		const struct process *proc = process_find(ctx->a, process->index);

		process->end = (struct profile_end){
			.sender = "", .sender_parent = "", .file = "", .cgroup = "", .storage = ""};
		if (!process->exited)
			continue;
		if (MAP64_FIND_OF(ctx->a->ends, process->index))
			process->end = MAP64_FIND_OF(ctx->a->ends, process->index)->end;
		process->end.out_of_memory = proc->exit.flags & PERFX_EXIT_OOM;
		SORT_ITEMS(process->end.neighbours, process->end.neighbours_count, by_rss);
		if (process->status && add_samples(ctx, process))
			return -ENOMEM;
	}
	return 0;
}

static void clear_ends(void *state)
{
	struct ends *ends = state;

	map64_clear(&ends->ids);
	free(ends->list);
}

const struct part part_ends = {
	PART_STATE(ends),
	.add = {TAKES(SIGNAL, signal), TAKES(DEATH, death)},
	.finish = fill_ends,
	.clear = clear_ends,
};
