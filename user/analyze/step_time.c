// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/step_time.h"

#include "analyze/driver.h"
#include "analyze/remedy.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/grow.h"
#include "cost/gpu_calls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The driver's time in one calling context; the first one: outside of all contexts. */
struct stratum {
	double exact_ns;		 /* of all threads; < 0: unknown */
	double own_ns, all_ns, waits_ns; /* samples of the driver, of all threads; its waits */
	double running[TIME_CLASSES];	 /* samples of the driver that ran */
	double squares;			 /* sum of the intervals of these samples */
	double samples_count;
	enum time_class class;
	bool classified, is_call, is_batch;
};

struct division {
	struct contexts contexts;
	const struct driver *driver;
	struct stratum *strata;
	size_t strata_count;
	double waits[TIME_CLASSES];
	double misplaced_ns;	/* how far waits exceed the time of their contexts */
	struct step_time *time; /* while it is computed, the time of the whole recording */
};

static enum time_class class_of_call(const struct division *d,
				     const struct profile_function *function)
{
	const struct gpu_call *call =
		d->contexts.process->gpu.used ? gpu_call_find(function->name) : NULL;

	if (call)
		return call->waits ? TIME_GPU_SYNC : TIME_LAUNCH;
	switch (remedy_of_name(function)) {
	case REMEDY_COLLECTIVE:
		return TIME_COMMUNICATION;
	case REMEDY_SLEEP:
		return TIME_SLEEP;
	default:
		return TIME_COMPUTE;
	}
}

/* The class of a context, before its samples are considered. */
static struct stratum *stratum_of(struct division *d, uint32_t id)
{
	const struct profile_context *context = context_of(&d->contexts, id);
	size_t at = context ? (size_t)(context - d->contexts.process->contexts) + 1 : 0;
	struct stratum *stratum = &d->strata[at];
	const struct profile_function *function =
		context ? profile_function(d->contexts.profile, context->function) : NULL;

	if (stratum->classified)
		return stratum;
	stratum->classified = true;
	stratum->is_call = context && context_is_call(&d->contexts, id);
	stratum->is_batch = context && context_is_data(&d->contexts, id);
	if (stratum->is_batch)
		stratum->class = TIME_INPUT;
	else if (stratum->is_call && function)
		stratum->class = class_of_call(d, function);
	else
		stratum->class = TIME_OTHER;
	return stratum;
}

static enum time_class class_of_running(const struct division *d, const struct stratum *stratum,
					const struct profile_stack *stack)
{
	if (stratum->is_batch || stack_is_of_batch(&d->contexts, stack))
		return TIME_INPUT;
	if (stack_has(stack, CODE_COLLECTIVE))
		return TIME_COMMUNICATION;
	if (stratum->is_call)
		return stratum->class;
	if (!stack || !stack->frames_count)
		return TIME_OTHER;
	return stack_runs_python(stack) ? TIME_PYTHON : TIME_NATIVE;
}

/* The class of waits; 0: TIME_OTHER. */
static const enum time_class classes_of_waits[ACCOUNT_CLASSES] = {
	[ACCOUNT_GIL] = TIME_GIL,	[ACCOUNT_LOCK] = TIME_LOCK, [ACCOUNT_INPUT] = TIME_INPUT,
	[ACCOUNT_OUTPUT] = TIME_OUTPUT, [ACCOUNT_DISK] = TIME_DISK, [ACCOUNT_SLEEP] = TIME_SLEEP,
	[ACCOUNT_CHILD] = TIME_CHILD,
};

/* A loader's waits are time for data. Waits for the GIL or a disk keep a call from its work; other
 * waits in a call are part of its work, such as waits for the threads of its pool. */
static enum time_class class_of_wait(const struct division *d, const struct stratum *stratum,
				     const struct profile_activity *wait)
{
	enum account_class kind = wait_class(wait);

	if (wait->reason == PERFX_WAIT_RUNNABLE)
		return TIME_RUNNABLE;
	if (kind == ACCOUNT_GIL)
		return TIME_GIL;
	if (stratum->is_batch || stack_is_of_batch(&d->contexts, wait->stack))
		return TIME_INPUT;
	if (kind == ACCOUNT_DISK)
		return TIME_DISK;
	if (stack_has(wait->stack, CODE_COLLECTIVE))
		return TIME_COMMUNICATION;
	return stratum->is_call ? stratum->class : (classes_of_waits[kind] ?: TIME_OTHER);
}

/* Number of samples; in the steps only, while there are steps. */
static double count_of(const struct profile_activity *sample)
{
	return (double)activity_judged_count(sample);
}

