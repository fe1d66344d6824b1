// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/driver.h"

#include "analyze/location.h"
#include "analyze/remedy.h"
#include "base/grow.h"
#include "base/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- which line leads --- */

/* The Python function that runs or waits, else the innermost native one. NULL: without a name. */
static const struct profile_frame *frame_of(const struct profile_stack *stack)
{
	size_t first = stack ? location_python(stack->frames, stack->frames_count) : 0;

	if (!stack || !stack->frames_count)
		return NULL;
	if (first == stack->frames_count)
		first = 0;
	return stack->frames[first]->function[0] ? stack->frames[first] : NULL;
}

void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns)
{
	if (!frame)
		return;
	for (size_t i = 0; i < lines->count; i++) {
		if (frame_is_same_line(lines->lines[i].frame, frame)) {
			lines->lines[i].ns += ns;
			return;
		}
	}
	if (lines->count < LINES_MAX)
		lines->lines[lines->count++] = (struct place){frame, ns};
}

struct place lines_lead(const struct lines *lines)
{
	uint64_t line_ns = 0;
	struct place lead = {0};

	for (size_t i = 0; i < lines->count; i++) {
		const struct place *line = &lines->lines[i];
		uint64_t function_ns = 0;

		for (size_t j = 0; j < lines->count; j++)
			if (frame_is_same_function(lines->lines[j].frame, line->frame))
				function_ns += lines->lines[j].ns;
		if (function_ns < lead.ns || (function_ns == lead.ns && line->ns <= line_ns))
			continue;
		lead = (struct place){line->frame, function_ns};
		line_ns = line->ns;
	}
	return lead;
}

struct place thread_place(const struct profile_process *process, uint32_t tid)
{
	struct lines lines = {0};

	for (size_t i = 0; i < process->samples.count; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->tid == tid && sample->state != PERFX_SAMPLE_WAITING)
			lines_add(&lines, frame_of(sample->stack), sample->ns);
	}
	return lines_lead(&lines);
}

/* --- calling contexts --- */

int contexts_begin(struct contexts *contexts, const struct profile *profile,
		   const struct profile_process *process)
{
	int err = 0;

	*contexts = (struct contexts){.profile = profile, .process = process};
	for (size_t i = 0; i < process->contexts_count && !err; i++)
		err = map64_put(&contexts->places, process->contexts[i].id, (uint32_t)i);
	/* by name, once each: a deep context asks for all that are above it */
	for (uint32_t id = 1; id <= profile->functions_count && !err; id++) {
		const struct profile_function *function = profile_function(profile, id);

		if (function && remedy_of_name(function) == REMEDY_DATA)
			err = map64_put(&contexts->batches, id, 1);
	}
	return err;
}

void contexts_clear(struct contexts *contexts)
{
	map64_clear(&contexts->places);
	map64_clear(&contexts->batches);
}

const struct profile_context *context_of(const struct contexts *contexts, uint32_t id)
{
	uint32_t at = id ? map64_get(&contexts->places, id) : MAP64_NONE;

	return at == MAP64_NONE ? NULL : &contexts->process->contexts[at];
}

bool function_is_marker(const struct profile_function *function)
{
	return function->flags & PERFX_FUNCTION_RANGE ||
	       begins_with(function->name, "record_function ");
}

bool context_is_call(const struct contexts *contexts, uint32_t id)
{
	const struct profile_context *context = context_of(contexts, id);
	const struct profile_function *function =
		context ? profile_function(contexts->profile, context->function) : NULL;

	return id && !(function && function_is_marker(function));
}

bool context_is_data(const struct contexts *contexts, uint32_t id)
{
	const struct profile_context *context = context_of(contexts, id);

	for (; context; context = context_of(contexts, context->parent))
		if (map64_get(&contexts->batches, context->function) != MAP64_NONE)
			return true;
	return false;
}

/* --- running Python --- */

/* While it is written. */
struct sampling {
	struct sampled sampled;
	double part;	/* of its interval that a sample stands for */
	double squares; /* of the intervals */
	struct lines lines;
};

static uint64_t part_ns(const struct profile_activity *sample, double part)
{
	return (uint64_t)((double)sample->ns * part);
}

static void sampling_add(struct sampling *sampling, const struct profile_activity *sample)
{
	uint64_t sample_ns = part_ns(sample, sampling->part);
	double ns = (double)sample_ns;

	sampling->sampled.ns += sample_ns;
	sampling->sampled.count += sample->count;
	sampling->squares += sample->count ? ns * ns / (double)sample->count : 0;
	lines_add(&sampling->lines, frame_of(sample->stack), sample_ns);
}

