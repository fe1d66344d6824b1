// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/dump.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/syscalls.h"
#include "base/units.h"

#include <errno.h>
#include <stdlib.h>

/* A thread computes if it was sampled on a CPU in this share of the dump. */
#define COMPUTES_SHARE 0.25

bool dump_is_stopped(const struct profile_thread_state *state)
{
	return state->reason == PERFX_WAIT_STOPPED;
}

bool dump_computes(const struct profile *profile, const struct profile_thread_state *state)
{
	uint64_t interval_ns = profile->sampling.on_cpu_interval_ns;

	return interval_ns && profile->duration_ns &&
	       (double)(state->samples_count * interval_ns) >=
		       COMPUTES_SHARE * (double)profile->duration_ns;
}

static int list_threads(const struct profile *profile, struct dump *dump)
{
	size_t count = 0;

	FOR_EACH (process, profile->processes)
		count += process->states_count;
	dump->threads = calloc(count + 1, sizeof(*dump->threads));
	if (!dump->threads)
		return -ENOMEM;
	FOR_EACH (process, profile->processes)
		FOR_EACH (state, process->states)
			dump->threads[dump->threads_count++] =
				(struct dump_thread){.process = process,
						     .state = state,
						     .group = DUMP_NONE,
						     .waits_for = DUMP_NONE};
	return 0;
}

/* A lock without an owner is another object for each thread of a pool; by what it is they are
 * alike. */
static bool names_object(const struct profile_wait_target *target)
{
	return target->kind != PERFX_TARGET_CONDITION && target->kind != PERFX_TARGET_LOCK &&
	       target->kind != PERFX_TARGET_TIMER && target->kind != PERFX_TARGET_UNKNOWN;
}

static int compare_targets(const struct profile_wait_target *a, const struct profile_wait_target *b)
{
	return ASCENDING(a->kind, b->kind)       ?: ASCENDING(a->pid, b->pid)
	       ?: ASCENDING(a->tid, b->tid)
	       ?: (names_object(a) ? strcmp(a->text, b->text) : 0);
}

static int compare_alike(const struct dump_thread *a, const struct dump_thread *b)
{
	const struct profile_thread_state *x = a->state, *y = b->state;

	return ASCENDING(a->process, b->process) ?: ASCENDING(x->stack, y->stack)
	       ?: ASCENDING(x->state, y->state)  ?: ASCENDING(x->reason, y->reason)
	       ?: ASCENDING(x->syscall, y->syscall) ?: ASCENDING(x->flags, y->flags)
	       ?: ASCENDING(x->holder_tid, y->holder_tid)
	       ?: compare_targets(&x->target, &y->target);
}

struct sorted_thread {
	const struct dump_thread *thread;
	size_t index;
};

static int by_likeness(const void *left, const void *right)
{
	const struct sorted_thread *a = left, *b = right;

	return compare_alike(a->thread, b->thread) ?: ASCENDING(a->index, b->index);
}

static void measure_group(const struct dump *dump, struct dump_group *group)
{
	group->least_age_ns = group->most_age_ns = PROFILE_ABSENT;
	for (size_t i = 0; i < group->threads_count; i++) {
		uint64_t age_ns = dump->threads[group->threads[i]].state->age_ns;

		group->least_age_ns = min_u64(group->least_age_ns, age_ns);
		if (group->most_age_ns == PROFILE_ABSENT ||
		    (age_ns != PROFILE_ABSENT && age_ns > group->most_age_ns))
			group->most_age_ns = age_ns;
	}
}

/* The first that holds of a group is where it stands among those of its process. */
static int rank_of(const struct profile *profile, const struct dump *dump,
		   const struct dump_group *group)
{
	const struct dump_thread *first = &dump->threads[group->threads[0]];
	bool is_main = first->state->tid == first->process->pid;

	for (size_t i = 0; i < dump->deadlocks_count; i++)
		for (size_t k = 0; k < dump->deadlocks[i].threads_count; k++)
			if (dump->threads[dump->deadlocks[i].threads[k]].group == first->group)
				return 0;
	return is_main					 ? 1
	       : first->waiters_count			 ? 2
	       : dump_computes(profile, first->state)	 ? 3
	       : first->state->reason == PERFX_WAIT_NONE ? 4
	       : profile_line_frame(first->state->stack ? first->state->stack->frames : NULL,
				    first->state->stack ? first->state->stack->frames_count : 0,
				    PERFX_LANGUAGE_PYTHON)
		       ? 5
		       : 6;
}

