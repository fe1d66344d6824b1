// SPDX-License-Identifier: BSD-2-Clause
/* Classifies waits by their reason, object and stack. */
#include "analyze/wait_class.h"

#include "analyze/account.h"
#include "analyze/location.h"
#include "analyze/stack_kind.h"
#include "base/grow.h"
#include "base/syscalls.h"

#include <string.h>

static const struct {
	const char *name, *words;
} classes[ACCOUNT_CLASSES] = {
	[ACCOUNT_COMPUTING] = {"computing", "computing"},
	[ACCOUNT_SPINNING] = {"spinning", "spinning"},
	[ACCOUNT_JOIN] = {"join", "joining its own workers"},
	[ACCOUNT_GIL] = {"gil", "waiting for the GIL"},
	[ACCOUNT_LOCK] = {"lock", "waiting for a lock"},
	[ACCOUNT_INPUT] = {"input", "waiting for input"},
	[ACCOUNT_OUTPUT] = {"output", "waiting to output"},
	[ACCOUNT_DISK] = {"disk", "waiting for the disk"},
	[ACCOUNT_SLEEP] = {"sleep", "sleeping"},
	[ACCOUNT_CHILD] = {"child", "waiting for a child"},
	[ACCOUNT_OTHER] = {"other", "waiting for work, events"},
	[ACCOUNT_RUNNABLE] = {"runnable", "waiting for a CPU"},
	[ACCOUNT_STOPPED] = {"stopped", "stopped (SIGSTOP, freezer)"},
	[ACCOUNT_UNKNOWN] = {"unknown", "not known"},
};

const char *account_class_name(enum account_class class)
{
	return classes[class].name;
}

const char *account_class_words(enum account_class class)
{
	return classes[class].words;
}

/* The innermost Python frame; without one, the innermost frame outside of system libraries, else
 * outside of libc. */
static size_t outside_of_libraries(const struct profile_stack *stack)
{
	size_t own = location_native(stack->frames, stack->frames_count);

	if (own < stack->frames_count && stack->frames[own]->function[0])
		return own;
	for (size_t i = 0; i < stack->frames_count; i++)
		if (!frame_is_system_library(stack->frames[i]))
			return stack->frames[i]->function[0] ? i : 0;
	return 0;
}

const struct profile_frame *stack_place(const struct profile_stack *stack)
{
	size_t first = stack ? location_python(stack->frames, stack->frames_count) : 0;

	if (!stack || !stack->frames_count)
		return NULL;
	if (first == stack->frames_count)
		first = outside_of_libraries(stack);
	return stack->frames[first]->function[0] ? stack->frames[first] : NULL;
}

/* Is one of the innermost frames of this kind? */
static bool innermost_have(const struct profile_stack *stack, size_t count, enum known_code kind)
{
	for (size_t i = 0; i < count; i++)
		if (frame_is(stack->frames[i], kind))
			return true;
	return false;
}

static bool innermost_python_is(const struct profile_stack *stack, enum known_code kind)
{
	size_t python = stack ? stack_innermost_python(stack) : 0;

	return stack && python < stack->frames_count && frame_is(stack->frames[python], kind);
}

/* A worker of a pool without a task is idle, as the threads of a thread pool are. */
static bool awaits_task(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (frame->language == PERFX_LANGUAGE_PYTHON &&
		    !frame_is(frame, CODE_INTER_PROCESS))
			return frame_is(frame, CODE_POOL_LOOP);
	}
	return false;
}

bool stack_is_at_mutex(const struct profile_stack *stack)
{
	size_t python = stack ? stack_innermost_python(stack) : 0;

	return (innermost_have(stack, python, CODE_MUTEX) ||
		innermost_have(stack, python, CODE_MUTEX_UNLOCK)) &&
	       !innermost_have(stack, python, CODE_MUTEX_CONDITION);
}

/* A futex of a lock, a queue or a condition. Waiting for a condition is no fault. */
static enum account_class class_of_futex(const struct profile_activity *wait)
{
	const struct profile_stack *stack = wait->stack;
	size_t python = stack ? stack_innermost_python(stack) : 0;

