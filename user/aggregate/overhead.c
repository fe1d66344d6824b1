// SPDX-License-Identifier: BSD-2-Clause
/* The cost of tracing: estimated from the hits and the cost of a hit, and observed by steps with
 * and without probes. */
#include "aggregate/calls.h"
#include "aggregate/steps.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>

struct overhead {
	struct profile_probe *probes;
	size_t probes_capacity, probes_count;
	struct map64 probe_ids; /* id → probes[] */
	struct perfx_calibration *calibrations;
	size_t calibrations_capacity, calibrations_count;
	struct perfx_unprobed_steps *unprobed_steps;
	size_t unprobed_steps_capacity, unprobed_steps_count;
	uint64_t samples_cost_ns, waits_cost_ns; /* BACKGROUND records */
};

/* An estimated cost may exceed the time that there was: then next to nothing was the program's. */
#define COST_SHARE_MAX 0.99

/* time_ns contains the cost. */
static double slowdown_percent(double cost_ns, double time_ns)
{
	double share = cost_ns < time_ns * COST_SHARE_MAX ? cost_ns / time_ns : COST_SHARE_MAX;

	return 100 * share / (1 - share);
}

/* How long a process did not wait for a CPU: its threads wait for one another, too. */
static double served_ns(const struct profile_process *process)
{
	double ns = (double)profile_wall_ns(process);

	FOR_EACH (thread, process->threads)
		if (thread->runnable_ns != PROFILE_ABSENT)
			ns -= (double)thread->runnable_ns;
	return fmax(ns, 0);
}

static double cpu_ns(const struct profile_process *process)
{
	return process->cpu_ns == PROFILE_ABSENT ? 0 : (double)process->cpu_ns;
}

/* The slowdown of all processes together, in percent: by work that all of their threads cause, and
 * where the threads' times are not known, for example because processes live for less than a
 * sampling interval. Assumes that processes need a CPU for the share of their lives in which they
 * had one. -1: the CPU time of a process that was hit is not known. */
static double slowdown_of_all(const struct profile *p, double cost_ns)
{
	double all_cpu_ns = 0, all_served_ns = 0;

	FOR_EACH (process, p->processes) {
		if (process->cpu_ns != PROFILE_ABSENT) {
			all_cpu_ns += cpu_ns(process);
			all_served_ns += served_ns(process);
		} else if (process->seen_hits_count && p->overhead_ns > 0) {
			return -1;
		}
	}
	return all_cpu_ns > 0 ? slowdown_percent(cost_ns, fmax(all_cpu_ns, all_served_ns)) : -1;
}

/* The first of them where no hits were counted by process. */
static const struct profile_process *most_hit_process(const struct profile *p)
{
	const struct profile_process *most = NULL;

	FOR_EACH (process, p->processes)
		if (!most || process->seen_hits_count > most->seen_hits_count)
			most = process;
	return most;
}

static double hits_of_all(const struct profile *p)
{
	double hits_count = 0;

	FOR_EACH (process, p->processes)
		hits_count += (double)process->seen_hits_count;
	return hits_count;
}

static const struct profile_thread *most_hit_thread(const struct profile_process *process)
{
	const struct profile_thread *most = NULL;

	FOR_EACH (thread, process->threads)
		if (!most || thread->hits_count > most->hits_count)
			most = thread;
	return most;
}

/* How long a process waits for the tracer, in percent of its own time. While all CPUs are busy, the
 * tracer runs in place of some program: of this one as often as it has a CPU. Threads that work
 * together wait for the one that is late. */
static double tracer_wait(const struct profile *p, const struct profile_process *process,
			  double own_ns)
{
	double cpus_ns = (double)p->cpus_count * (double)p->duration_ns;

	if (p->host_busy_ns == PROFILE_ABSENT || process->cpu_ns == PROFILE_ABSENT ||
	    !(cpus_ns > 0))
		return 0;
	return 100 * (double)p->recording_cpu_ns * fmin((double)p->host_busy_ns / cpus_ns, 1) *
	       fmin((double)process->cpu_ns / cpus_ns, 1) / own_ns;
}

/* The share of its time in which a thread did not wait for a CPU; 1: not known. */
static double served_share(const struct profile_thread *thread)
{
	if (!thread || !thread->wall_ns || thread->wall_ns == PROFILE_ABSENT ||
	    thread->runnable_ns >= thread->wall_ns)
		return 1;
	return 1 - (double)thread->runnable_ns / (double)thread->wall_ns;
}

/*
 * The cost of its hits delays a thread, whether it computes or waits for others between them. Where
 * the process's threads take turns, the cost of all hits delays each of them. The time that a
 * thread waits for a CPU grows with the cost, so it is left out of the time that the cost is
 * divided by.
 */