struct ranked_group {
	struct dump_group group;
	int rank;
};

ORDER(by_rank, struct ranked_group, ASCENDING(a->group.process, b->group.process),
      ASCENDING(a->rank, b->rank), ASCENDING(a->group.threads[0], b->group.threads[0]))

/* The most telling first. */
static int order_groups(const struct profile *profile, struct dump *dump)
{
	struct ranked_group *ranked = calloc(dump->groups_count + 1, sizeof(*ranked));

	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < dump->groups_count; i++)
		ranked[i] = (struct ranked_group){dump->groups[i],
						  rank_of(profile, dump, &dump->groups[i])};
	SORT_ITEMS(ranked, dump->groups_count, by_rank);
	for (size_t i = 0; i < dump->groups_count; i++) {
		dump->groups[i] = ranked[i].group;
		for (size_t k = 0; k < dump->groups[i].threads_count; k++)
			dump->threads[dump->groups[i].threads[k]].group = i;
	}
	free(ranked);
	return 0;
}

static int make_groups(struct dump *dump)
{
	size_t count = dump->threads_count;
	struct sorted_thread *sorted = calloc(count + 1, sizeof(*sorted));

	dump->groups = calloc(count + 1, sizeof(*dump->groups));
	dump->group_threads = calloc(count + 1, sizeof(*dump->group_threads));
	if (!sorted || !dump->groups || !dump->group_threads) {
		free(sorted);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct sorted_thread){&dump->threads[i], i};
	SORT_ITEMS(sorted, count, by_likeness);
	for (size_t i = 0; i < count; i++) {
		struct dump_group *group = &dump->groups[dump->groups_count];

		if (!i || compare_alike(sorted[i - 1].thread, sorted[i].thread)) {
			group = &dump->groups[dump->groups_count++];
			*group = (struct dump_group){.process = sorted[i].thread->process,
						     .threads = &dump->group_threads[i]};
		} else {
			group--;
		}
		dump->group_threads[i] = sorted[i].index;
		dump->threads[sorted[i].index].group = dump->groups_count - 1;
		group->threads_count++;
	}
	FOR_EACH (group, dump->groups)
		measure_group(dump, group);
	free(sorted);
	return 0;
}

void dump_add_thread(struct text *text, const struct dump_thread *thread)
{
	escape_name(text, thread->state->comm);
	text_printf(text, " (%u)", thread->state->tid);
}

static void add_thread_of(struct text *text, const struct profile_process *process, uint32_t tid)
{
	FOR_EACH (state, process->states) {
		if (state->tid != tid)
			continue;
		dump_add_thread(text, &(struct dump_thread){.process = process, .state = state});
		return;
	}
	text_printf(text, "%u", tid);
}

/* "read from pipe:[12] from python3 (pid 42)" */
static void add_before_target(struct text *text, const struct profile_thread_state *state)
{
	static const char *const words[PERFX_WAIT_REASONS] = {
		[PERFX_WAIT_READ] = "read from ", [PERFX_WAIT_WRITE] = "write to ",
		[PERFX_WAIT_DISK] = "disk: ",	  [PERFX_WAIT_POLL] = "poll of ",
		[PERFX_WAIT_EPOLL] = "epoll of ",
	};

	if (words[state->reason])
		text_add(text, words[state->reason]);
	else if (state->reason == PERFX_WAIT_SYSCALL && syscall_name(state->syscall))
		text_printf(text, "%s of ", syscall_name(state->syscall));
}

static void add_stopped(struct text *text, const struct profile_thread_state *state)
{
	if (state->tracer_pid)
		text_printf(text, "stopped by pid %u, which traces it (ptrace)", state->tracer_pid);
	else if (state->flags & PERFX_THREAD_STATE_FROZEN)
		text_add(text, "frozen: its cgroup's freezer is on");
	else
		text_add(text, "stopped by a signal (SIGSTOP): kill -CONT lets it go on");
}

