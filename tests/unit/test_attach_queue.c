// SPDX-License-Identifier: BSD-2-Clause
#include "session/attach_queue.h"

#include <criterion/criterion.h>

#define SECOND 1000000000ull

static void put(struct attach_queue *queue, pid_t pid, enum attach_cause cause, uint64_t since_ns)
{
	struct attach_task task = {.pid = pid, .cause = cause, .since_ns = since_ns};

	cr_assert_eq(attach_queue__put(queue, &task), 0);
}

/* The pid whose turn it is; 0: nobody's. */
static pid_t take(struct attach_queue *queue, uint64_t now_ns)
{
	struct attach_task task;

	return attach_queue__pop(queue, now_ns, &task) ? task.pid : 0;
}

Test(attach_queue, a_process_waits_once_since_the_first_event)
{
	struct attach_queue *queue = attach_queue__new();
	struct attach_task task;

	put(queue, 7, ATTACH_MAPPED, 100);
	put(queue, 7, ATTACH_MAPPED, 200);
	cr_assert(attach_queue__has(queue, 7));
	cr_assert(attach_queue__pop(queue, SECOND, &task));
	cr_assert_eq(task.pid, 7);
	cr_assert_eq(task.since_ns, 100);
	cr_assert_not(attach_queue__has(queue, 7));
	cr_assert_not(attach_queue__pop(queue, SECOND, &task));
	attach_queue__free(queue);
}

/* New mappings and records of the rings are read one after the other. */
Test(attach_queue, an_earlier_event_may_be_reported_later)
{
	struct attach_queue *queue = attach_queue__new();
	struct attach_task task;

	put(queue, 7, ATTACH_MAPPED, 200);
	put(queue, 7, ATTACH_MAPPED, 100);
	cr_assert(attach_queue__pop(queue, SECOND, &task));
	cr_assert_eq(task.since_ns, 100);
	attach_queue__free(queue);
}

Test(attach_queue, an_exec_begins_anew)
{
	struct attach_queue *queue = attach_queue__new();
	struct attach_task task;

	put(queue, 7, ATTACH_FORKED, 100);
	put(queue, 7, ATTACH_EXECUTED, 200);
	put(queue, 7, ATTACH_MAPPED, 300);
	cr_assert(attach_queue__pop(queue, SECOND, &task));
	cr_assert_eq(task.cause, ATTACH_EXECUTED);
	cr_assert_eq(task.since_ns, 200);
	attach_queue__free(queue);
}

Test(attach_queue, an_ended_process_is_dropped)
{
	struct attach_queue *queue = attach_queue__new();
	struct attach_task task;

	put(queue, 7, ATTACH_EXECUTED, 100);
	put(queue, 9, ATTACH_EXECUTED, 100);
	cr_assert(attach_queue__forget(queue, 7, &task));
	cr_assert_eq(task.since_ns, 100);
	cr_assert_eq(take(queue, SECOND), 9);
	cr_assert_not(attach_queue__forget(queue, 9, &task));
	cr_assert_not(attach_queue__forget(queue, 9, &task));
	cr_assert_eq(take(queue, SECOND), 0);
	attach_queue__free(queue);
}

Test(attach_queue, each_process_has_a_turn_before_any_has_another)
{
	struct attach_queue *queue = attach_queue__new();

	for (pid_t pid = 1; pid <= 3; pid++)
		put(queue, pid, ATTACH_MAPPED, 1);
	cr_assert_eq(take(queue, SECOND), 1);
	put(queue, 1, ATTACH_MAPPED, 2);
	cr_assert_eq(take(queue, SECOND), 2);
	cr_assert_eq(take(queue, SECOND), 3);
	cr_assert_eq(take(queue, SECOND), 1);
	attach_queue__free(queue);
}

/* 1 ms a look, at 3 kHz for ten seconds: the first ones at once, from then on a fiftieth. */
Test(attach_queue, who_maps_all_the_time_costs_its_share)
{
	struct attach_queue *queue = attach_queue__new();
	uint64_t now_ns = SECOND, looks = 0;
	struct attach_task task;

	for (unsigned i = 0; i < 30000; i++, now_ns += SECOND / 3000) {
		put(queue, 7, ATTACH_MAPPED, now_ns);
		if (attach_queue__pop(queue, now_ns, &task)) {
			attach_queue__charge(queue, 7, now_ns, 1000000);
			looks++;
		}
	}
	cr_assert_geq(looks, 219);
	cr_assert_leq(looks, 222);
	/* somebody else does not wait for it, nor does a new program */
	put(queue, 7, ATTACH_MAPPED, now_ns);
	put(queue, 8, ATTACH_MAPPED, now_ns);
	cr_assert_eq(take(queue, now_ns), 8);
	put(queue, 7, ATTACH_EXECUTED, now_ns);
	cr_assert_eq(take(queue, now_ns), 7);
	attach_queue__free(queue);
}
