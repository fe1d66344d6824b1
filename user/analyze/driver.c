// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/driver.h"

#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/grow.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>

static struct place running_place(const struct profile_process *process, uint32_t tid, bool others)
{
	struct lines lines = {0};

	FOR_EACH_OF (sample, process->samples)
		if ((sample->tid == tid) != others && sample->state != PERFX_SAMPLE_WAITING)
			lines_add(&lines, stack_place(sample->stack), sample->ns);
	return lines_lead(&lines);
}

struct place thread_place(const struct profile_process *process, uint32_t tid)
{
	return running_place(process, tid, false);
}

struct place other_threads_place(const struct profile_process *process, uint32_t tid)
{
	return running_place(process, tid, true);
}

/* Sums while they are gathered. */
struct sampling {
	struct sampled sampled;
	double part;	/* of its interval that a sample stands for */
	double squares; /* of the intervals */
	struct lines lines;
};

/* While there are steps. */
static uint64_t part_ns(const struct profile_activity *sample, double part)
{
	return (uint64_t)((double)activity_judged_ns(sample) * part);
}

static void sampling_add(struct sampling *sampling, const struct profile_activity *sample)
{
	uint64_t sample_ns = part_ns(sample, sampling->part);
	uint64_t count = activity_judged_count(sample);
	double ns = (double)sample_ns;

	if (!count)
		return;
	sampling->sampled.ns += sample_ns;
	sampling->sampled.count += count;
	sampling->squares += ns * ns / (double)count;
	lines_add(&sampling->lines, stack_place(sample->stack), sample_ns);
}

static struct sampled sampling_end(struct sampling *sampling)
{
	sampling->sampled.error_ns = sqrt(sampling->squares);
	sampling->sampled.lead = lines_lead(&sampling->lines);
	return sampling->sampled;
}

static bool runs_python(const struct contexts *contexts, const struct profile_activity *sample)
{
	return sample->state == PERFX_SAMPLE_ON_CPU && stack_runs_python(sample->stack) &&
	       !stack_collects_garbage(sample->stack) &&
	       !context_is_call(contexts, sample->context);
}

/* All that runs there: Python and its callees. */
static bool runs_outside(const struct driver *driver, const struct contexts *contexts,
			 const struct profile_activity *sample)
{
	return sample->tid == driver->tid && sample->state == PERFX_SAMPLE_ON_CPU &&
	       !context_is_call(contexts, sample->context) &&
	       !sample_is_of_batch(contexts, sample) && !stack_collects_garbage(sample->stack);
}

static void find_python(struct driver *driver, const struct contexts *contexts)
{
	const struct profile_activities *samples = &contexts->process->samples;
	const struct sampling none = {.part = driver->part};
	struct sampling python = none, marked = none, data = none, collecting = none;
	struct sampling outside = none, own = none, importing = none;

	FOR_EACH_OF (sample, *samples) {
		if (sample->tid != driver->tid)
			continue;
		if (stack_collects_garbage(sample->stack) && sample->state != PERFX_SAMPLE_RUNNABLE)
			sampling_add(&collecting, sample);
		if (runs_outside(driver, contexts, sample))
			sampling_add(&outside, sample);
		if (!runs_python(contexts, sample))
			continue;
		sampling_add(&python, sample);
		if (sample->context)
			sampling_add(&marked, sample);
		if (stack_has(sample->stack, CODE_IMPORT))
			sampling_add(&importing, sample);
		sampling_add(sample_is_of_batch(contexts, sample) ? &data : &own, sample);
	}
	driver->python = sampling_end(&python);
	driver->marked = sampling_end(&marked);
	driver->data = sampling_end(&data);
	driver->importing = sampling_end(&importing);
	driver->collecting = sampling_end(&collecting);
	driver->outside = sampling_end(&outside);
	driver->own.lead = sampling_end(&own).lead;
}

/* A function stands for its hottest callee if that callee has this share of its time, */
#define OWN_PART 0.50
/* and if the functions from it down to that callee have this share of it themselves. */
#define OWN_CHAIN 0.85
/* A caller that does hardly more is the better name. */
#define OWN_MORE 1.05
/* Callers that are tried: each takes a pass over the samples. */
#define OWN_CALLERS 16

/* From the hottest function outwards, in a stack. */
struct chain {
	const struct profile_stack *stack;
	size_t from, to;
};

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

	FOR_EACH_OF (sample, *samples) {
		const struct profile_frame *innermost;
		bool in_chain = false;

		if (!runs_outside(driver, contexts, sample) ||
		    !stack_has_function(sample->stack, outermost))
			continue;
		innermost = sample->stack->frames[stack_innermost_python(sample->stack)];
		for (size_t i = chain->from; i <= chain->to; i++)
			in_chain |= frame_is_same_function(chain->stack->frames[i], innermost);
		time.ns += part_ns(sample, driver->part);
		time.own_ns += in_chain ? part_ns(sample, driver->part) : 0;
	}
	return time;
}

/* Is what the function runs mostly Python of packages, which the program cannot write in another
 * way? */
