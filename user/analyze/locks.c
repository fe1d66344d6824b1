// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/locks.h"

static bool is_same_lock(const struct profile_activity *a, const struct profile_activity *b)
{
	return a->object && a->object == b->object && a->reason == b->reason;
}

/* A thread's waits for one lock are several rows where several threads held it. */
static bool is_counted(const struct profile_activities *waits, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (is_same_lock(&waits->list[i], &waits->list[at]) &&
		    waits->list[i].tid == waits->list[at].tid)
			return true;
	return false;
}

/* Does the thread run the function in which it waits for the lock? */
static bool runs_where_it_waits(const struct profile_process *process,
				const struct profile_activity *wait, const struct place *runs)
{
	const struct profile_frame *waits = wait_place(process, wait);

	return waits && runs->frame && frame_is_same_function(waits, runs->frame);
}

/* A thread that may have the lock when another one waits for it. */
static void add_candidate(struct lock_use *use, uint32_t tid, const struct place *runs)
{
	if (use->holder_recorded) {
		use->holders_count += tid != use->holder_tid && use->holder.frame &&
				      frame_is_same_function(runs->frame, use->holder.frame);
		return;
	}
	use->holders_count++;
	if (runs->ns <= use->holder.ns)
		return;
	use->holder_tid = tid;
	use->holder = *runs;
}

struct lock_use lock_use_of(const struct profile_process *process,
			    const struct profile_activity *wait)
{
	const struct profile_activities *waits = &process->blocked;
	struct lock_use use = {.holder_tid = wait->holder_tid,
			       .holder_recorded = wait->holder_tid != 0};

	if (use.holder_recorded) {
		use.holder = thread_place(process, use.holder_tid);
		use.holders_count = 1;
	}
	for (size_t i = 0; i < waits->count; i++) {
		const struct profile_activity *other = &waits->list[i];
		struct place runs;

		if (!is_same_lock(other, wait))
			continue;
		use.waited_ns += other->ns;
		if (is_counted(waits, i))
			continue;
		use.waiters_count++;
		if (other->tid == wait->tid)
			continue;
		runs = thread_place(process, other->tid);
		if (runs_where_it_waits(process, other, &runs))
			add_candidate(&use, other->tid, &runs);
	}
	return use;
}