/* Without a known target. */
static void add_reason(struct text *text, const struct profile_thread_state *state)
{
	static const char *const words[PERFX_WAIT_REASONS] = {
		[PERFX_WAIT_READ] = "read",
		[PERFX_WAIT_WRITE] = "write",
		[PERFX_WAIT_POLL] = "poll",
		[PERFX_WAIT_EPOLL] = "epoll",
		[PERFX_WAIT_FUTEX] = "a lock or a condition",
		[PERFX_WAIT_GIL] = "the GIL",
		[PERFX_WAIT_SLEEP] = "the end of a sleep",
		[PERFX_WAIT_WAIT] = "a child's end",
		[PERFX_WAIT_DISK] = "a disk",
		[PERFX_WAIT_PAGE_FAULT] = "a page of memory",
	};

	if (words[state->reason])
		text_add(text, words[state->reason]);
	else if (state->syscall != PERFX_NO_SYSCALL && syscall_name(state->syscall))
		text_add(text, syscall_name(state->syscall));
	else if (state->syscall != PERFX_NO_SYSCALL)
		text_printf(text, "system call %u", state->syscall);
	else
		text_add(text, "the kernel");
}

static void add_target(struct text *text, const struct dump_thread *thread)
{
	const struct profile_thread_state *state = thread->state;

	if (state->target.text[0]) {
		add_before_target(text, state);
		escape_name(text, state->target.text);
	} else {
		add_reason(text, state);
	}
	if (state->reason == PERFX_WAIT_GIL && state->holder_tid) {
		text_add(text, ", held by thread ");
		add_thread_of(text, thread->process, state->holder_tid);
	}
}

void dump_add_what(struct text *text, const struct profile *profile,
		   const struct dump_thread *thread)
{
	const struct profile_thread_state *state = thread->state;

	if (state->state == 'Z' || state->state == 'X')
		text_add(text, "has ended");
	else if (dump_is_stopped(state))
		add_stopped(text, state);
	else if (dump_computes(profile, state))
		text_add(text, "computes");
	else if (state->flags & PERFX_THREAD_STATE_THROTTLED)
		text_add(text, "throttled: its cgroup has used up its CPU time (cpu.max)");
	else if (state->reason == PERFX_WAIT_RUNNABLE)
		text_add(text, "waits for a CPU");
	else if (state->reason == PERFX_WAIT_NONE)
		text_add(text, state->samples_count ? "runs now and then" : "runs");
	else {
		text_add(text, "waits for ");
		add_target(text, thread);
	}
}

void dump_add_age(struct text *text, const struct profile_thread_state *state, uint64_t age_ns)
{
	if (age_ns == PROFILE_ABSENT || state->reason == PERFX_WAIT_NONE)
		return;
	text_printf(text, "%s%s", state->flags & PERFX_THREAD_STATE_EXACT ? "for " : "for at most ",
		    as_ns(age_ns));
}

const struct profile_frame *dump_place(const struct profile_thread_state *state)
{
	const struct profile_stack *stack = state->stack;
	const struct profile_frame *own = NULL;

	if (!stack || !stack->frames_count)
		return NULL;
	if (location_own_python(stack->frames, stack->frames_count) < stack->frames_count)
		own = stack->frames[location_own_python(stack->frames, stack->frames_count)];
	else if (location_native(stack->frames, stack->frames_count) < stack->frames_count)
		own = stack->frames[location_native(stack->frames, stack->frames_count)];
	return own ?: stack->frames[0];
}

/* The process whose threads say most: one that is no launcher waiting for its children. */
static const struct dump_thread *main_thread(const struct dump *dump)
{
	const struct dump_thread *found = NULL;

	FOR_EACH (thread, dump->threads) {
		if (thread->state->tid != thread->process->pid)
			continue;
		if (thread->state->reason != PERFX_WAIT_WAIT)
			return thread;
		found = found ?: thread;
	}
	return found ?: dump->threads_count ? &dump->threads[0] : NULL;
}

struct counts {
	size_t computing, stopped, ready, running;
	const struct dump_thread *computes, *is_stopped, *is_ready;
};

static struct counts count_threads(const struct profile *profile, const struct dump *dump)
{
	struct counts counts = {0};