static struct sampled sampling_end(struct sampling *sampling)
{
	sampling->sampled.error_ns = sqrt(sampling->squares);
	sampling->sampled.lead = lines_lead(&sampling->lines);
	return sampling->sampled;
}

/* It runs, or would if it had a CPU: as in the time of a call, which has both. */
static bool runs_python(const struct contexts *contexts, const struct profile_activity *sample)
{
	return sample->state != PERFX_SAMPLE_WAITING && stack_runs_python(sample->stack) &&
	       !stack_collects_garbage(sample->stack) &&
	       !context_is_call(contexts, sample->context);
}

static bool reads_batch(const struct contexts *contexts, const struct profile_activity *sample)
{
	return context_is_data(contexts, sample->context) || stack_reads_input(sample->stack);
}

/* Whatever it runs there, Python or what that calls. */
static bool runs_outside(const struct driver *driver, const struct contexts *contexts,
			 const struct profile_activity *sample)
{
	return sample->tid == driver->tid && sample->state != PERFX_SAMPLE_WAITING &&
	       !context_is_call(contexts, sample->context) && !reads_batch(contexts, sample) &&
	       !stack_collects_garbage(sample->stack);
}

/*
 * Two clocks sample a thread: one while it runs, another while it waits for a CPU. On a busy
 * machine the second one meets threads that have just been displaced, and both together may have
 * more time than there was. How long the thread ran or waited for a CPU is known exactly: samples
 * divide that.
 */
static double part_of_samples(const struct driver *driver, const struct profile_process *process)
{
	const struct profile_thread *thread = profile_thread(process, driver->tid);
	uint64_t sampled_ns = 0, exact_ns;

	if (!thread || thread->wall_ns == PROFILE_ABSENT || thread->on_cpu_ns == PROFILE_ABSENT ||
	    thread->runnable_ns == PROFILE_ABSENT)
		return 1;
	exact_ns = thread->on_cpu_ns + thread->runnable_ns;
	for (size_t i = 0; i < process->samples.count; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->tid == driver->tid && sample->state != PERFX_SAMPLE_WAITING)
			sampled_ns += sample->ns;
	}
	return sampled_ns > exact_ns ? (double)exact_ns / (double)sampled_ns : 1;
}

static void find_python(struct driver *driver, const struct contexts *contexts)
{
	const struct profile_activities *samples = &contexts->process->samples;
	const struct sampling none = {.part = driver->part};
	struct sampling python = none, marked = none, data = none, collecting = none;
	struct sampling outside = none, own = none;

	for (size_t i = 0; i < samples->count; i++) {
		const struct profile_activity *sample = &samples->list[i];

		if (sample->tid != driver->tid)
			continue;
		if (stack_collects_garbage(sample->stack))
			sampling_add(&collecting, sample);
		if (runs_outside(driver, contexts, sample))
			sampling_add(&outside, sample);
		if (!runs_python(contexts, sample))
			continue;
		sampling_add(&python, sample);
		if (sample->context)
			sampling_add(&marked, sample);
		sampling_add(reads_batch(contexts, sample) ? &data : &own, sample);
	}
	driver->python = sampling_end(&python);
	driver->marked = sampling_end(&marked);
	driver->data = sampling_end(&data);
	driver->collecting = sampling_end(&collecting);
	driver->outside = sampling_end(&outside);
	driver->own.lead = sampling_end(&own).lead;
}

/* --- the program's own Python --- */

/* A function is there for its hottest one if running that is most of what it does, */
#define OWN_PART 0.50
/* and if hardly any of it is in other functions than those that lead there. */
#define OWN_CHAIN 0.85
/* One whose caller does hardly more is the better name. */
#define OWN_MORE 1.05
/* Callers that are looked at: each takes a pass over the samples. */
#define OWN_CALLERS 16

static bool has_function(const struct profile_stack *stack, const struct profile_frame *function)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (frame_is_same_function(stack->frames[i], function))
			return true;
	return false;
}

/* From the hottest function outwards, in a stack. */
struct chain {
	const struct profile_stack *stack;
	size_t from, to;
};

static bool chain_has(const struct chain *chain, const struct profile_frame *function)
{
	for (size_t i = chain->from; i <= chain->to; i++)
		if (frame_is_same_function(chain->stack->frames[i], function))
			return true;
	return false;
}

/* Outside of traced calls. */
struct chain_time {
	uint64_t ns;	 /* in its outermost function and below */
	uint64_t own_ns; /* of it, in its functions and in what is not Python below them */
};

