// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/dump.h"

#include "analyze/location.h"
#include "analyze/ranks.h"
#include "analyze/spinning.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/units.h"
#include "elf/glob.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A thread computes if it was sampled on a CPU in this share of the dump. */
#define COMPUTES_SHARE 0.25

bool dump_is_stopped(const struct profile_thread_state *state)
{
	return state->reason == PERFX_WAIT_STOPPED;
}

bool dump_computes(const struct profile *profile, const struct profile_thread_state *state)
{
	uint64_t sampled_ns = state->samples_count * profile->sampling.on_cpu_interval_ns;

	/* one that shares its CPU has fewer samples */
	return sampled_ns && (state->state == 'R' ||
			      (double)sampled_ns >= COMPUTES_SHARE * (double)state->dump_ns);
}

bool dump_spins(const struct profile *profile, const struct profile_thread_state *state)
{
	return dump_computes(profile, state) && stack_spins(&(struct spinning){0}, state->stack);
}

bool dump_has_moved(const struct profile_thread_state *state)
{
	return state->stack && state->first_stack && state->stack != state->first_stack;
}

/* Rounds of one dump are not as far apart. */
#define WATCHED_NS_MIN 500000000u

static int list_threads(const struct profile *profile, struct dump *dump)
{
	size_t count = 0;

	FOR_EACH (process, profile->processes)
		count += process->states_count;
	dump->threads = calloc(count + 1, sizeof(*dump->threads));
	if (!dump->threads)
		return -ENOMEM;
	FOR_EACH (process, profile->processes)
		FOR_EACH (state, process->states) {
			dump->threads[dump->threads_count++] =
				(struct dump_thread){.process = process,
						     .state = state,
						     .group = DUMP_NONE,
						     .waits_for = DUMP_NONE};
			dump->watched_ns =
				max_u64(dump->watched_ns, state->time_ns - state->first_ns);
		}
	if (dump->watched_ns < WATCHED_NS_MIN)
		dump->watched_ns = 0;
	return 0;
}

/* Processes of one command line and with as many traced ancestors do the same work: a job's ranks,
 * a loader's workers. */
static size_t ancestors_count(const struct profile *profile, const struct profile_process *process)
{
	size_t count = 0;

	while ((process = profile_parent(profile, process)) && count < profile->processes_count)
		count++;
	return count;
}

static int classify(const struct profile *profile, struct dump *dump)
{
	size_t count = profile->processes_count;
	size_t *ancestors = calloc(count + 1, sizeof(*ancestors));

	dump->classes = calloc(count + 1, sizeof(*dump->classes));
	if (!ancestors || !dump->classes) {
		free(ancestors);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		const struct profile_process *process = &profile->processes[i];
		size_t first = 0;

		ancestors[i] = ancestors_count(profile, process);
		while (first < i && (ancestors[first] != ancestors[i] ||
				     strcmp(profile->processes[first].comm, process->comm) != 0 ||
				     strcmp(profile->processes[first].cmdline, process->cmdline)))
			first++;
		dump->classes[i] = first;
	}
	free(ancestors);
	return 0;
}

static bool is_interpreter(const struct profile_frame *frame)
{
	return begins_with(frame->module_base, "python") ||
	       begins_with(frame->module_base, "libpython");
}

size_t dump_first_python(const struct profile_stack *stack)
{
	size_t i = 0;

	while (i < stack->frames_count && stack->frames[i]->language != PERFX_LANGUAGE_PYTHON)
		i++;
	return i;
}

bool dump_frame_tells(const struct profile_stack *stack, size_t i, size_t first_python)
{
	const struct profile_frame *frame = stack->frames[i];

	return first_python == stack->frames_count || frame->language == PERFX_LANGUAGE_PYTHON ||
	       (i < first_python && frame->function[0] && !is_interpreter(frame));
}