static double slowdown_of_most_hit(struct profile *p)
{
	const struct profile_process *most = most_hit_process(p);
	const struct profile_thread *thread = most ? most_hit_thread(most) : NULL;
	double hits_count = hits_of_all(p), own_ns, thread_ns, process_ns;

	if (!(hits_count > 0) || !thread || !thread->hits_count || !thread->wall_ns ||
	    thread->wall_ns == PROFILE_ABSENT)
		return -1;
	/* threads that come and go take turns, and a part of their time alone is known */
	if (2 * thread->wall_ns < profile_wall_ns(most))
		return -1;
	own_ns = served_share(thread) * (double)thread->wall_ns;
	thread_ns = p->overhead_ns * (double)thread->hits_count / hits_count;
	process_ns = p->overhead_ns * (double)most->seen_hits_count / hits_count;
	p->tracer_wait_percent = tracer_wait(p, most, own_ns);
	return fmax(slowdown_percent(thread_ns, own_ns),
		    slowdown_percent(process_ns, fmax(cpu_ns(most), served_ns(most))));
}

static void fill_estimate(const struct overhead *overhead, struct profile *p)
{
	double background_percent;

	FOR_EACH (probe, overhead->probes) {
		if (probe->seen_hits_count > 0)
			probe->cost_ns = probe->seen_ns / probe->seen_hits_count;
		for (size_t i = 0; probe->cost_ns <= 0 && i < overhead->calibrations_count; i++) {
			const struct perfx_calibration *c = &overhead->calibrations[i];

			if (c->link == probe->link && c->ret == probe->ret &&
			    c->site == probe->site)
				probe->cost_ns = (double)c->cost_ps / 1000;
		}
		add_up(&p->hits_count, probe->hits_count);
		p->overhead_ns += (double)probe->hits_count * probe->cost_ns;
	}
	p->samples_cost_ns = overhead->samples_cost_ns;
	p->waits_cost_ns = overhead->waits_cost_ns;
	p->calibrations = overhead->calibrations;
	p->calibrations_count = overhead->calibrations_count;
	p->probes = overhead->probes;
	p->probes_count = overhead->probes_count;
	p->overhead_percent = -1;
	if (!(p->overhead_ns > 0) && p->hits_count)
		return;
	p->overhead_percent = slowdown_of_most_hit(p);
	if (p->overhead_percent < 0)
		p->overhead_percent = slowdown_of_all(p, p->overhead_ns);
	/* samples and the scheduler's tracepoints are of all threads */
	background_percent = slowdown_of_all(p, profile_cost_ns(p) - p->overhead_ns);
	if (p->overhead_percent >= 0 && background_percent > 0)
		p->overhead_percent += background_percent;
}

static int handle_calibration(struct aggregate *a, const struct event *event)
{
	return LIST_ADD(a->overhead->calibrations, event->calibration);
}

static int handle_unprobed_steps(struct aggregate *a, const struct event *event)
{
	return LIST_ADD(a->overhead->unprobed_steps, event->unprobed_steps);
}

/* A median of fewer steps says nothing. */
#define STEPS_MIN 3

/* Most shorter steps wait for no CPU: a thread that has one keeps it for some ms. */
#define SLICE_NS 10000000u

static double noise_percent(const struct profile *p, const struct perfx_unprobed_steps *without,
			    const struct profile_process *most, const struct steps_middle *with)
{
	const struct profile_observed *observed = &p->observed;
	double ratio = (double)observed->with_ns / (double)observed->without_ns;
	/* Two standard errors of a median of so many steps whose quartiles are so far apart: those
	 * that were seen without probes are few, and may all have been short ones. */
	double error_ns = 2 * 0.93 * (double)with->spread_ns / sqrt((double)without->steps_count);
	double served = served_share(profile_thread(most, without->tid));

	/* where it waits for a child (a data loader's worker), it waits for that one's CPU */
	FOR_EACH (child, p->processes)
		if (child->ppid == most->pid)
			served = fmin(served, served_share(profile_thread(child, child->pid)));
	if (observed->without_ns >= SLICE_NS)
		served /= 1 - fmin(without->cpu_wait_ppm, 999999) / 1e6;
	error_ns = root_of_squares(root_of_squares((double)without->noise_ns, error_ns),
				   (double)with->drift_ns);
	return 100 * root_of_squares(error_ns / (double)without->step_ns, ratio * (1 - served));
}

static void fill_observed(const struct aggregate *a, struct profile *p)
{
	const struct profile_process *most = most_hit_process(p);
	const struct perfx_unprobed_steps *best = NULL;
	struct profile_observed *observed = &p->observed;
	struct steps_middle with;

	if (!most)
		return;
	/* the most steps; those of the process that was hit most come first */
	FOR_EACH (steps, a->overhead->unprobed_steps) {
		bool is_of_most = steps->process == most->index;
		bool is_best_of_most = best && best->process == most->index;

		if (steps->step_ns && (!best || (is_of_most == is_best_of_most
							 ? steps->steps_count > best->steps_count
							 : is_of_most)))
			best = steps;
	}
	if (!best)
		return;
	/* most of the recording's steps were not seen to end where those without probes did */
	FOR_EACH (reduced, p->reduced)
		if (reduced->function == best->function && reduced->to == PERFX_REDUCED_REMOVED)
			return;
	with = steps_middle_of(a->steps, best->process, best->tid, best->function);
	observed->with_ns = with.median_ns;
	observed->steps_with = with.count;
	if (observed->steps_with < STEPS_MIN || !observed->with_ns)
		return;
	observed->steps_without = best->steps_count;
	observed->without_ns = best->step_ns;
	observed->noise_percent = noise_percent(p, best, most, &with);
	if (steps_of_process(a->steps, best->process).function != best->function)
		observed->function = best->function;
}

