// SPDX-License-Identifier: BSD-2-Clause
/* Who waits for whom: circles and the ends of chains, on values made by hand. */
#include "analyze/dump.h"
#include "base/grow.h"
#include "profile_parts.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 8

/* Threads 100 to 107 of process 100, and 200 to 207 of process 200. */
struct graph_scene {
	struct profile profile;
	struct profile_process processes[2];
	struct profile_thread_state states[2][THREADS_MAX];
	struct dump_thread threads[2 * THREADS_MAX];
	struct dump dump;
};

static struct profile_thread_state *thread(struct graph_scene *s, uint32_t tid)
{
	return &s->states[tid / 100 - 1][tid % 100];
}

/* All threads wait for conditions since a minute. */
static void set_up(struct graph_scene *s, size_t count)
{
	memset(s, 0, sizeof(*s));
	s->dump.threads = s->threads;
	s->profile.processes = s->processes;
	s->profile.processes_count = 2;
	for (uint32_t p = 0; p < 2; p++) {
		s->processes[p] = (struct profile_process){.pid = 100 * (p + 1),
							   .comm = "p",
							   .states = s->states[p],
							   .states_count = count};
		for (uint32_t i = 0; i < count; i++) {
			s->states[p][i] = (struct profile_thread_state){
				.tid = 100 * (p + 1) + i,
				.comm = "t",
				.state = 'S',
				.reason = PERFX_WAIT_FUTEX,
				.age_ns = 60 * S,
				.target = {.kind = PERFX_TARGET_LOCK, .text = ""}};
			s->threads[s->dump.threads_count++] =
				(struct dump_thread){.process = &s->processes[p],
						     .state = &s->states[p][i],
						     .waits_for = DUMP_NONE};
		}
	}
}

static void wants_mutex_of(struct graph_scene *s, uint32_t tid, uint32_t owner)
{
	thread(s, tid)->target =
		(struct profile_wait_target){.kind = PERFX_TARGET_MUTEX, .text = "", .tid = owner};
}

static void waits_for_process(struct graph_scene *s, uint32_t tid, enum perfx_wait_reason reason,
			      enum perfx_target_kind kind, uint32_t pid)
{
	thread(s, tid)->reason = reason;
	thread(s, tid)->target = (struct profile_wait_target){.kind = kind, .text = "", .pid = pid};
}

static uint32_t tid_at(const struct graph_scene *s, size_t index)
{
	return index == DUMP_NONE ? 0 : s->threads[index].state->tid;
}

/* tids: of the only deadlock; 0 ends them. culprit 0: there is none. */
static void gives(struct graph_scene *s, const uint32_t *tids, uint32_t culprit)
{
	size_t count = 0;

	cr_assert(eq(int, dump_graph(&s->profile, &s->dump), 0));
	while (tids && tids[count])
		count++;
	cr_assert(eq(sz, s->dump.deadlocks_count, count > 0));
	if (count)
		cr_assert(eq(sz, s->dump.deadlocks[0].threads_count, count));
	for (size_t i = 0; i < count; i++)
		cr_expect(eq(u32, tid_at(s, s->dump.deadlocks[0].threads[i]), tids[i]));
	cr_expect(eq(u32, tid_at(s, s->dump.culprit), culprit));
	if (s->dump.deadlocks)
		free(s->dump.deadlocks[0].threads);
	free(s->dump.deadlocks);
}
#define CIRCLE(...) ((const uint32_t[]){__VA_ARGS__, 0})

Test(wait_graph, nobody_waits_for_anybody)
{
	struct graph_scene s;

	set_up(&s, 3);
	gives(&s, NULL, 0);
	cr_expect(eq(sz, s.threads[0].waiters_count, 0));
}

Test(wait_graph, circle_of_two_and_those_behind_it)
{
	struct graph_scene s;

	set_up(&s, 5);
	wants_mutex_of(&s, 101, 102);
	wants_mutex_of(&s, 102, 101);
	wants_mutex_of(&s, 103, 102);
	wants_mutex_of(&s, 104, 103);
	gives(&s, CIRCLE(101, 102), 0);
	cr_expect(eq(sz, s.threads[1].waiters_count, 3));
	cr_expect(eq(sz, s.threads[2].waiters_count, 3));
	cr_expect(eq(sz, s.threads[3].waiters_count, 1));
}

Test(wait_graph, circle_of_three)
{
	struct graph_scene s;

	set_up(&s, 4);
	wants_mutex_of(&s, 101, 103);
	wants_mutex_of(&s, 103, 102);
	wants_mutex_of(&s, 102, 101);
	gives(&s, CIRCLE(101, 103, 102), 0);
}

Test(wait_graph, a_thread_that_locks_twice)
{
	struct graph_scene s;

	set_up(&s, 2);
	wants_mutex_of(&s, 101, 101);
	gives(&s, CIRCLE(101), 0);
}