	if (innermost_have(stack, python, CODE_MUTEX) &&
	    !innermost_have(stack, python, CODE_MUTEX_CONDITION))
		return ACCOUNT_LOCK;
	if (stack_has(stack, CODE_QUEUE_PUT))
		return ACCOUNT_OUTPUT;
	if (strstr(wait->object_name, "(shared memory)") && awaits_task(stack))
		return ACCOUNT_OTHER;
	if (stack_has(stack, CODE_INPUT) || stack_has(stack, CODE_THREADS_QUEUE))
		return ACCOUNT_INPUT;
	/* a lock between processes, such as a semaphore; conditions and barriers are excluded */
	if (stack && strstr(wait->object_name, "(shared memory)") &&
	    !innermost_have(stack, python, CODE_SHARED_CONDITION) &&
	    !innermost_python_is(stack, CODE_CONDITION))
		return ACCOUNT_LOCK;
	if (innermost_python_is(stack, CODE_POOL_THREAD))
		return ACCOUNT_INPUT;
	/* Lock.acquire(): the interpreter waits on behalf of the function that called it */
	return stack_is_in_interpreter(stack) && !frame_is(stack->frames[python], CODE_CONDITION)
		       ? ACCOUNT_LOCK
		       : ACCOUNT_OTHER;
}

bool wait_is_for_file_lock(const struct profile_activity *wait)
{
	static const char *const calls[] = {"flock", "fcntl", NULL};
	const char *call = syscall_name(wait->syscall);

	return wait->reason == PERFX_WAIT_SYSCALL && call && text_is_one_of(call, calls);
}

bool wait_is_for_own_events(const struct profile_activity *wait)
{
	return wait->reason == PERFX_WAIT_EPOLL && wait->object_kind == PERFX_OBJECT_OWN_EVENTS;
}

enum account_class wait_class(const struct profile_activity *wait)
{
	static const char *const vforks[] = {"vfork", "clone", "clone3", NULL};
	const char *call = syscall_name(wait->syscall);

	switch (wait->reason) {
	case PERFX_WAIT_READ:
		if (awaits_task(wait->stack))
			return ACCOUNT_OTHER;
		return begins_with(wait->object_name, "timerfd") ? ACCOUNT_SLEEP : ACCOUNT_INPUT;
	case PERFX_WAIT_POLL:
		return awaits_task(wait->stack) ? ACCOUNT_OTHER : ACCOUNT_INPUT;
	case PERFX_WAIT_EPOLL:
		if (awaits_task(wait->stack))
			return ACCOUNT_OTHER;
		/* event loops such as asyncio's wait in these calls */
		return wait_is_for_own_events(wait) ? ACCOUNT_SLEEP : ACCOUNT_INPUT;
	case PERFX_WAIT_WRITE:
		return ACCOUNT_OUTPUT;
	case PERFX_WAIT_FUTEX:
		/* a lock in the interpreter's data, whose GIL was not found */
		return (begins_with(wait->object_name, "lock at python3") ||
			begins_with(wait->object_name, "lock at libpython3"))
			       ? ACCOUNT_GIL
			       : class_of_futex(wait);
	case PERFX_WAIT_GIL:
		return ACCOUNT_GIL;
	case PERFX_WAIT_SLEEP:
		/* Python's pools sleep in a loop until their workers are done */
		return innermost_python_is(wait->stack, CODE_JOIN) ? ACCOUNT_JOIN : ACCOUNT_SLEEP;
	case PERFX_WAIT_WAIT:
		return ACCOUNT_CHILD;
	case PERFX_WAIT_DISK:
	case PERFX_WAIT_PAGE_FAULT:
		return ACCOUNT_DISK;
	case PERFX_WAIT_RUNNABLE:
		return ACCOUNT_RUNNABLE;
	case PERFX_WAIT_STOPPED:
		return ACCOUNT_STOPPED;
	case PERFX_WAIT_SYSCALL:
		/* until the child ends or executes a program */
		if (call && text_is_one_of(call, vforks))
			return ACCOUNT_CHILD;
		return wait_is_for_file_lock(wait) ? ACCOUNT_LOCK : ACCOUNT_OTHER;
	case PERFX_WAIT_NONE:
		break;
	}
	return ACCOUNT_OTHER;
}