	FOR_EACH (thread, dump->threads) {
		const struct profile_thread_state *state = thread->state;

		if (dump_computes(profile, state)) {
			counts.computing++;
			if (!counts.computes ||
			    state->samples_count > counts.computes->state->samples_count)
				counts.computes = thread;
		} else if (dump_is_stopped(state)) {
			counts.stopped++;
			counts.is_stopped = counts.is_stopped ?: thread;
		} else if (state->reason == PERFX_WAIT_RUNNABLE) {
			counts.ready++;
			counts.is_ready = counts.is_ready ?: thread;
		}
	}
	return counts;
}

/* "thread train (42) of python3 (pid 42), in train_step (train.py:12)" */
static void add_whom(struct text *text, const struct dump_thread *thread)
{
	text_add(text, "thread ");
	dump_add_thread(text, thread);
	if (thread->state->tid != thread->process->pid) {
		text_add(text, " of ");
		escape_name(text, thread->process->comm);
		text_printf(text, " (pid %u)", thread->process->pid);
	}
	location_after(text, " in ", dump_place(thread->state));
}

static void add_waiting(struct text *text, const struct dump_thread *thread)
{
	text_add(text, "WAITS FOR ");
	add_target(text, thread);
	if (thread->state->age_ns != PROFILE_ABSENT) {
		text_add(text, ", ");
		dump_add_age(text, thread->state, thread->state->age_ns);
	}
	text_add(text, ": ");
	add_whom(text, thread);
}

int dump_verdict(const struct profile *profile, struct dump *dump)
{
	struct counts counts = count_threads(profile, dump);
	const struct dump_thread *thread = main_thread(dump);
	struct text text = {0};

	if (!thread) {
		text_add(&text, "NOTHING: no thread was seen");
	} else if (counts.is_stopped &&
		   (counts.is_stopped == thread || counts.stopped == dump->threads_count)) {
		dump->answer = DUMP_ANSWER_STOPPED;
		text_printf(&text, "STOPPED: %zu of %zu threads: ", counts.stopped,
			    dump->threads_count);
		add_stopped(&text, counts.is_stopped->state);
	} else if (counts.computes) {
		dump->answer = DUMP_ANSWER_COMPUTES;
		text_printf(&text, "COMPUTES: %zu of %zu thread%s: ", counts.computing,
			    dump->threads_count, plural(dump->threads_count));
		add_whom(&text, counts.computes);
	} else if (counts.is_ready && thread->state->reason == PERFX_WAIT_RUNNABLE) {
		dump->answer = DUMP_ANSWER_READY;
		text_add(&text, "WAITS FOR A CPU: ");
		add_whom(&text, thread);
	} else if (thread->state->reason == PERFX_WAIT_NONE) {
		dump->answer = DUMP_ANSWER_COMPUTES;
		text_add(&text, "RUNS: ");
		add_whom(&text, thread);
	} else {
		dump->answer = DUMP_ANSWER_WAITS;
		add_waiting(&text, thread);
	}
	dump->verdict = text_take(&text);
	return dump->verdict ? 0 : -ENOMEM;
}

struct dump *dump__new(const struct profile *profile)
{
	struct dump *dump = calloc(1, sizeof(*dump));
	int err;

	if (!dump)
		return NULL;
	dump->culprit = DUMP_NONE;
	err = list_threads(profile, dump);
	err = err ?: make_groups(dump);
	err = err ?: dump_graph(profile, dump);
	err = err ?: order_groups(profile, dump);
	err = err ?: dump_ranks(profile, dump);
	err = err ?: dump_verdict(profile, dump);
	if (!err)
		return dump;
	dump__free(dump);
	errno = -err;
	return NULL;
}

void dump__free(struct dump *dump)
{
	if (!dump)
		return;
	for (size_t i = 0; i < dump->deadlocks_count; i++)
		free(dump->deadlocks[i].threads);
	for (size_t i = 0; i < dump->ranks_count; i++)
		free(dump->ranks[i].processes);
	free(dump->deadlocks);
	free(dump->ranks);
	free(dump->threads);
	free(dump->groups);
	free(dump->group_threads);
	free(dump->verdict);
	free(dump);
}