static bool runs_packages(const struct driver *driver, const struct contexts *contexts,
			  const struct profile_frame *function)
{
	const struct profile_activities *samples = &contexts->process->samples;
	uint64_t packages_ns = 0, all_ns = 0;
	const char *package;

	FOR_EACH_OF (sample, *samples) {
		const struct profile_frame *innermost, *place;

		if (sample->tid != driver->tid || !runs_python(contexts, sample))
			continue;
		place = stack_place(sample->stack);
		if (!place || !frame_is_same_function(place, function))
			continue;
		innermost = sample->stack->frames[stack_innermost_python(sample->stack)];
		all_ns += sample->ns;
		if (innermost->of_package || location_package(innermost->file, &package))
			packages_ns += sample->ns;
	}
	return 2 * packages_ns > all_ns;
}

/* From the hottest function outwards, as long as that is most of it. */
static void find_own_python(struct driver *driver, const struct contexts *contexts)
{
	const struct profile_activities *samples = &contexts->process->samples;
	const struct profile_frame *lead = driver->own.lead.frame;
	struct chain chain = {0};
	unsigned tried = 0;

	if (!lead || !location_is_own_python(lead))
		return;
	driver->own.runs_packages = runs_packages(driver, contexts, lead);
	if (driver->own.runs_packages)
		return;
	driver->own.function = lead;
	driver->own.ns = driver->own.lead.ns;
	/* the stack that it has most often: samples are in the order of their time */
	for (size_t i = 0; i < samples->count && !chain.stack; i++)
		if (runs_outside(driver, contexts, &samples->list[i]) &&
		    stack_has_function(samples->list[i].stack, lead))
			chain.stack = samples->list[i].stack;
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

static void find_waits(struct driver *driver, const struct contexts *contexts,
		       const struct process_account *account)
{
	const struct profile_activities *blocked = &contexts->process->blocked;
	const struct account *thread = account_of_thread(account, driver->tid);
	uint64_t recorded_ns[ACCOUNT_CLASSES] = {0};
	double part;

	FOR_EACH_OF (wait, *blocked) {
		struct driver_wait *sum;
		enum account_class class;

		if (wait->reason == PERFX_WAIT_GIL)
			driver->gil_ns += wait->ns;
		if (wait->tid != driver->tid)
			continue;
		if (wait->reason == PERFX_WAIT_RUNNABLE) {
			driver->runnable_ns += activity_judged_ns(wait);
		} else if (!driver->longest) {
			driver->longest = wait;
			driver->longest_place = wait_place(contexts->process, wait);
		}
		class = account_wait_class(account, contexts, wait);
		recorded_ns[class] += wait->ns;
		if (wait->outside_ns == wait->ns)
			continue;
		sum = &driver->waits[class];
		if (!sum->most) {
			sum->most = wait;
			sum->place = wait_place(contexts->process, wait);
		}
		if (sum->most->object == wait->object)
			sum->most_ns += activity_judged_ns(wait);
		sum->ns += activity_judged_ns(wait);
		sum->count += activity_judged_count(wait);
		if (wait->max_ns > sum->max_ns)
			sum->max_ns = wait->max_ns;
	}
	/* where waits were recorded for a part of the time only, the account's samples supply the
	 * rest */
	for (size_t k = 0; k < ACCOUNT_CLASSES; k++) {
		struct driver_wait *wait = &driver->waits[k];

		if (!thread || profile_waits_are_whole(contexts->profile) || !recorded_ns[k] ||
		    thread->ns[k] <= recorded_ns[k])
			continue;
		part = (double)thread->ns[k] / (double)recorded_ns[k];
		wait->ns = (uint64_t)((double)wait->ns * part);
		wait->most_ns = (uint64_t)((double)wait->most_ns * part);
		wait->extended = true;
	}
}

int driver_find(struct driver *driver, const struct profile *profile,
		const struct profile_process *process, const struct process_account *account)
{
	const struct profile_thread *thread = profile_thread(process, account->tid);
	struct driver_wait *disk = &driver->waits[ACCOUNT_DISK];
	struct contexts contexts;
	int err = contexts_begin(&contexts, profile, process);
	uint64_t sampled_ns = 0;

	*driver = (struct driver){.tid = account->tid,
				  .wall_ns = profile_recorded_ns(profile, process)};
	driver->judged_ns = driver->wall_ns - process->steps.outside_ns;
	/* how long the thread was on a CPU is known exactly: samples divide that */
	FOR_EACH_OF (sample, process->samples)
		if (sample->tid == driver->tid && sample->state == PERFX_SAMPLE_ON_CPU)
			sampled_ns += sample->ns;
	driver->part = thread && thread->on_cpu_ns < sampled_ns
			       ? (double)thread->on_cpu_ns / (double)sampled_ns
			       : 1;
	if (!err) {
		find_python(driver, &contexts);
		find_own_python(driver, &contexts);
		find_waits(driver, &contexts, account);
		FOR_EACH_OF (sample, process->samples) {
			const struct profile_stack *stack = sample->stack;

			if (disk->place && sample->tid == driver->tid &&
			    sample->state != PERFX_SAMPLE_WAITING && stack && stack->frames_count &&
			    frame_is_system_call(stack->frames[0]) &&
			    frame_is_same_function(stack_place(stack), disk->place))
				disk->running_ns += activity_judged_ns(sample);
		}
	}
	contexts_clear(&contexts);
	return err;
}