bool wait_prepares(const struct profile_activity *wait)
{
	switch ((int)wait_class(wait)) {
	case ACCOUNT_SLEEP:
	case ACCOUNT_DISK:
	case ACCOUNT_CHILD:
	case ACCOUNT_OUTPUT:
		return true;
	case ACCOUNT_INPUT:
		/* another process of this machine sends prepared data by a pipe or a socket */
		return wait->reason != PERFX_WAIT_FUTEX &&
		       !stack_has(wait->stack, CODE_QUEUE_TAKE) &&
		       !(begins_with(wait->object_name, "pipe:") ||
			 begins_with(wait->object_name, "socket:"));
	default:
		return false;
	}
}

bool wait_is_for_child(const struct profile_activity *wait)
{
	return stack_has(wait->stack, CODE_CHILD) || wait_class(wait) == ACCOUNT_CHILD;
}

/* A sample of a poll does not know the object that the poll waits for. */
bool sample_is_of(const struct profile_activity *sample, const struct profile_activity *wait)
{
	return sample->tid == wait->tid && sample->reason == wait->reason &&
	       sample->syscall == wait->syscall &&
	       (sample->object == wait->object || !sample->object);
}

/* Samples are in the order of their time. */
const struct profile_frame *wait_place(const struct profile_process *process,
				       const struct profile_activity *wait)
{
	const struct profile_activities *samples = &process->samples;

	for (size_t i = 0; i < samples->count; i++)
		if (sample_is_of(&samples->list[i], wait) && samples->list[i].stack)
			return stack_place(samples->list[i].stack);
	return NULL;
}

static bool sample_is_in_call(const struct contexts *contexts,
			      const struct profile_activity *sample)
{
	return context_is_call(contexts, sample->context);
}

/* Is this true of most samples of the wait? */
static bool waits_mostly(const struct contexts *contexts, const struct profile_activity *wait,
			 bool (*holds)(const struct contexts *contexts,
				       const struct profile_activity *sample))
{
	const struct profile_activities *samples = &contexts->process->samples;
	uint64_t held = 0, all = 0;

	FOR_EACH_OF (sample, *samples) {
		if (!sample_is_of(sample, wait))
			continue;
		all += sample->count;
		if (holds(contexts, sample))
			held += sample->count;
	}
	return 2 * held > all;
}

/* Waits for the GIL, a disk or a CPU keep a call from its work; any other wait in a call is part of
 * its work, such as waits for the threads of its pool. */
static bool is_work_of_call(enum account_class class)
{
	return class != ACCOUNT_GIL && class != ACCOUNT_DISK && class != ACCOUNT_RUNNABLE &&
	       class != ACCOUNT_STOPPED;
}

/* Waits below this share of the wall time are ignored. */
#define WAIT_LEAST 0.001

enum account_class wait_class_of(const struct contexts *contexts,
				 const struct profile_activity *wait)
{
	double wall_ns = (double)profile_recorded_ns(contexts->profile, contexts->process);
	enum account_class class = wait_class(wait);

	/* a loader's sleeps and reads count as input */
	if (wait_prepares(wait) && waits_mostly(contexts, wait, sample_is_of_batch))
		return ACCOUNT_INPUT;
	if (class == ACCOUNT_OTHER || !is_work_of_call(class))
		return class;
	return (double)wait->ns < WAIT_LEAST * wall_ns ||
			       waits_mostly(contexts, wait, sample_is_in_call)
		       ? ACCOUNT_OTHER
		       : class;
}

enum account_class class_of_sample(const struct contexts *contexts,
				   const struct profile_activity *sample)
{
	enum account_class class = wait_class(sample);

	if (wait_prepares(sample) && sample_is_of_batch(contexts, sample))
		return ACCOUNT_INPUT;
	return is_work_of_call(class) && context_is_call(contexts, sample->context) ? ACCOUNT_OTHER
										    : class;
}

/* The function that takes from a queue; iterators and loaders of batches are skipped. NULL: none.
 */
static const struct profile_frame *asker_of(const struct profile_stack *stack)
{
	for (size_t i = stack_innermost_python(stack); i < stack->frames_count; i++)
		if (stack->frames[i]->language == PERFX_LANGUAGE_PYTHON &&
		    !frame_is(stack->frames[i], CODE_THREADS_QUEUE) &&
		    !frame_is(stack->frames[i], CODE_CONDITION) &&
		    !frame_may_load(stack->frames[i]))
			return stack->frames[i];
	return NULL;
}