/* The one that wants the GIL wakes every few milliseconds. */
Test(wait_graph, gil_and_mutex)
{
	struct graph_scene s;

	set_up(&s, 3);
	wants_mutex_of(&s, 101, 102);
	thread(&s, 102)->reason = PERFX_WAIT_GIL;
	thread(&s, 102)->holder_tid = 101;
	thread(&s, 102)->age_ns = 3 * MS;
	gives(&s, CIRCLE(101, 102), 0);
	/* it has just got it */
	set_up(&s, 3);
	thread(&s, 101)->reason = PERFX_WAIT_GIL;
	thread(&s, 101)->holder_tid = 101;
	gives(&s, NULL, 0);
}

/* As after fork() while another thread had the mutex. */
Test(wait_graph, a_mutex_whose_owner_is_gone)
{
	struct graph_scene s;

	set_up(&s, 3);
	thread(&s, 101)->target = (struct profile_wait_target){
		.kind = PERFX_TARGET_MUTEX, .text = "", .orphaned = true};
	wants_mutex_of(&s, 102, 101);
	gives(&s, CIRCLE(101), 101);
	set_up(&s, 3);
	thread(&s, 101)->target.orphaned = true;
	thread(&s, 101)->target.deadline_ns = 1;
	gives(&s, NULL, 0);
}

Test(wait_graph, circles_that_may_end)
{
	struct graph_scene s;

	/* a timed lock */
	set_up(&s, 3);
	wants_mutex_of(&s, 101, 102);
	wants_mutex_of(&s, 102, 101);
	thread(&s, 102)->target.deadline_ns = 1;
	gives(&s, NULL, 0);
	/* locks that were taken while the dump was made */
	set_up(&s, 3);
	wants_mutex_of(&s, 101, 102);
	wants_mutex_of(&s, 102, 101);
	thread(&s, 102)->age_ns = 1 * MS;
	gives(&s, NULL, 0);
}

Test(wait_graph, chain_that_ends_in_a_running_thread)
{
	struct graph_scene s;

	set_up(&s, 4);
	wants_mutex_of(&s, 101, 102);
	wants_mutex_of(&s, 103, 102);
	wants_mutex_of(&s, 102, 100);
	thread(&s, 100)->reason = PERFX_WAIT_NONE;
	thread(&s, 100)->state = 'R';
	/* a thread that has gone on waits for nobody, whatever was found */
	thread(&s, 100)->target.tid = 101;
	gives(&s, NULL, 100);
	cr_expect(eq(sz, s.threads[0].waiters_count, 3));
}

Test(wait_graph, chain_into_another_process)
{
	struct graph_scene s;

	set_up(&s, 2);
	wants_mutex_of(&s, 101, 100);
	waits_for_process(&s, 100, PERFX_WAIT_READ, PERFX_TARGET_PIPE, 200);
	gives(&s, NULL, 200);
	cr_expect(s.threads[0].waits_for_process);
	cr_expect(eq(sz, s.threads[2].waiters_count, 2));
}

Test(wait_graph, unknown_owners_end_a_chain)
{
	struct graph_scene s;

	set_up(&s, 3);
	wants_mutex_of(&s, 101, 102);
	wants_mutex_of(&s, 102, 4711);
	waits_for_process(&s, 200, PERFX_WAIT_READ, PERFX_TARGET_PIPE, 4712);
	waits_for_process(&s, 201, PERFX_WAIT_READ, PERFX_TARGET_SOCKET, 200);
	gives(&s, NULL, 102);
	cr_expect(not(s.threads[3].waits_for_process));
	cr_expect(eq(sz, s.threads[3].waits_for, DUMP_NONE));
	/* its own process has the other end: another thread of it must act */
	cr_expect(eq(sz, s.threads[4].waits_for, DUMP_NONE));
}

/* A parent waits for its child, which waits for the parent to read its output. */
Test(wait_graph, circle_of_processes)
{
	struct graph_scene s;

	set_up(&s, 2);
	waits_for_process(&s, 100, PERFX_WAIT_WAIT, PERFX_TARGET_CHILD, 200);
	waits_for_process(&s, 200, PERFX_WAIT_WRITE, PERFX_TARGET_PIPE, 100);
	gives(&s, CIRCLE(100, 200), 0);
	/* another thread may read it */
	set_up(&s, 2);
	waits_for_process(&s, 100, PERFX_WAIT_WAIT, PERFX_TARGET_CHILD, 200);
	waits_for_process(&s, 200, PERFX_WAIT_WRITE, PERFX_TARGET_PIPE, 100);
	thread(&s, 101)->reason = PERFX_WAIT_SLEEP;
	gives(&s, NULL, 0);
}
