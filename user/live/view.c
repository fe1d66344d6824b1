// SPDX-License-Identifier: BSD-2-Clause
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "live/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Appends to one of its lists. 0 or -ENOMEM. */
#define APPEND(view, list, ...)                                                        \
	(grow_array(&(view)->list, &(view)->list##_capacity, (view)->list##_count + 1, \
		    sizeof(*(view)->list))                                             \
		 ? -ENOMEM                                                             \
		 : ((view)->list[(view)->list##_count++] = (__VA_ARGS__), 0))

static int add_row(struct live_snapshot *view, struct run *run, struct growth *growth,
		   const struct profile *profile, struct live_process *live,
		   const struct profile_row *row)
{
	const struct profile_process *process = live->process;
	struct live_row out = {
		.process = process,
		.row = row,
		.period = {.calls_count = row->calls_count,
			   .timed_count = row->timed_count,
			   .total_ns = row->total_ns,
			   .self_ns = row->self_ns,
			   .flops = row->cost.flops,
			   .bytes = row->cost.bytes + row->cost.moved_bytes},
	};
	int more =
		grown(&growth->rows, (uint64_t)process->index << 32 | row->function, &out.period);

	if (more <= 0)
		return more;
	live_sums_add(&live->period, &out.period);
	if (run_function(run, profile_function(profile, row->function), &out.period))
		return -ENOMEM;
	return APPEND(view, rows, out);
}

static int add_rows(struct live_snapshot *view, struct run *run, struct growth *growth,
		    const struct profile *profile, struct live_process *live)
{
	int err = 0;

	live->period = (struct live_sums){0};
	for (size_t i = 0; i < live->process->rows_count && !err; i++)
		err = add_row(view, run, growth, profile, live, &live->process->rows[i]);
	/* the calls of a process contain each other */
	live->period.total_ns = live->period.self_ns;
	live_sums_add(&live->run, &live->period);
	return err;
}

static int add_line(struct live_snapshot *view, struct growth *growth,
		    const struct profile_process *process, const struct profile_line *line)
{
	/* texts of one profile are compared by address */
	const uint64_t key[] = {process->index,
				line->line,
				line->language,
				(uintptr_t)line->file,
				(uintptr_t)line->function,
				(uintptr_t)line->module_base,
				line->offset};
	uint64_t sums[GROWTH_LINE_WIDTH] = {line->samples_count, line->on_cpu_ns, line->off_cpu_ns};
	int more = grown(&growth->lines, fnv1a(key, sizeof(key)), sums);

	if (more <= 0)
		return more;
	return APPEND(view, lines,
		      (struct live_line){.process = process,
					 .line = line,
					 .samples_count = sums[0],
					 .on_cpu_ns = sums[1],
					 .off_cpu_ns = sums[2]});
}

static int add_thread(struct live_snapshot *view, struct growth *growth,
		      const struct profile_process *process, const struct profile_thread *thread)
{
	uint64_t sums[GROWTH_THREAD_WIDTH] = {thread->on_cpu_ns, thread->runnable_ns,
					      thread->blocked_ns, thread->wall_ns};
	int more = grown(&growth->threads, (uint64_t)process->index << 32 | thread->tid, sums);

	if (more < 0)
		return more;
	return APPEND(
		view, threads,
		(struct live_thread){
			.process = process,
			.thread = thread,
			.on_cpu_ns = thread->on_cpu_ns == PROFILE_ABSENT ? PROFILE_ABSENT : sums[0],
			.runnable_ns =
				thread->runnable_ns == PROFILE_ABSENT ? PROFILE_ABSENT : sums[1],
			.blocked_ns =
				thread->blocked_ns == PROFILE_ABSENT ? PROFILE_ABSENT : sums[2],
			.wall_ns = thread->wall_ns == PROFILE_ABSENT ? PROFILE_ABSENT : sums[3],
		});
}

static int add_wait(struct live_snapshot *view, struct growth *growth,
		    const struct profile_process *process, const struct profile_activity *wait)
{
	/* a wait is the same one when another thread ends it */
	const uint64_t key[] = {
		process->index, wait->tid,
		wait->reason,	wait->syscall,
		wait->object,	wait->reason == PERFX_WAIT_FUTEX ? 0 : wait->holder_tid};
	uint64_t sums[GROWTH_WAIT_WIDTH] = {wait->count, wait->ns};
	int more = grown(&growth->waits, fnv1a(key, sizeof(key)), sums);

	if (more <= 0)
		return more;
	return APPEND(view, waits,
		      (struct live_wait){
			      .process = process, .wait = wait, .count = sums[0], .ns = sums[1]});
}

static int add_lists(struct live_snapshot *view, struct growth *growth,
		     const struct profile_process *process)
{
	int err = 0;

	for (size_t i = 0; i < process->lines_count && !err; i++)
		err = add_line(view, growth, process, &process->lines[i]);
	for (size_t i = 0; i < process->threads_count && !err; i++)
		err = add_thread(view, growth, process, &process->threads[i]);
	for (size_t i = 0; i < process->blocked.count && !err; i++)
		err = add_wait(view, growth, process, &process->blocked.list[i]);
	return err;
}

static int by_self(const void *left, const void *right)
{
	const struct live_row *a = left, *b = right;

	return DESCENDING(a->period.self_ns, b->period.self_ns)
		       ?: DESCENDING(a->period.calls_count, b->period.calls_count);
}

static int by_samples(const void *left, const void *right)
{
	const struct live_line *a = left, *b = right;

	return DESCENDING(a->on_cpu_ns + a->off_cpu_ns, b->on_cpu_ns + b->off_cpu_ns);
}

static int by_on_cpu(const void *left, const void *right)
{
	const struct live_thread *a = left, *b = right;

	/* absent wraps to 0: last */
	return DESCENDING(a->on_cpu_ns + 1, b->on_cpu_ns + 1);
}

static int by_wait(const void *left, const void *right)
{
	const struct live_wait *a = left, *b = right;

	return DESCENDING(a->ns, b->ns);
}

static int by_steps(const void *left, const void *right)
{
	const struct live_process *a = left, *b = right;
	int order = DESCENDING(a->history[a->history_count - 1].steps_count,
			       b->history[b->history_count - 1].steps_count);

	order = order ?: DESCENDING(a->period.self_ns, b->period.self_ns);
	return order ?: ASCENDING(a->process->pid, b->process->pid);
}

#define SORT(view, list, order)                                                                  \
	do {                                                                                     \
		if ((view)->list##_count) /* otherwise the list may be NULL */                   \
			qsort((view)->list, (view)->list##_count, sizeof(*(view)->list), order); \
	} while (0)

static uint64_t thread_key(const struct profile_process *process, uint32_t tid)
{
	return (uint64_t)process->index << 32 | tid;
}

/* Waits are in order: a thread's first is its longest. */
static int name_longest(struct live_snapshot *view)
{
	struct map64 firsts = {0};
	int err = 0;

	for (uint32_t i = 0; i < view->waits_count && !err; i++) {
		uint64_t key = thread_key(view->waits[i].process, view->waits[i].wait->tid);

		if (map64_get(&firsts, key) == MAP64_NONE)
			err = map64_put(&firsts, key, i);
	}
	for (size_t i = 0; i < view->threads_count; i++) {
		struct live_thread *thread = &view->threads[i];
		uint32_t at = map64_get(&firsts, thread_key(thread->process, thread->thread->tid));

		thread->longest = at == MAP64_NONE ? NULL : &view->waits[at];
	}
	map64_clear(&firsts);
	return err;
}

static int add_process(struct live_snapshot *view, struct run *run, struct growth *growth,
		       const struct profile *profile, struct run_process *process, uint64_t to_ns)
{
	struct live_process *live = &process->live;
	int err = add_rows(view, run, growth, profile, live);

	if (!err)
		err = run_process_add(run, process, profile, growth, to_ns);
	if (!err)
		err = add_lists(view, growth, live->process);
	return err ? err : APPEND(view, processes, *live);
}

int view_fill(struct live_snapshot *view, struct run *run, struct growth *growth,
	      const struct profile *profile, uint64_t epoch, uint64_t to_ns)
{
	int err = 0;

	view->processes_count = view->rows_count = view->lines_count = 0;
	view->threads_count = view->waits_count = 0;
	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		struct run_process *process = run_process(run, &profile->processes[i], epoch);

		if (!process)
			return -ENOMEM;
		process->live.process = &profile->processes[i];
		process->live.analysis = NULL;
		err = add_process(view, run, growth, profile, process, to_ns);
	}
	if (err)
		return err;
	run_totals(run, profile, growth);
	SORT(view, processes, by_steps);
	SORT(view, rows, by_self);
	SORT(view, lines, by_samples);
	SORT(view, threads, by_on_cpu);
	SORT(view, waits, by_wait);
	return name_longest(view);
}

void view_clear(struct live_snapshot *view)
{
	free(view->processes);
	free(view->rows);
	free(view->lines);
	free(view->threads);
	free(view->waits);
}