enum slowdown_agreement profile_slowdown_agreement(const struct profile *profile)
{
	double estimated = profile_estimated_percent(profile);
	double noise = profile->observed.noise_percent;
	double observed = profile_observed_percent(&profile->observed);
	double apart = fabs(fmax(observed, 0) - estimated);
	double near = fmax(PROFILE_AGREES_POINTS, PROFILE_AGREES_SHARE * fmax(observed, estimated));

	if (observed < -noise)
		return SLOWDOWN_NOT_OBSERVED;
	if (apart > fmax(near, noise))
		return SLOWDOWN_DISAGREES;
	return noise > near ? SLOWDOWN_IN_NOISE : SLOWDOWN_AGREES;
}

double profile_slowdown_percent(const struct profile *profile)
{
	const struct profile_observed *observed = &profile->observed;

	return profile_observed_slower(observed) ? profile_observed_percent(observed)
						 : profile_estimated_percent(profile);
}

/* From here on the program's own time is a small difference of large numbers. */
#define STEADY_PERCENT 100.0

/* Where a step without probes was timed, that is the program's own time. */
static void steady_estimate(struct profile *p)
{
	const struct profile_process *most = most_hit_process(p);
	const struct profile_thread *thread = most ? most_hit_thread(most) : NULL;
	double hits_count = hits_of_all(p), step_ns;

	if (!p->observed.without_ns || p->overhead_percent <= STEADY_PERCENT || !thread ||
	    !(hits_count > 0) || !thread->hits_count)
		return;
	step_ns = p->overhead_ns * (double)thread->hits_count / hits_count /
		  (double)p->observed.steps_with;
	p->overhead_percent =
		fmin(p->overhead_percent, 100 * step_ns / (double)p->observed.without_ns);
}

static int handle_probe_record(struct aggregate *a, const struct event *event)
{
	const struct perfx_probe_record *record = &event->probe_record;
	struct profile_probe *probe =
		MAP64_ITEM(a->overhead->probe_ids, record->probe, a->overhead->probes);
	struct profile_function *function;

	if (!probe)
		return -ENOMEM;
	*probe = (struct profile_probe){
		.id = record->probe,
		.function = record->function,
		.offset = record->offset,
		.link = record->link,
		.ret = record->ret,
		.site = record->site,
		.is_exit = record->is_exit,
		.hits_count = probe->hits_count,
		.seen_hits_count = probe->seen_hits_count,
		.seen_ns = probe->seen_ns,
		.cost_ns = (double)record->cost_ps / 1000,
	};
	function = function_at(a, record->function);
	if (function)
		function->ret = record->ret;
	return 0;
}

static int handle_hits(struct aggregate *a, const struct event *event)
{
	const struct perfx_hits *record = &event->hits;
	struct profile_probe *probe =
		MAP64_FIND(a->overhead->probe_ids, record->probe, a->overhead->probes);

	if (!probe)
		return undecoded(a);
	add_up(&probe->hits_count, record->hits_count);
	if (record->cost_ps) {
		probe->seen_hits_count += (double)record->hits_count;
		probe->seen_ns += (double)record->hits_count * (double)record->cost_ps / 1000;
	}
	return 0;
}

static int handle_background(struct aggregate *a, const struct event *event)
{
	const struct perfx_background *record = &event->background;

	add_up(&a->overhead->samples_cost_ns, record->samples_ns);
	add_up(&a->overhead->waits_cost_ns, record->waits_ns);
	return 0;
}

static int overhead_fill(struct finish_ctx *w)
{
	struct profile *p = w->profile;

	fill_estimate(w->a->overhead, p);
	fill_observed(w->a, p);
	steady_estimate(p);
	return 0;
}

static void overhead_clear(void *state)
{
	struct overhead *overhead = state;

	free(overhead->probes);
	map64_clear(&overhead->probe_ids);
	free(overhead->calibrations);
	free(overhead->unprobed_steps);
}

const struct part part_overhead = {
	PART_STATE(overhead),
	.add = {TAKES(PROBE, probe_record), TAKES(HITS, hits), TAKES(BACKGROUND, background),
		TAKES(CALIBRATION, calibration), TAKES(UNPROBED_STEPS, unprobed_steps)},
	.finish = overhead_fill,
	.clear = overhead_clear,
};