static int compare_frames(const struct profile_frame *a, const struct profile_frame *b)
{
	if (a == b)
		return 0;
	return ASCENDING(a->line, b->line) ?: ASCENDING(a->offset, b->offset)
	       ?: strcmp(a->function, b->function)
	       ?: strcmp(a->module, b->module) ?: strcmp(a->file, b->file);
}

/* By the frames that tell: calls inside the interpreter change when it has compiled a function. */
static int compare_stacks(const struct profile_stack *a, const struct profile_stack *b)
{
	size_t python_of_a, python_of_b;

	if (a == b || !a || !b)
		return ASCENDING(a, b);
	python_of_a = dump_first_python(a);
	python_of_b = dump_first_python(b);
	for (size_t i = 0, k = 0;; i++, k++) {
		int order;

		while (i < a->frames_count && !dump_frame_tells(a, i, python_of_a))
			i++;
		while (k < b->frames_count && !dump_frame_tells(b, k, python_of_b))
			k++;
		if (i == a->frames_count || k == b->frames_count)
			return ASCENDING(i < a->frames_count, k < b->frames_count);
		order = compare_frames(a->frames[i], b->frames[k]);
		if (order)
			return order;
	}
}

/* A pipe, or a lock without an owner, is another one for each thread of a pool. */
static bool names_object(const struct profile_wait_target *target)
{
	return target->kind == PERFX_TARGET_FILE || target->kind == PERFX_TARGET_FILE_LOCK ||
	       target->kind == PERFX_TARGET_MUTEX || target->kind == PERFX_TARGET_RWLOCK;
}

static int compare_targets(const struct profile_wait_target *a, const struct profile_wait_target *b)
{
	return ASCENDING(a->kind, b->kind) ?: (names_object(a) ? strcmp(a->text, b->text) : 0);
}

struct sorted_thread {
	const struct dump_thread *thread;
	size_t index, class;
	bool computes;
};

static int compare_alike(const struct sorted_thread *a, const struct sorted_thread *b)
{
	const struct profile_thread_state *x = a->thread->state, *y = b->thread->state;

	return ASCENDING(a->class, b->class) ?: ASCENDING(a->computes, b->computes)
	       ?: ASCENDING(x->state, y->state) ?: ASCENDING(x->reason, y->reason)
	       ?: ASCENDING(x->syscall, y->syscall) ?: ASCENDING(x->flags, y->flags)
	       ?: compare_targets(&x->target, &y->target) ?: compare_stacks(x->stack, y->stack);
}

static int by_likeness(const void *left, const void *right)
{
	const struct sorted_thread *a = left, *b = right;

	return compare_alike(a, b) ?: ASCENDING(a->index, b->index);
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
	size_t class;
	int rank;
};

ORDER(by_rank, struct ranked_group, ASCENDING(a->class, b->class), ASCENDING(a->rank, b->rank),
      ASCENDING(a->group.threads[0], b->group.threads[0]))