static void add_samples(struct division *d)
{
	const struct profile_activities *samples = &d->contexts.process->samples;

	FOR_EACH_OF (sample, *samples) {
		struct stratum *stratum = stratum_of(d, sample->context);
		double ns = (double)activity_judged_ns(sample);
		double count = count_of(sample);

		stratum->all_ns += ns;
		if (sample->tid != d->driver->tid)
			continue;
		stratum->own_ns += ns;
		if (sample->state == PERFX_SAMPLE_WAITING)
			continue;
		stratum->running[class_of_running(d, stratum, sample->stack)] += ns;
		stratum->samples_count += count;
		stratum->squares += ns * ns / fmax(count, 1);
	}
}

/* Threads share a context: samples give the driver's share of its time. */
static double driver_time(const struct division *d, const struct stratum *stratum)
{
	if (stratum->exact_ns < 0)
		return stratum->own_ns;
	if (stratum == d->strata || stratum->all_ns <= 0)
		return stratum->exact_ns;
	return stratum->exact_ns * stratum->own_ns / stratum->all_ns;
}

static void add_wait(struct division *d, struct stratum *stratum,
		     const struct profile_activity *wait, double ns)
{
	enum time_class class = class_of_wait(d, stratum, wait);
	bool is_batch = stratum->is_batch || stack_is_of_batch(&d->contexts, wait->stack);

	stratum->waits_ns += ns;
	d->time->ns[class] += ns;
	d->waits[class] += ns;
	if (class == TIME_RUNNABLE && is_batch)
		d->time->batch_runnable_ns += ns;
	if (class != TIME_INPUT || !is_batch)
		return;
	d->time->batch_ns += ns;
	if (wait_prepares(wait))
		d->time->batch_own_waits_ns += ns;
}

/* A wait for a lock that no sample saw is distributed as the sampled ones are. */
static bool sample_is_alike(const struct profile_activity *sample,
			    const struct profile_activity *wait)
{
	return wait->reason == PERFX_WAIT_FUTEX && sample->reason == wait->reason &&
	       sample->tid == wait->tid;
}

typedef bool sample_match(const struct profile_activity *sample,
			  const struct profile_activity *wait);

/* Divides a time in proportion to these samples; false if there are none. */
static bool divide_wait_by(struct division *d, const struct profile_activity *wait, double ns,
			   sample_match *matches)
{
	const struct profile_activities *samples = &d->contexts.process->samples;
	double all = 0;

	for (size_t i = 0; i < samples->count; i++)
		if (matches(&samples->list[i], wait))
			all += count_of(&samples->list[i]);
	for (size_t i = 0; i < samples->count && all > 0; i++) {
		const struct profile_activity *sample = &samples->list[i];
		struct profile_activity part = *wait;

		part.stack = sample->stack;
		if (matches(sample, wait))
			add_wait(d, stratum_of(d, sample->context), &part,
				 ns * count_of(sample) / all);
	}
	return all > 0;
}

/* Distributes a wait over the contexts of its samples; without samples it counts as outside of
 * calls. */
static void divide_wait(struct division *d, const struct profile_activity *wait, double ns)
{
	if (!divide_wait_by(d, wait, ns, sample_is_of) &&
	    !divide_wait_by(d, wait, ns, sample_is_alike))
		add_wait(d, stratum_of(d, 0), wait, ns);
}

/* The factor from the recorded waits to the kernel's counters of the thread, if waits were not
 * recorded to the end: the rest is divided as the recorded part is. runnable: waits for a CPU. */
static double growth(const struct division *d, bool runnable)
{
	const struct profile_activities *blocked = &d->contexts.process->blocked;
	const struct profile_thread *thread =
		profile_waits_are_whole(d->contexts.profile)
			? NULL
			: profile_thread(d->contexts.process, d->driver->tid);
	uint64_t all_ns = !thread    ? PROFILE_ABSENT
			  : runnable ? thread->runnable_ns
				     : thread->blocked_ns;
	double sum = 0;

	for (size_t i = 0; i < blocked->count; i++)
		if (blocked->list[i].tid == d->driver->tid &&
		    runnable == (blocked->list[i].reason == PERFX_WAIT_RUNNABLE))
			sum += (double)blocked->list[i].ns;
	return sum > 0 && all_ns != PROFILE_ABSENT ? fmax((double)all_ns / sum, 1) : 1;
}

static void add_waits(struct division *d)
{
	const struct profile_activities *blocked = &d->contexts.process->blocked;
	double growths[] = {growth(d, false), growth(d, true)};

	FOR_EACH_OF (wait, *blocked)
		if (wait->tid == d->driver->tid)
			divide_wait(d, wait,
				    (double)activity_judged_ns(wait) *
					    growths[wait->reason == PERFX_WAIT_RUNNABLE]);
}

/* More waiting than the samples could have missed: its reason is unknown. */
#define DEVIATIONS 4

/* When the budget has removed the probe at a call's begin, samples in the call have the context of
 * its caller. */
static double misplaced_ns(const struct division *d)
{
	double ns = 0;

	for (size_t i = 0; i < d->strata_count; i++)
		ns += fmax(d->strata[i].waits_ns - driver_time(d, &d->strata[i]), 0);
	return ns;
}