/* CPU time of a thread in a function and its callees. */
static uint64_t running_ns(const struct contexts *contexts, uint32_t tid,
			   const struct profile_frame *function)
{
	const struct profile_activities *samples = &contexts->process->samples;
	uint64_t ns = 0;

	for (size_t i = 0; i < samples->count; i++)
		if (samples->list[i].tid == tid && samples->list[i].state == PERFX_SAMPLE_ON_CPU &&
		    stack_has_function(samples->list[i].stack, function))
			ns += samples->list[i].ns;
	return ns;
}

/* A package that takes from a queue and does not work on the data waits for reports of its own
 * threads. */
static bool awaits_reports(const struct contexts *contexts, const struct profile_activity *wait)
{
	const struct profile_frame *asker = wait->stack ? asker_of(wait->stack) : NULL;
	double wall_ns = (double)profile_recorded_ns(contexts->profile, contexts->process);

	return asker && !location_is_own_python(asker) && !frame_is(asker, CODE_POOL_THREAD) &&
	       (double)running_ns(contexts, wait->tid, asker) < FEED_OWN_SHARE * wall_ns;
}

enum join_candidate join_candidate_of(const struct contexts *contexts,
				      const struct profile_activity *wait, enum account_class class)
{
	static const char *const events[] = {"eventfd", "signalfd", "timerfd", NULL};

	if (class == ACCOUNT_CHILD)
		return CANDIDATE_JOIN;
	if (class == ACCOUNT_RUNNABLE)
		return CANDIDATE_NONE;
	if (class == ACCOUNT_OUTPUT && stack_has(wait->stack, CODE_QUEUE_PUT))
		return CANDIDATE_POOL;
	if (class == ACCOUNT_INPUT && stack_has(wait->stack, CODE_THREADS_QUEUE) &&
	    awaits_reports(contexts, wait))
		return CANDIDATE_POOL;
	if (class == ACCOUNT_INPUT && stack_has(wait->stack, CODE_THREADS_QUEUE))
		return CANDIDATE_FEED;
	if (stack_has(wait->stack, CODE_INPUT))
		return CANDIDATE_NONE;
	if (stack_has(wait->stack, CODE_JOIN))
		return CANDIDATE_JOIN;
	switch ((int)wait->reason) {
	case PERFX_WAIT_SLEEP:
	case PERFX_WAIT_POLL:
	case PERFX_WAIT_EPOLL:
		return CANDIDATE_NAP;
	case PERFX_WAIT_READ:
		/* an event of its own threads or a signal: it carries no data */
		return text_begins_with_one_of(wait->object_name, events) ||
				       (begins_with(wait->object_name, "pipe:") &&
					!strstr(wait->object_name, " from "))
			       ? CANDIDATE_NAP
			       : CANDIDATE_FEED;
	case PERFX_WAIT_FUTEX:
		return wait_class(wait) == ACCOUNT_OTHER ? CANDIDATE_NAP : CANDIDATE_NONE;
	case PERFX_WAIT_SYSCALL:
		/* pause, sigwait, semop; calls on a file wait for a device or another process */
		return wait->object ? CANDIDATE_NONE : CANDIDATE_NAP;
	default:
		return CANDIDATE_NONE;
	}
}

enum account_class account_wait_class(const struct process_account *account,
				      const struct contexts *contexts,
				      const struct profile_activity *wait)
{
	const struct account *thread = account_of_thread(account, wait->tid);
	enum account_class class = wait_class_of(contexts, wait);

	if (account->joins_children && join_candidate_of(contexts, wait, class))
		return ACCOUNT_JOIN;
	if (wait->tid == account->pool_tid &&
	    join_candidate_of(contexts, wait, class) == CANDIDATE_POOL)
		return ACCOUNT_JOIN;
	/* while a pool is joined, some of its threads may have no task */
	return account->joins && thread && wait->reason == PERFX_WAIT_FUTEX &&
			       innermost_python_is(wait->stack, CODE_POOL_THREAD) &&
			       account_busy_ns(&account->all) >= thread->wall_ns
		       ? ACCOUNT_OTHER
		       : class;
}
