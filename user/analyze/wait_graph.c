// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who waits for whom in a dump. A thread waits for one other at most: the owner of the lock, the
 * holder of the GIL, or the process at the other end. So chains of waits end at a thread that waits
 * for nobody who is known, or run in a circle: a deadlock.
 */
#include "analyze/dump.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

/* Threads take locks and give them back while the dump is made. A circle is a deadlock only if its
 * threads had not run for so long before. */
#define DEADLOCK_AGE_NS 100000000u

/* By pid or tid; captures of several machines may have equal ones. */
static uint64_t task_key(const struct profile_process *process, uint32_t id)
{
	return MAP64_PAIR(process->merged, id);
}

static int map_threads(const struct dump *dump, struct map64 *by_tid)
{
	int err = 0;

	for (size_t i = 0; !err && i < dump->threads_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];

		err = map64_put(by_tid, task_key(thread->process, thread->state->tid), (uint32_t)i);
	}
	return err;
}

static void find_edge(struct dump *dump, const struct map64 *by_tid, size_t index)
{
	struct dump_thread *thread = &dump->threads[index];
	const struct profile_thread_state *state = thread->state;
	uint32_t tid = state->target.tid ?: state->holder_tid, found;

	thread->waits_for = DUMP_NONE;
	if (state->reason == PERFX_WAIT_NONE || state->reason == PERFX_WAIT_RUNNABLE)
		return;
	thread->waits_for_process =
		!tid && state->target.pid && state->target.pid != thread->process->pid;
	/* the main thread, whose id is the process's, stands for a process */
	if (thread->waits_for_process)
		tid = state->target.pid;
	found = tid ? map64_get(by_tid, task_key(thread->process, tid)) : MAP64_NONE;
	/* a thread waits for itself if it locks a mutex twice; it takes the GIL meanwhile */
	if (found == MAP64_NONE || (found == index && state->reason == PERFX_WAIT_GIL))
		thread->waits_for_process = false;
	else
		thread->waits_for = found;
}

static bool is_in(const size_t *threads, size_t count, size_t thread)
{
	while (count && threads[count - 1] != thread)
		count--;
	return count > 0;
}

/* Does a chain lead into the circle? */
static bool leads_into(const struct dump *dump, size_t thread, const size_t *circle, size_t count)
{
	for (size_t steps = 0; steps < dump->threads_count && thread != DUMP_NONE; steps++) {
		if (is_in(circle, count, thread))
			return true;
		thread = dump->threads[thread].waits_for;
	}
	return false;
}

/* Can no other thread of a process do what is waited for? It would have to go on by itself; those
 * that wait for locks and conditions of their process do not. */
static bool stands_still(const struct dump *dump, const struct profile_process *process,
			 const size_t *circle, size_t count)
{
	for (size_t i = 0; i < dump->threads_count; i++) {
		const struct profile_thread_state *state = dump->threads[i].state;

		if (dump->threads[i].process == process &&
		    !(state->flags & PERFX_THREAD_STATE_KERNEL) && state->state != 'Z' &&
		    !(state->reason == PERFX_WAIT_FUTEX && !state->target.deadline_ns) &&
		    !leads_into(dump, i, circle, count))
			return false;
	}
	return true;
}

static bool is_deadlock(const struct dump *dump, const size_t *circle, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct dump_thread *thread = &dump->threads[circle[i]];
		const struct profile_thread_state *state = thread->state;

		/* a thread that waits for the GIL wakes every few milliseconds */
		if (state->target.deadline_ns ||
		    (state->reason != PERFX_WAIT_GIL && state->age_ns < DEADLOCK_AGE_NS))
			return false;
		if (thread->waits_for_process &&
		    !stands_still(dump, dump->threads[thread->waits_for].process, circle, count))
			return false;
	}
	return true;
}

/* Adds up who leads where, from the ends of the chains on; of circles, each thread then has those
 * outside that lead to it. Returns an array that has SIZE_MAX for each thread of no circle,
 * malloc'd; NULL: memory is out. */
static size_t *count_waiters(struct dump *dump)
{
	size_t *left = calloc(dump->threads_count + 1, sizeof(*left));

	for (size_t i = 0; left && i < dump->threads_count; i++)
		if (dump->threads[i].waits_for != DUMP_NONE)
			left[dump->threads[i].waits_for]++;
	for (size_t i = 0; left && i < dump->threads_count; i++) {
		size_t at = i, next;

		/* a thread is done when all that lead to it are */
		while (!left[at]) {
			left[at] = SIZE_MAX;
			next = dump->threads[at].waits_for;
			if (next == DUMP_NONE)
				break;
			dump->threads[next].waiters_count += dump->threads[at].waiters_count + 1;
			left[next]--;
			at = next;
		}
	}
	return left;
}

static int add_deadlock(struct dump *dump, struct dump_deadlock deadlock, size_t *capacity)
{
	if (grow_array(&dump->deadlocks, capacity, dump->deadlocks_count + 1, sizeof(deadlock))) {
		free(deadlock.threads);
		return -ENOMEM;
	}
	dump->deadlocks[dump->deadlocks_count++] = deadlock;
	return 0;
}

/* A thread that wants a mutex whose owner is gone waits for ever, alone. */
static int add_orphan(struct dump *dump, size_t thread, size_t *capacity)
{
	const struct profile_thread_state *state = dump->threads[thread].state;
	struct dump_deadlock deadlock = {NULL, 1};

	if (!state->target.orphaned || !is_deadlock(dump, &thread, 1))
		return 0;
	deadlock.threads = calloc(1, sizeof(size_t));
	if (!deadlock.threads)
		return -ENOMEM;
	*deadlock.threads = thread;
	return add_deadlock(dump, deadlock, capacity);
}

/* The circle that begins at a thread; each of its threads leads to all others. */
static int add_circle(struct dump *dump, size_t first, size_t *left, size_t *capacity)
{
	size_t count = 0, sum = 0, at = first;
	struct dump_deadlock deadlock;

	do {
		sum += dump->threads[at].waiters_count + 1;
		left[at] = SIZE_MAX;
		count++;
		at = dump->threads[at].waits_for;
	} while (at != first);
	deadlock = (struct dump_deadlock){calloc(count, sizeof(size_t)), count};
	if (!deadlock.threads)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++, at = dump->threads[at].waits_for) {
		deadlock.threads[i] = at;
		dump->threads[at].waiters_count = sum - 1;
	}
	if (!is_deadlock(dump, deadlock.threads, count)) {
		free(deadlock.threads);
		return 0;
	}
	return add_deadlock(dump, deadlock, capacity);
}

int dump_graph(const struct profile *profile, struct dump *dump)
{
	struct map64 by_tid = {0};
	size_t capacity = 0, most = 0, *left = NULL;
	int err = map_threads(dump, &by_tid);

	(void)profile;
	for (size_t i = 0; !err && i < dump->threads_count; i++)
		find_edge(dump, &by_tid, i);
	map64_clear(&by_tid);
	if (!err)
		left = count_waiters(dump);
	err = err ?: left ? 0 : -ENOMEM;
	dump->culprit = DUMP_NONE;
	for (size_t i = 0; !err && i < dump->threads_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];

		if (left[i] != SIZE_MAX) {
			err = add_circle(dump, i, left, &capacity);
			continue;
		}
		err = add_orphan(dump, i, &capacity);
		if (thread->waits_for == DUMP_NONE && thread->waiters_count > most) {
			most = thread->waiters_count;
			dump->culprit = i;
		}
	}
	free(left);
	return err;
}