static void add_running(struct division *d, const struct stratum *stratum)
{
	double ns = fmax(driver_time(d, stratum) - stratum->waits_ns, 0), all = 0;

	for (int c = 0; c < TIME_CLASSES; c++)
		all += stratum->running[c];
	if (all > 0)
		ns = fmin(ns, all + DEVIATIONS * sqrt(stratum->squares));
	if (all <= 0) {
		double waited_ns = fmin(ns, d->misplaced_ns);

		d->misplaced_ns -= waited_ns;
		d->time->ns[stratum->class] += ns - waited_ns;
	}
	for (int c = 0; c < TIME_CLASSES && all > 0; c++) {
		double part = stratum->running[c] / all;

		d->time->ns[c] += ns * part;
		/* variances, until the end */
		d->time->error_ns[c] +=
			ns * ns * part * (1 - part) / fmax(stratum->samples_count, 1);
		if (c == TIME_INPUT) {
			d->time->batch_ns += ns * part;
			d->time->batch_own_ns += ns * part;
		}
	}
}

/* Operators that other threads run while this thread waits for a result, for an unknown reason. */
static void move_awaited(struct division *d)
{
	double others = 0, awaited = d->waits[TIME_OTHER];

	for (size_t i = 1; i < d->strata_count; i++) {
		const struct stratum *stratum = &d->strata[i];

		if (stratum->classified && stratum->is_call && stratum->class == TIME_COMPUTE)
			others += stratum->exact_ns - driver_time(d, stratum);
	}
	awaited = fmin(awaited, others);
	d->time->ns[TIME_OTHER] -= awaited;
	d->time->ns[TIME_COMPUTE] += awaited;
}

static void move_to_input(struct division *d, enum time_class from, double *fed)
{
	double ns = fmin(*fed, d->waits[from]);

	*fed -= ns;
	d->waits[from] -= ns;
	d->time->ns[from] -= ns;
	d->time->ns[TIME_INPUT] += ns;
	d->time->batch_ns += ns;
}

/* A step that TensorFlow runs takes its batch on a thread of the pool; the driver waits for it. */
static void move_fed(struct division *d)
{
	double fed = (double)pipeline_ns(d->contexts.process, d->driver->tid, true);

	move_to_input(d, TIME_OTHER, &fed);
	move_to_input(d, TIME_COMPUTE, &fed);
}

/* Scales the times of the recording to a step; time without a class is TIME_OTHER. */
static void to_unit(struct step_time *time, double wall_ns)
{
	double sum = 0, scale;

	for (int c = 0; c < TIME_CLASSES; c++)
		sum += time->ns[c];
	time->ns[TIME_OTHER] += fmax(wall_ns - sum, 0);
	scale = time->unit_ns / fmax(wall_ns, sum);
	for (int c = 0; c < TIME_CLASSES; c++) {
		time->ns[c] *= scale;
		time->error_ns[c] = sqrt(time->error_ns[c]) * scale;
	}
	time->batch_ns *= scale;
	time->batch_own_ns *= scale;
	time->batch_own_waits_ns *= scale;
	time->batch_runnable_ns *= scale;
}

static void set_exact(struct division *d)
{
	const struct profile_process *process = d->contexts.process;
	const struct profile_untraced *untraced = &process->untraced;

	/* little is traced before the first step */
	d->strata[0].exact_ns =
		untraced->tid == d->driver->tid
			? fmax((double)untraced->self_ns - (double)process->steps.outside_ns, 0)
			: -1.0;
	for (size_t i = 0; i < process->contexts_count; i++)
		d->strata[i + 1].exact_ns = (double)process->contexts[i].self_ns;
}

int step_time_find(struct step_time *time, const struct profile *profile,
		   const struct profile_process *process, const struct driver *driver)
{
	const struct profile_steps *steps = &process->steps;
	struct division d = {
		.driver = driver, .strata_count = process->contexts_count + 1, .time = time};
	int err = contexts_begin(&d.contexts, profile, process);

	*time = (struct step_time){.unit_ns = steps->count && steps->avg_ns ? (double)steps->avg_ns
									    : 1e9};
	d.strata = err ? NULL : calloc(d.strata_count, sizeof(*d.strata));
	if (!d.strata) {
		contexts_clear(&d.contexts);
		return -ENOMEM;
	}
	set_exact(&d);
	for (size_t i = 0; i < process->contexts_count; i++)
		stratum_of(&d, process->contexts[i].id);
	stratum_of(&d, 0);
	add_samples(&d);
	add_waits(&d);
	d.misplaced_ns = misplaced_ns(&d);
	for (size_t i = 0; i < d.strata_count; i++) {
		time->known |= driver_time(&d, &d.strata[i]) > 0;
		add_running(&d, &d.strata[i]);
	}
	move_fed(&d);
	move_awaited(&d);
	to_unit(time, (double)driver->judged_ns);
	free(d.strata);
	contexts_clear(&d.contexts);
	return 0;
}