/* The most telling first. */
static int order_groups(const struct profile *profile, struct dump *dump)
{
	struct ranked_group *ranked = calloc(dump->groups_count + 1, sizeof(*ranked));

	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < dump->groups_count; i++)
		ranked[i] = (struct ranked_group){
			dump->groups[i],
			dump->classes[dump->groups[i].process - profile->processes],
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

static int make_groups(const struct profile *profile, struct dump *dump)
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
		sorted[i] = (struct sorted_thread){
			.thread = &dump->threads[i],
			.index = i,
			.class = dump->classes[dump->threads[i].process - profile->processes],
			.computes = dump_computes(profile, dump->threads[i].state)};
	SORT_ITEMS(sorted, count, by_likeness);
	for (size_t i = 0; i < count; i++) {
		struct dump_group *group = &dump->groups[dump->groups_count];

		if (!i || compare_alike(&sorted[i - 1], &sorted[i])) {
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

static void add_stopped(struct text *text, const struct profile_thread_state *state)
{
	if (state->tracer_pid && state->target.kind == PERFX_TARGET_TRACER) {
		text_add(text, "is stopped by ");
		escape_name(text, state->target.text);
		text_add(text, ", which traces it (ptrace)");
	} else if (state->tracer_pid)
		text_printf(text, "is stopped by pid %u, which traces it (ptrace)",
			    state->tracer_pid);
	else if (state->flags & PERFX_THREAD_STATE_FROZEN)
		text_add(text, "is frozen: its cgroup's freezer is on");
	else if (state->object == SIGTTIN || state->object == SIGTTOU)
		text_printf(text,
			    "is stopped: it %s the terminal from the background (SIGTT%s): fg lets "
			    "it go on",
			    state->object == SIGTTIN ? "reads from" : "writes to",
			    state->object == SIGTTIN ? "IN" : "OU");
	else
		text_printf(text, "is stopped by a signal%s: kill -CONT lets it go on",
			    state->object == SIGSTOP   ? " (SIGSTOP)"
			    : state->object == SIGTSTP ? " (SIGTSTP, Ctrl-Z)"
						       : "");
}

/* Without a known target. */
static void add_reason(struct text *text, const struct profile_thread_state *state)
{
	static const char *const words[PERFX_WAIT_REASONS] = {
		[PERFX_WAIT_READ] = "data to read",
		[PERFX_WAIT_WRITE] = "room to write",
		[PERFX_WAIT_POLL] = "an event (poll)",
		[PERFX_WAIT_EPOLL] = "an event (epoll)",
		[PERFX_WAIT_FUTEX] = "a lock or a condition",
		[PERFX_WAIT_GIL] = "the GIL",
		[PERFX_WAIT_SLEEP] = "the end of a sleep",
		[PERFX_WAIT_WAIT] = "a child's end",
		[PERFX_WAIT_DISK] = "disk",
		[PERFX_WAIT_PAGE_FAULT] = "a page of memory",
	};

	if (words[state->reason])
		text_add(text, words[state->reason]);
	else if (state->syscall != PERFX_NO_SYSCALL && syscall_name(state->syscall))
		text_printf(text, "the end of %s()", syscall_name(state->syscall));
	else if (state->syscall != PERFX_NO_SYSCALL)
		text_printf(text, "the end of system call %u", state->syscall);
	else
		text_add(text, "the kernel");
}

/* The thread that has to act; its process, where that is another one. */
static void add_holder(struct text *text, const struct dump_thread *thread)
{
	uint32_t tid = thread->state->target.tid ?: thread->state->holder_tid;

	if (!tid || thread->state->target.kind == PERFX_TARGET_THREAD)
		return;
	if (tid == thread->state->tid) {
		text_add(text, ", which it holds itself");
		return;
	}
	text_add(text, ", held by thread ");
	add_thread_of(text, thread->process, tid);
	if (thread->state->target.pid && thread->state->target.pid != thread->process->pid)
		text_printf(text, " of pid %u", thread->state->target.pid);
}

/* glibc's functions in which a thread waits for what has no owner. */
static const char *word_of_native(const struct profile_stack *stack)
{
	static const struct {
		const char *functions, *word;
	} words[] = {
		{"*pthread_cond_*", "condition"},  {"*sem_*wait*", "semaphore"},
		{"*pthread_barrier_*", "barrier"}, {"*pthread_rwlock_*", "rwlock"},
		{"*pthread_mutex_*", "mutex"},	   {"*pthread_*join*", "end of a thread"},
	};

	for (size_t i = 0; stack && i < dump_first_python(stack); i++)
		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			if (glob_matches(words[k].functions, stack->frames[i]->function))
				return words[k].word;
	return NULL;
}

/* The function of Python's own modules (threading, queue, concurrent.futures) that the program has
 * called, such as threading.Event.wait. NULL: none. */
static const struct profile_frame *frame_of_threading(const struct profile_stack *stack)
{
	static const char *const starts[] = {"run", "_bootstrap", "_bootstrap_inner", NULL};
	const struct profile_frame *found = NULL;

	for (size_t i = stack ? dump_first_python(stack) : 0; stack && i < stack->frames_count;
	     i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (frame->language != PERFX_LANGUAGE_PYTHON)
			continue;
		/* a thread may run such a function directly */
		if (text_is_one_of(frame_last_name(frame), starts) ||
		    !(frame_is(frame, CODE_CONDITION) || frame_is(frame, CODE_THREADS_QUEUE) ||
		      frame_is(frame, CODE_JOIN)))
			break;
		found = frame;
	}
	return found;
}

/* Does the interpreter itself wait for a lock, on behalf of Python code? Modules of its library in
 * C have other locks. */
static bool waits_in_interpreter(const struct profile_stack *stack)
{
	size_t python = stack ? dump_first_python(stack) : 0;

	for (size_t i = 0; i < python; i++)
		if (strstr(stack->frames[i]->module, "/lib-dynload/"))
			return false;
	return stack_is_in_interpreter(stack);
}

/* Names a lock without a known owner by the functions of the stack: "condition at
 * app+0x4040", "threading Event.wait", "threading.Lock, which does not know its owner". */
static void add_unowned(struct text *text, const struct profile_thread_state *state)
{
	const struct profile_frame *threading = frame_of_threading(state->stack);
	const char *word = word_of_native(state->stack), *file;

	if (threading) {
		file = base_name(threading->file);
		if (*file == '_') /* concurrent/futures/_base.py */
			file = "futures";
		text_printf(text, "%.*s ", (int)strcspn(file, "."), file);
		escape_name(text, threading->function);
	} else if (waits_in_interpreter(state->stack)) {
		text_add(text, "a threading.Lock, which does not know its owner");
	} else if (word && begins_with(state->target.text, "lock ")) {
		text_add(text, word);
		escape_name(text, state->target.text + strlen("lock"));
	} else {
		escape_name(text, state->target.text);
	}
}

/* A worker of concurrent.futures or multiprocessing takes its next task from a queue in C. */
static bool is_idle_worker(const struct profile_thread_state *state)
{
	const struct profile_stack *stack = state->stack;
	size_t python = stack ? dump_first_python(stack) : 0;

	return stack && state->reason == PERFX_WAIT_FUTEX && python < stack->frames_count &&
	       frame_is(stack->frames[python], CODE_POOL_THREAD) &&
	       frame_is(stack->frames[python], CODE_POOL_LOOP);
}

static void add_target(struct text *text, const struct dump_thread *thread)
{
	const struct profile_thread_state *state = thread->state;

	if (is_idle_worker(state)) {
		text_add(text, "its next task: an idle worker of a pool");
	} else if (!state->target.text[0]) {
		add_reason(text, state);
	} else if (state->target.kind == PERFX_TARGET_LOCK) {
		add_unowned(text, state);
	} else if (state->reason == PERFX_WAIT_DISK ||
		   (state->target.kind == PERFX_TARGET_FILE && S_ISREG(state->mode))) {
		text_add(text, "disk (");
		escape_name(text, state->target.text);
		text_add(text, ")");
	} else {
		if (state->reason == PERFX_WAIT_SYSCALL && syscall_name(state->syscall))
			text_printf(text, "%s of ", syscall_name(state->syscall));
		escape_name(text, state->target.text);
	}
	add_holder(text, thread);
}

void dump_add_what(struct text *text, const struct profile *profile,
		   const struct dump_thread *thread)
{
	const struct profile_thread_state *state = thread->state;

	if (state->state == 'Z' || state->state == 'X')
		text_add(text, "has ended");
	else if (dump_is_stopped(state))
		add_stopped(text, state);
	else if (dump_spins(profile, state))
		text_add(text, "spins");
	else if (dump_computes(profile, state))
		text_add(text, "computes");
	else if (state->flags & PERFX_THREAD_STATE_THROTTLED)
		text_add(text, "is throttled: its cgroup has used up its CPU time (cpu.max)");
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
	if (age_ns == PROFILE_ABSENT || state->reason == PERFX_WAIT_NONE ||
	    (state->state == 'R' && state->samples_count))
		return;
	text_printf(text, "%s%s", state->flags & PERFX_THREAD_STATE_EXACT ? "for " : "for at most ",
		    as_ns(age_ns));
}

const struct profile_frame *dump_place(const struct profile_stack *stack)
{
	const struct profile_frame *own = NULL;

	if (!stack || !stack->frames_count)
		return NULL;
	if (location_own_python(stack->frames, stack->frames_count) < stack->frames_count)
		own = stack->frames[location_own_python(stack->frames, stack->frames_count)];
	else if (location_native(stack->frames, stack->frames_count) < stack->frames_count)
		own = stack->frames[location_native(stack->frames, stack->frames_count)];
	return own ?: stack->frames[0];
}

static const char *copy_field(char *to, size_t room, const char *from, const char *ends)
{
	size_t length = strcspn(from, ends);

	snprintf(to, room, "%.*s", (int)length, from);
	return from + length + (from[length] == ends[0]);
}

bool dump_next_coroutine(const char **lines, struct dump_coroutine *coroutine)
{
	const char *at = *lines;

	if (!*at)
		return false;
	at = copy_field(coroutine->function, sizeof(coroutine->function), at, "\t\n");
	at = copy_field(coroutine->file, sizeof(coroutine->file), at, "\t\n");
	coroutine->line = (uint32_t)strtoul(at, NULL, 10);
	at += strcspn(at, "\n");
	*lines = at + (*at == '\n');
	return true;
}

bool dump_hides_tasks(const struct profile_process *process)
{
	if (process->tasks_count)
		return false;
	FOR_EACH (state, process->states)
		for (size_t i = 0; state->stack && i < state->stack->frames_count; i++)
			if (glob_matches("*/asyncio/base_events.py",
					 state->stack->frames[i]->file) &&
			    !strcmp(frame_last_name(state->stack->frames[i]), "run_forever"))
				return true;
	return false;
}

static bool has_ended(const struct profile_thread_state *state)
{
	return state->state == 'Z' || state->state == 'X';
}

/* A main thread may end before the others (pthread_exit). */
static bool leader_has_ended(const struct dump_thread *thread)
{
	return has_ended(&thread->process->states[0]) &&
	       thread->process->states[0].tid == thread->process->pid;
}

/* The process whose threads say most: one that is no launcher waiting for its children. */
static const struct dump_thread *main_thread(const struct dump *dump)
{
	const struct dump_thread *found = NULL;

	FOR_EACH (thread, dump->threads) {
		if (has_ended(thread->state) ||
		    (thread->state->tid != thread->process->pid && !leader_has_ended(thread)))
			continue;
		if (thread->state->reason != PERFX_WAIT_WAIT)
			return thread;
		found = found ?: thread;
	}
	return found ?: dump->threads_count ? &dump->threads[0] : NULL;
}

/* A thread that has woken gets a CPU before, unless there are too few. */
#define READY_NS_MIN 10000000u

struct counts {
	size_t computing, spinning, stopped;
	const struct dump_thread *computes; /* the one with most samples */
	const struct dump_thread *stopped_main;
	const struct dump_thread *ready; /* without a CPU; the one that waits longest for it */
};

static struct counts count_threads(const struct profile *profile, const struct dump *dump)
{
	struct counts counts = {0};

	FOR_EACH (thread, dump->threads) {
		const struct profile_thread_state *state = thread->state;

		if (dump_spins(profile, state)) {
			counts.spinning++;
		} else if (dump_computes(profile, state)) {
			counts.computing++;
			if (!counts.computes ||
			    state->samples_count > counts.computes->state->samples_count)
				counts.computes = thread;
		} else if (dump_is_stopped(state)) {
			counts.stopped++;
			if (!counts.stopped_main && state->tid == thread->process->pid)
				counts.stopped_main = thread;
		} else if (state->reason == PERFX_WAIT_RUNNABLE && state->age_ns >= READY_NS_MIN &&
			   (!counts.ready || state->age_ns > counts.ready->state->age_ns)) {
			counts.ready = thread;
		}
	}
	return counts;
}

/* "thread train (42) of python3 (pid 41) in train_step (train.py:12)" */
static void add_whom(struct text *text, const struct dump_thread *thread)
{
	text_add(text, "thread ");
	dump_add_thread(text, thread);
	if (thread->state->tid != thread->process->pid) {
		text_add(text, " of ");
		escape_name(text, thread->process->comm);
		text_printf(text, " (pid %u)", thread->process->pid);
	}
	location_after(text, " in ", dump_place(thread->state->stack));
}

static void add_age_after(struct text *text, const struct profile_thread_state *state)
{
	struct text age = {0};

	dump_add_age(&age, state, state->age_ns);
	if (age.length)
		text_printf(text, ", %s", text_peek(&age));
	text_finish(&age, &text->failed);
}

/* A deadlock names so many threads, and counts the others. */
#define DEADLOCK_NAMED 4

static void add_deadlock(struct text *text, const struct profile *profile, const struct dump *dump)
{
	const struct dump_deadlock *deadlock = &dump->deadlocks[0];

	text_printf(text, "DEADLOCK of %zu thread%s", deadlock->threads_count,
		    plural(deadlock->threads_count));
	for (size_t i = 0; i < deadlock->threads_count && i < DEADLOCK_NAMED; i++) {
		const struct dump_thread *thread = &dump->threads[deadlock->threads[i]];

		text_add(text, i ? "; " : ": ");
		add_whom(text, thread);
		text_add(text, " ");
		dump_add_what(text, profile, thread);
		add_age_after(text, thread->state);
	}
	if (deadlock->threads_count > DEADLOCK_NAMED)
		text_printf(text, "; and %zu more", deadlock->threads_count - DEADLOCK_NAMED);
	if (dump->deadlocks_count > 1)
		text_printf(text, " (one of %zu deadlocks)", dump->deadlocks_count);
}

/* Ranks of a job that works wait for each other in each step. */
#define RANKS_STUCK_NS 500000000u

static bool is_stuck(const struct dump_rank_group *group)
{
	return group->in_collective && group->least_age_ns != PROFILE_ABSENT &&
	       group->least_age_ns >= RANKS_STUCK_NS;
}

/* Most ranks of a job are in a collective, and a few are not, or in another one: the first of
 * dump->ranks. NULL: that is not so. */
static const struct dump_rank_group *find_elsewhere(const struct profile *profile,
						    const struct dump *dump,
						    const struct dump_rank_group **most)
{
	const struct dump_rank_group *odd = dump->ranks;
	const struct profile_rank *rank;

	*most = NULL;
	if (dump->ranks_count < 2)
		return NULL;
	rank = &profile->processes[odd->processes[0]].rank;
	FOR_EACH (group, dump->ranks)
		if (rank_is_same_job(rank, &profile->processes[group->processes[0]].rank) &&
		    is_stuck(group) && group->processes_count >= odd->processes_count &&
		    group != odd)
			*most = group;
	return *most && odd->thread != DUMP_NONE ? odd : NULL;
}

static void add_call(struct text *text, const struct dump_rank_group *group)
{
	escape_name(text, group->call);
	if (group->library)
		text_printf(text, " (%s)", group->library);
}

/* "RANK 2 OF 4 IS ELSEWHERE: it waits for …, for 96 s: thread …; 3 ranks are in all_reduce (gloo)"
 */
static void add_elsewhere(struct text *text, const struct profile *profile, const struct dump *dump,
			  const struct dump_rank_group *odd, const struct dump_rank_group *most)
{
	const struct dump_thread *thread = &dump->threads[odd->thread];

	text_printf(text, "RANK%s", odd->processes_count > 1 ? "S" : "");
	for (size_t i = 0; i < odd->processes_count && i < 8; i++)
		text_printf(text, "%s%u", i ? ", " : " ",
			    profile->processes[odd->processes[i]].rank.rank);
	text_printf(text, " OF %u %s ELSEWHERE: ", thread->process->rank.world_size,
		    odd->processes_count > 1 ? "ARE" : "IS");
	add_whom(text, thread);
	text_add(text, " ");
	dump_add_what(text, profile, thread);
	add_age_after(text, thread->state);
	text_printf(text, "; %zu rank%s in ", most->processes_count,
		    most->processes_count > 1 ? "s are" : " is");
	add_call(text, most);
	if (most->least_age_ns != PROFILE_ABSENT)
		text_printf(text, ", for %s at least", as_ns(most->least_age_ns));
}

/* All ranks that are here are in one collective. NULL: that is not so. */
static const struct dump_rank_group *find_meeting(const struct dump *dump)
{
	return dump->ranks_count == 1 && is_stuck(dump->ranks) ? dump->ranks : NULL;
}

/* "RANK 2 OF 4 IS NOT HERE: it has ended, or runs on another machine; 3 ranks are in …" */
static void add_meeting(struct text *text, const struct profile *profile,
			const struct dump_rank_group *meeting)
{
	const struct profile_rank *rank = &profile->processes[meeting->processes[0]].rank;
	size_t count = meeting->processes_count, missing = rank->world_size - count, at = 0;

	if (count >= rank->world_size) {
		text_add(text, "WAITS FOR ");
		add_call(text, meeting);
		text_printf(text, ": all %u ranks are in it", rank->world_size);
	} else {
		text_printf(text, "RANK%s", missing > 1 ? "S" : "");
		for (uint32_t i = 0, named = 0; i < rank->world_size && named < 8; i++)
			if (at < count && profile->processes[meeting->processes[at]].rank.rank == i)
				at++;
			else
				text_printf(text, "%s%u", named++ ? ", " : " ", i);
		text_printf(text,
			    "%s OF %u %s NOT HERE: ended, or on another machine; %zu rank%s in ",
			    missing > 8 ? ", …" : "", rank->world_size, missing > 1 ? "ARE" : "IS",
			    count, count > 1 ? "s are" : " is");
		add_call(text, meeting);
	}
	text_printf(text, ", for %s at least", as_ns(meeting->least_age_ns));
}

static const struct dump_thread *end_of_chain(const struct dump *dump,
					      const struct dump_thread *thread)
{
	for (size_t steps = 0; thread->waits_for != DUMP_NONE && steps < dump->threads_count;
	     steps++)
		thread = &dump->threads[thread->waits_for];
	return thread;
}

/* Adds the target of the wait, and the activity of the thread at the end of the chain of waits. */
static void add_waiting(struct text *text, const struct profile *profile, const struct dump *dump,
			const struct dump_thread *thread)
{
	const struct dump_thread *end = end_of_chain(dump, thread);

	text_add(text, "WAITS FOR ");
	add_target(text, thread);
	add_age_after(text, thread->state);
	text_add(text, ": ");
	add_whom(text, thread);
	if (end == thread && dump->culprit != DUMP_NONE) {
		end = &dump->threads[dump->culprit];
		text_printf(text, "; %zu thread%s for ", end->waiters_count,
			    end->waiters_count > 1 ? "s wait" : " waits");
		if (end == thread)
			text_add(text, "it");
	} else if (end != thread) {
		text_add(text, "; it depends on ");
	}
	if (end == thread)
		return;
	add_whom(text, end);
	text_add(text, ", which ");
	dump_add_what(text, profile, end);
	add_age_after(text, end->state);
}

static void add_computing(struct text *text, const struct dump *dump, const struct counts *counts)
{
	text_printf(text, "COMPUTES: %zu of %zu thread%s: ", counts->computing, dump->threads_count,
		    plural(dump->threads_count));
	add_whom(text, counts->computes);
	if (counts->computes->waiters_count)
		text_printf(text, "; %zu thread%s for it", counts->computes->waiters_count,
			    counts->computes->waiters_count > 1 ? "s wait" : " waits");
}

/* "SPINS: 4 of 4 threads only wait, on CPUs: thread …" */
static void add_spinning(struct text *text, const struct dump *dump, const struct counts *counts,
			 const struct dump_thread *thread)
{
	text_printf(text, "SPINS: %zu of %zu thread%s only wait%s, on a CPU: ", counts->spinning,
		    dump->threads_count, plural(dump->threads_count),
		    counts->spinning == 1 ? "s" : "");
	add_whom(text, thread);
}

static void add_stop(struct text *text, const struct dump *dump, const struct counts *counts)
{
	text_printf(text, "STOPPED: %zu of %zu thread%s: ", counts->stopped, dump->threads_count,
		    plural(dump->threads_count));
	escape_name(text, counts->stopped_main->process->comm);
	text_printf(text, " (pid %u) ", counts->stopped_main->process->pid);
	add_stopped(text, counts->stopped_main->state);
}

int dump_verdict(const struct profile *profile, struct dump *dump)
{
	struct counts counts = count_threads(profile, dump);
	const struct dump_thread *thread = main_thread(dump);
	const struct dump_rank_group *most, *odd = find_elsewhere(profile, dump, &most);
	const struct dump_rank_group *meeting = find_meeting(dump);
	struct text text = {0};

	if (!thread) {
		text_add(&text, "NOTHING: no thread was seen; -a looks for processes that map an "
				"ML library");
	} else if (dump->deadlocks_count) {
		dump->answer = DUMP_ANSWER_DEADLOCK;
		add_deadlock(&text, profile, dump);
	} else if (counts.stopped_main) {
		dump->answer = DUMP_ANSWER_STOPPED;
		add_stop(&text, dump, &counts);
	} else if (odd) {
		dump->answer = DUMP_ANSWER_RANK_ELSEWHERE;
		add_elsewhere(&text, profile, dump, odd, most);
	} else if (meeting) {
		dump->answer =
			meeting->processes_count <
					profile->processes[meeting->processes[0]].rank.world_size
				? DUMP_ANSWER_RANK_ELSEWHERE
				: DUMP_ANSWER_WAITS;
		add_meeting(&text, profile, meeting);
	} else if (counts.computes) {
		dump->answer = DUMP_ANSWER_COMPUTES;
		add_computing(&text, dump, &counts);
	} else if (dump_spins(profile, end_of_chain(dump, thread)->state)) {
		dump->answer = DUMP_ANSWER_SPINS;
		add_spinning(&text, dump, &counts, end_of_chain(dump, thread));
	} else if (counts.ready) {
		dump->answer = DUMP_ANSWER_READY;
		text_add(&text, counts.ready->state->flags & PERFX_THREAD_STATE_THROTTLED
					? "THROTTLED (cpu.max): "
					: "WAITS FOR A CPU: ");
		add_whom(&text, counts.ready);
		add_age_after(&text, counts.ready->state);
	} else if (thread->state->reason == PERFX_WAIT_NONE ||
		   thread->state->reason == PERFX_WAIT_RUNNABLE) {
		dump->answer = DUMP_ANSWER_COMPUTES;
		text_add(&text, "RUNS: ");
		add_whom(&text, thread);
	} else {
		dump->answer = DUMP_ANSWER_WAITS;
		add_waiting(&text, profile, dump, thread);
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
	err = err ?: classify(profile, dump);
	err = err ?: make_groups(profile, dump);
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
	free(dump->classes);
	free(dump->verdict);
	free(dump);
}
