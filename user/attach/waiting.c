// SPDX-License-Identifier: BSD-2-Clause
#include "attach/waiting.h"

#include "attach/links.h"
#include "attach/tracer_internal.h"
#include "base/clock.h"
#include "perfx.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SUMS_COUNT	 (PERFX_MAX_WAIT_SUMS * PERFX_WAIT_LEVELS)
#define WAITING_PROGRAMS 6

/* A place is given back when its thread has ended, or when nothing was added to it for so long,
 * because objects come and go; sooner where half of the places of its level are taken. */
#define IDLE_MS		60000
#define IDLE_CROWDED_MS 3000
/* From a place's retirement until it is free. */
#define RETIRED_NS 10000000u

struct waiting {
	struct perfx_bpf *skel;
	struct perfx_waiter *waiters; /* mapped */
	struct perfx_wait_sum *sums;  /* mapped */
	struct bpf_link *links[WAITING_PROGRAMS];
	uint32_t grown_ms[SUMS_COUNT];		/* when a place's sum was seen to grow last */
	size_t taken_counts[PERFX_WAIT_LEVELS]; /* places, when they were read last */
	size_t retired_count;
	uint64_t retired_ns; /* when places were retired last */
	bool given_up;
};

static const size_t waiters_bytes = PERFX_MAX_WAITERS * sizeof(struct perfx_waiter);
static const size_t sums_bytes = SUMS_COUNT * sizeof(struct perfx_wait_sum);

void waiting_open(struct perfx_bpf *skel, bool wanted, bool timeline, unsigned cpus_count)
{
	struct bpf_program *const programs[] = {
		skel->progs.perfx_on_switch,	   skel->progs.perfx_on_wakeup,
		skel->progs.perfx_on_wakeup_new,   skel->progs.perfx_on_exit_waiting,
		skel->progs.perfx_on_exec_waiting, skel->progs.perfx_at_begin,
		skel->progs.perfx_on_waking,
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		bpf_program__set_autoload(programs[i], wanted);
		bpf_program__set_autoattach(programs[i], false);
	}
	bpf_program__set_autoload(skel->progs.perfx_at_end_of_timeline, wanted && timeline);
	bpf_program__set_autoattach(skel->progs.perfx_at_end_of_timeline, false);
	if (!wanted)
		return;
	skel->rodata->perfx_timeline = timeline;
	bpf_map__set_max_entries(skel->maps.perfx_waiters, PERFX_MAX_WAITERS);
	bpf_map__set_max_entries(skel->maps.perfx_wait_sums, SUMS_COUNT);
	bpf_map__set_max_entries(skel->maps.perfx_turns, cpus_count);
}

struct waiting *waiting__new(struct perfx_bpf *skel)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	/* the elements of an array map are padded to 8 bytes */
	_Static_assert(sizeof(struct perfx_waiter) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_wait_sum) % 8 == 0, "stride of the table");
	if (!waiting)
		return NULL;
	waiting->skel = skel;
	waiting->waiters =
		tracer_map_table(skel->maps.perfx_waiters, waiters_bytes, PROT_READ | PROT_WRITE);
	waiting->sums =
		tracer_map_table(skel->maps.perfx_wait_sums, sums_bytes, PROT_READ | PROT_WRITE);
	if (waiting->waiters && waiting->sums)
		return waiting;
	waiting__free(waiting);
	return NULL;
}

void waiting__free(struct waiting *waiting)
{
	if (!waiting)
		return;
	waiting__stop(waiting);
	if (waiting->waiters)
		munmap(waiting->waiters, waiters_bytes);
	if (waiting->sums)
		munmap(waiting->sums, sums_bytes);
	free(waiting);
}

/* Runs an iterator's program for all threads once. 0 or -errno. */
static int visit_threads(struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	int err = link ? link_iterate(bpf_link__fd(link)) : -errno;

	bpf_link__destroy(link);
	return err;
}

int waiting__start(struct waiting *waiting, uint64_t from_ns)
{
	struct perfx_bpf *skel = waiting->skel;
	/* ends of threads first: none may keep its place */
	struct bpf_program *const programs[WAITING_PROGRAMS] = {
		skel->progs.perfx_on_exit_waiting, skel->progs.perfx_on_exec_waiting,
		skel->progs.perfx_on_switch,	   skel->progs.perfx_on_wakeup,
		skel->progs.perfx_on_wakeup_new,   skel->progs.perfx_on_waking,
	};

	skel->bss->perfx_waiting_from_ns = from_ns;
	for (size_t i = 0; i < WAITING_PROGRAMS; i++) {
		waiting->links[i] = bpf_program__attach(programs[i]);
		if (!waiting->links[i])
			return -errno;
	}
	skel->bss->perfx_timeline_from_ns = clock_monotonic_ns();
	return from_ns ? visit_threads(skel->progs.perfx_at_begin) : 0;
}

bool waiting__has_timeline(const struct waiting *waiting)
{
	return waiting->skel->rodata->perfx_timeline && !waiting->skel->bss->perfx_timeline_stopped;
}

void waiting__stop_timeline(struct waiting *waiting)
{
	if (!waiting__has_timeline(waiting))
		return;
	visit_threads(waiting->skel->progs.perfx_at_end_of_timeline);
	waiting->skel->bss->perfx_timeline_stopped = true;
}

void waiting__stop(struct waiting *waiting)
{
	bool was_on = waiting->links[0];

	for (size_t i = 0; i < WAITING_PROGRAMS; i++) {
		bpf_link__destroy(waiting->links[i]);
		waiting->links[i] = NULL;
	}
	if (was_on)
		waiting__stop_timeline(waiting);
}