static struct chain_time time_of(const struct driver *driver, const struct contexts *contexts,
				 const struct chain *chain)
{
	const struct profile_activities *samples = &contexts->process->samples;
	const struct profile_frame *outermost = chain->stack->frames[chain->to];
	struct chain_time time = {0};

	for (size_t i = 0; i < samples->count; i++) {
		const struct profile_activity *sample = &samples->list[i];
		size_t python;

		if (!runs_outside(driver, contexts, sample) ||
		    !has_function(sample->stack, outermost))
			continue;
		python = stack_innermost_python(sample->stack);
		time.ns += part_ns(sample, driver->part);
		if (chain_has(chain, sample->stack->frames[python]))
			time.own_ns += part_ns(sample, driver->part);
	}
	return time;
}

/* The stack that the hottest function has most often; samples are in the order of their time. */
static const struct profile_stack *stack_of(const struct driver *driver,
					    const struct contexts *contexts,
					    const struct profile_frame *function)
{
	const struct profile_activities *samples = &contexts->process->samples;

	for (size_t i = 0; i < samples->count; i++)
		if (runs_outside(driver, contexts, &samples->list[i]) &&
		    has_function(samples->list[i].stack, function))
			return samples->list[i].stack;
	return NULL;
}

/* From the hottest function outwards, as long as that is most of it. */
static void find_own_python(struct driver *driver, const struct contexts *contexts)
{
	const struct profile_frame *lead = driver->own.lead.frame;
	struct chain chain = {0};
	unsigned tried = 0;

	if (!lead || !location_is_own_python(lead))
		return;
	driver->own.function = lead;
	driver->own.ns = driver->own.lead.ns;
	chain.stack = stack_of(driver, contexts, lead);
	if (!chain.stack)
		return;
	while (!frame_is_same_function(chain.stack->frames[chain.from], lead))
		chain.from++;
	for (chain.to = chain.from; chain.to < chain.stack->frames_count && tried < OWN_CALLERS;
	     chain.to++) {
		const struct profile_frame *frame = chain.stack->frames[chain.to];
		struct chain_time time;

		if (!location_is_own_python(frame) ||
		    (tried && frame_is_same_function(frame, driver->own.function)))
			continue;
		tried++;
		time = time_of(driver, contexts, &chain);
		if ((double)driver->own.lead.ns < OWN_PART * (double)time.ns ||
		    (double)time.own_ns < OWN_CHAIN * (double)time.ns)
			return;
		if ((double)time.ns <= OWN_MORE * (double)driver->own.ns)
			continue;
		driver->own.function = frame;
		driver->own.ns = time.ns;
	}
}

int sampled_python(struct sampled *sampled, const struct profile *profile,
		   const struct profile_process *process, uint32_t but_tid)
{
	struct sampling sampling = {.part = 1};
	struct contexts contexts;
	int err = contexts_begin(&contexts, profile, process);

	for (size_t i = 0; i < process->samples.count && !err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->tid != but_tid && runs_python(&contexts, sample))
			sampling_add(&sampling, sample);
	}
	contexts_clear(&contexts);
	*sampled = sampling_end(&sampling);
	return err;
}

/* --- waits --- */

/* A mutex that another thread has; a wait for a condition is none. */
static bool is_mutex_function(const struct profile_frame *frame)
{
	static const char *const globs[] = {"*pthread_mutex_lock*", "*pthread_mutex_timedlock*",
					    "*pthread_rwlock_*lock*", "*lll_lock_wait*",
					    "std::mutex::lock*"};

	for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++)
		if (!fnmatch(globs[i], frame->function, 0))
			return true;
	return false;
}

/* Python's threading module waits for others by locks of its own. */
static bool is_condition(const struct profile_frame *frame)
{
	return !strcmp(base_name(frame->file), "threading.py");
}

/* A futex: of a lock, of a queue, or of a condition, for which to wait is no fault. */
static enum wait_kind kind_of_futex(const struct profile_stack *stack)
{
	size_t python = stack ? stack_innermost_python(stack) : 0;

	for (size_t i = 0; i < python; i++)
		if (is_mutex_function(stack->frames[i]))
			return WAIT_LOCK;
	if (stack_reads_input(stack))
		return WAIT_INPUT;
	/* Lock.acquire(): the interpreter waits, for the function that calls it */
	return stack_is_in_interpreter(stack) && !is_condition(stack->frames[python])
		       ? WAIT_LOCK
		       : WAIT_UNJUDGED;
}

/* A lock in the interpreter's own data, where that of the GIL could not be found. */
static bool is_interpreters(const struct profile_activity *wait)
{
	return begins_with(wait->object_name, "lock at python3") ||
	       begins_with(wait->object_name, "lock at libpython3");
}