void waiting__give_up(struct waiting *waiting)
{
	waiting__stop(waiting);
	waiting->given_up = true;
	/* samples read this table: no thread waits by it any longer */
	for (size_t i = 0; i < PERFX_MAX_WAITERS; i++)
		waiting->waiters[i].since_ns = 0;
}

/* As waiter_find() in bpf/wait.bpf.h. A thread has a place as long as it lives, once it has left
 * the CPU. One that is just being written may be missed: its sums get new places. */
static bool has_waiter(const struct waiting *waiting, const struct perfx_wait *wait)
{
	for (uint32_t i = 0; i < PERFX_WAIT_TRIES; i++) {
		const struct perfx_waiter *waiter =
			&waiting->waiters[PERFX_WAITER_PLACE(wait->tid, i)];

		if (waiter->tid == wait->tid)
			return waiter->wait.process == wait->process;
	}
	return false;
}

/* A place that is taken; can_free: the last ones were retired long enough ago. */
static void drain_place(struct waiting *waiting, size_t i, bool can_free, uint32_t now_ms,
			waited_fn *visit, void *ctx)
{
	size_t taken_count = waiting->taken_counts[i / PERFX_MAX_WAIT_SUMS];
	uint32_t max_ms = taken_count > PERFX_MAX_WAIT_SUMS / 2 ? IDLE_CROWDED_MS : IDLE_MS;
	struct perfx_wait_sum *sum = &waiting->sums[i];
	struct waited waited = {.wait = &sum->wait, .waker_tid = sum->waker_tid};
	bool was_retired = sum->key == PERFX_WAIT_RETIRED, is_over;

	if (!waiting->grown_ms[i])
		waiting->grown_ms[i] = now_ms;
	is_over = now_ms - waiting->grown_ms[i] >= max_ms ||
		  (sum->wait.tid && !has_waiter(waiting, &sum->wait));
	/* the kernel adds meanwhile: what comes after the exchange is of the next time */
	waited.blocked_ns = __atomic_exchange_n(&sum->blocked_ns, 0, __ATOMIC_SEQ_CST);
	waited.count = __atomic_exchange_n(&sum->count, 0, __ATOMIC_SEQ_CST);
	waited.max_ns = __atomic_exchange_n(&sum->max_ns, 0, __ATOMIC_SEQ_CST);
	if (waited.blocked_ns || waited.count) {
		visit(ctx, &waited);
		waiting->grown_ms[i] = now_ms;
	}
	if (was_retired && can_free) {
		sum->wait = (struct perfx_wait){0};
		sum->waker_tid = sum->waker_votes = 0;
		__atomic_store_n(&sum->key, 0, __ATOMIC_RELEASE);
		waiting->grown_ms[i] = 0;
	} else if (was_retired || is_over) {
		__atomic_store_n(&sum->key, PERFX_WAIT_RETIRED, __ATOMIC_SEQ_CST);
		waiting->retired_count++;
	}
}

/* As recorded_time() in bpf/waiting.bpf.c; plus 1, as waits have it. */
static uint64_t recorded_until(const struct waiting *waiting, uint64_t now_ns)
{
	const struct perfx_bpf *skel = waiting->skel;
	bool open = !skel->bss->perfx_waiting || (uint32_t)skel->bss->perfx_recording_windows;
	uint64_t opened_ns = skel->bss->perfx_window_opened_ns;

	return skel->bss->perfx_windows_ns + (open && now_ns > opened_ns ? now_ns - opened_ns : 0) +
	       1;
}

void waiting__drain(struct waiting *waiting, uint64_t until_ns, bool ended, waited_fn *visit,
		    void *ctx)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool can_free = now_ns - waiting->retired_ns >= RETIRED_NS;
	size_t counts[PERFX_WAIT_LEVELS] = {0};

	waiting->retired_count = 0;
	for (size_t i = 0; i < SUMS_COUNT; i++) {
		if (!waiting->sums[i].key)
			continue;
		counts[i / PERFX_MAX_WAIT_SUMS]++;
		drain_place(waiting, i, can_free, (uint32_t)(now_ns / 1000000), visit, ctx);
	}
	memcpy(waiting->taken_counts, counts, sizeof(counts));
	waiting->retired_ns = now_ns;
	until_ns = recorded_until(waiting, until_ns);
	for (size_t i = 0; i < PERFX_MAX_WAITERS && !waiting->given_up; i++) {
		struct perfx_waiter *waiter = &waiting->waiters[i];
		__u64 since_ns = __atomic_load_n(&waiter->since_ns, __ATOMIC_SEQ_CST), began_ns;
		struct perfx_wait wait;

		if (!waiter->tid || !since_ns || since_ns >= until_ns)
			continue;
		began_ns = waiter->began_ns;
		wait = waiter->wait;
		/* Moves the time from which on the wait is not in the sums. If the thread has got a
		 * CPU meanwhile, the kernel was first and has added all of it, and what was read
		 * here may be of two waits. */
		if (__atomic_compare_exchange_n(&waiter->since_ns, &since_ns, until_ns, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			visit(ctx, &(struct waited){.wait = &wait,
						    .blocked_ns = until_ns - since_ns,
						    .count = ended,
						    .max_ns = until_ns - began_ns});
	}
}

size_t waiting__retired_count(const struct waiting *waiting)
{
	return waiting->retired_count;
}

void waiting__each(const struct waiting *waiting, waited_fn *visit, void *ctx)
{
	for (size_t i = 0; i < SUMS_COUNT; i++) {
		const struct perfx_wait_sum *sum = &waiting->sums[i];

		if (sum->key && sum->count)
			visit(ctx, &(struct waited){.wait = &sum->wait,
						    .blocked_ns = sum->blocked_ns,
						    .count = sum->count,
						    .max_ns = sum->max_ns});
	}
}