enum wait_kind wait_kind_of(const struct profile_activity *wait)
{
	switch (wait->reason) {
	case PERFX_WAIT_READ:
	case PERFX_WAIT_POLL:
	case PERFX_WAIT_EPOLL:
		return WAIT_INPUT;
	case PERFX_WAIT_WRITE:
		return WAIT_OUTPUT;
	case PERFX_WAIT_FUTEX:
		return is_interpreters(wait) ? WAIT_GIL : kind_of_futex(wait->stack);
	case PERFX_WAIT_GIL:
		return WAIT_GIL;
	case PERFX_WAIT_SLEEP:
		return WAIT_SLEEP;
	case PERFX_WAIT_WAIT:
		return WAIT_CHILD;
	case PERFX_WAIT_DISK:
	case PERFX_WAIT_PAGE_FAULT:
		return WAIT_DISK;
	case PERFX_WAIT_NONE:
	case PERFX_WAIT_RUNNABLE:
	case PERFX_WAIT_SYSCALL:
		break;
	}
	return WAIT_UNJUDGED;
}

/* What a poll waits for is not known to samples. */
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
			return frame_of(samples->list[i].stack);
	return NULL;
}

/* Was a traced call open in most of its samples? */
static bool waits_in_call(const struct contexts *contexts, const struct profile_activity *wait)
{
	const struct profile_activities *samples = &contexts->process->samples;
	uint64_t in_call = 0, all = 0;

	for (size_t i = 0; i < samples->count; i++) {
		const struct profile_activity *sample = &samples->list[i];

		if (!sample_is_of(sample, wait))
			continue;
		all += sample->count;
		if (context_is_call(contexts, sample->context))
			in_call += sample->count;
	}
	return 2 * in_call > all;
}

/* Less of the wall time than this is in no wait that matters. */
#define WAIT_LEAST 0.001

static enum wait_kind kind_of_wait(const struct driver *driver, const struct contexts *contexts,
				   const struct profile_activity *wait)
{
	enum wait_kind kind = wait_kind_of(wait);

	/* the interpreter's lock and a disk keep a call from its work, which is not waiting */
	if (kind == WAIT_UNJUDGED || kind == WAIT_GIL || kind == WAIT_DISK)
		return kind;
	if ((double)wait->ns < WAIT_LEAST * (double)driver->wall_ns ||
	    waits_in_call(contexts, wait))
		return WAIT_UNJUDGED;
	return kind;
}

static void find_waits(struct driver *driver, const struct contexts *contexts)
{
	const struct profile_activities *blocked = &contexts->process->blocked;

	for (size_t i = 0; i < blocked->count; i++) {
		const struct profile_activity *wait = &blocked->list[i];
		struct driver_wait *sum;

		if (wait->reason == PERFX_WAIT_GIL)
			driver->gil_ns += wait->ns;
		if (wait->tid != driver->tid)
			continue;
		if (wait->reason == PERFX_WAIT_RUNNABLE) {
			driver->runnable_ns += wait->ns;
		} else if (!driver->longest) {
			driver->longest = wait;
			driver->longest_place = wait_place(contexts->process, wait);
		}
		sum = &driver->waits[kind_of_wait(driver, contexts, wait)];
		if (!sum->most) {
			sum->most = wait;
			sum->place = wait_place(contexts->process, wait);
		}
		if (sum->most->object == wait->object)
			sum->most_ns += wait->ns;
		sum->ns += wait->ns;
		sum->count += wait->count;
		if (wait->max_ns > sum->max_ns)
			sum->max_ns = wait->max_ns;
	}
}

/* --- the thread --- */

static uint32_t driver_tid(const struct profile_process *process)
{
	if (process->steps.count)
		return process->steps.tid;
	return process->untraced.tid ? process->untraced.tid : process->pid;
}

static void find_running_calls(struct driver_wait *wait, uint32_t tid,
			       const struct profile_activities *samples)
{
	for (size_t i = 0; wait->place && i < samples->count; i++) {
		const struct profile_activity *sample = &samples->list[i];
		const struct profile_stack *stack = sample->stack;

		if (sample->tid == tid && sample->state != PERFX_SAMPLE_WAITING && stack &&
		    stack->frames_count && frame_is_system_call(stack->frames[0]) &&
		    frame_is_same_function(frame_of(stack), wait->place))
			wait->running_ns += sample->ns;
	}
}

int driver_find(struct driver *driver, const struct profile *profile,
		const struct profile_process *process)
{
	struct contexts contexts;
	int err = contexts_begin(&contexts, profile, process);

	*driver = (struct driver){.tid = driver_tid(process),
				  .wall_ns = profile_recorded_ns(profile, process)};
	driver->part = part_of_samples(driver, process);
	if (!err) {
		find_python(driver, &contexts);
		find_own_python(driver, &contexts);
		find_waits(driver, &contexts);
		find_running_calls(&driver->waits[WAIT_DISK], driver->tid, &process->samples);
	}
	contexts_clear(&contexts);
	return err;
}
