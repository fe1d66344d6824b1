/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the profile (aggregate/profile.h) that is about the steps of a training, as its
 * ranges show them. A step lasts from the end before it to its own end. The first end that is seen
 * makes no step, for the recording began within that one; but where the range is the step itself,
 * its begin is seen. What ends a step is, where there are several, the first of
 *
 *	a range that the user named (--step-range), or that the program marks as a step
 *	PyTorch's range of an optimizer's step
 *	a call that is a step: a round of boosting, a run of a TensorFlow session
 *	a backward pass (torch::autograd::Engine::execute), where ranges have no names
 *	a call that is a unit of inference
 *	where nothing of these is seen: a call that comes back periodically (period.h)
 *
 * and of several of a kind the one that ends least often: several optimizers.
 *
 * A step's time is divided by what its thread was in, the first of these that holds:
 *
 *	optimizer  a range of an optimizer: its step, its zero_grad
 *	backward   a backward pass
 *	data       the next batch of a DataLoader
 *	forward    traced functions and ranges between the data and the backward pass that follows;
 *	           without data, those before each backward pass
 *	other      traced functions and ranges elsewhere
 *	untraced   the rest, in which nothing that is traced ran on the thread: Python, what no
 *	           probe sees. So the parts add up to the steps' time.
 *
 * Where backward passes end the steps, and no data is seen, forward is not distinguished from the
 * rest. An optimizer's step that calls a closure is optimizer only after the last backward pass in
 * it.
 *
 * Operations are those of all calls of the process, whichever thread they ran on, that ended in the
 * step; where calls are steps, and others of another function came between two of them (Keras
 * evaluates), what that step computed is not known. Calls that came by the overflow sums have no
 * time and are in no step.
 */
#ifndef PERFX_AGGREGATE_PROFILE_STEPS_H
#define PERFX_AGGREGATE_PROFILE_STEPS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum profile_phase {
	PROFILE_PHASE_OTHER = 0,
	PROFILE_PHASE_FORWARD,
	PROFILE_PHASE_DATA,
	PROFILE_PHASE_BACKWARD,
	PROFILE_PHASE_OPTIMIZER,
	PROFILE_PHASE_UNTRACED,
	PROFILE_PHASES
};

/* As they come in a step. */
static const enum profile_phase profile_phases_in_order[PROFILE_PHASES] = {
	PROFILE_PHASE_DATA,	 PROFILE_PHASE_FORWARD, PROFILE_PHASE_BACKWARD,
	PROFILE_PHASE_OPTIMIZER, PROFILE_PHASE_OTHER,	PROFILE_PHASE_UNTRACED};

static inline const char *profile_phase_name(enum profile_phase phase)
{
	static const char *const names[] = {"other",	"forward",   "data",
					    "backward", "optimizer", "untraced"};

	return names[phase];
}

/* Steps that follow each other: one or, where there are more than PROFILE_STEPS_MAX, 2, 4, 8, … */
#define PROFILE_STEPS_MAX 2048

struct profile_step {
	uint64_t count;
	/* Of these: with a known cost, with phases of which all were measured, with known waits. */
	uint64_t computed_count, divided_count, waited_count;
	uint64_t from_ns, to_ns;	 /* of the first, of the last; CLOCK_MONOTONIC */
	uint64_t total_ns, max_ns;	 /* max_ns: of the longest */
	uint64_t phases[PROFILE_PHASES]; /* ns */
	uint64_t flops;
	uint64_t off_cpu_ns; /* in traced calls of the steps' thread, while that waited */
};

/* The last steps one by one, however many there are: at most PROFILE_STEP_TIMES_MAX. */
#define PROFILE_STEP_TIMES_MAX 16384

struct profile_step_time {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	uint64_t phases[PROFILE_PHASES];
};

/* Steps in which every function was timed that had been timed before: their phases are whole. In
 * others what the overhead budget left out is taken for untraced. */
struct profile_step_division {
	uint64_t count, ns;
	uint64_t phases[PROFILE_PHASES]; /* sums over these steps, ns; they add up to `ns` */
};

/* What was computed in steps. */
struct profile_step_cost {
	/* Of how many steps, and how long they took: all but those in which something was not
	 * measured, in which the overhead budget changed probes, or in which an evaluation ran. */
	uint64_t steps_count, ns;
	uint64_t flops, thread_flops; /* thread_flops: by calls on the steps' own thread */
	enum perfx_dtype dtype;	      /* of most of them */
	/* Calls by what is known of their work (enum perfx_cost_state). */
	uint64_t counted_count, unread_count, opaque_count;
};

/* What devices did for them. PROFILE_ABSENT: not recorded. */
struct profile_step_gpu {
	uint64_t busy_ns, kernels_count;
	uint64_t wait_ns; /* of the steps' thread, for devices */
	/* It computes what is known of the calls' operations: the devices' peak counts for MFU, not
	 * the host's; 0: not known. */
	bool computes;
	double peak_flops_per_s;
};

/* What ends them, the weakest first. */
enum profile_steps_by {
	PROFILE_STEPS_BY_PERIOD = 0,
	PROFILE_STEPS_BY_INFERENCE,
	PROFILE_STEPS_BY_BACKWARD,
	PROFILE_STEPS_BY_CALL,
	PROFILE_STEPS_BY_OPTIMIZER,
	PROFILE_STEPS_BY_RANGE,
};

/* Of JSON. */
static inline const char *profile_steps_by_name(enum profile_steps_by by)
{
	static const char *const names[] = {"period", "inference", "backward",
					    "call",   "optimizer", "range"};

	return names[by];
}

/* Steps of a whole recording, also those that ended before the profile begins (replay/keyframe.h).
 */
struct profile_step_sums {
	uint64_t ends_count; /* also of steps that are not whole */
	uint64_t count, total_ns, flops;
	uint64_t phases[PROFILE_PHASES]; /* ns */
};

struct profile_steps {
	uint64_t ends_count; /* seen; 0: no steps are known, and nothing below is */
	/* No steps are known as so many threads repeat calls of a function, as a server's pool
	 * does; 0: there are no such threads. */
	uint32_t repeating_threads, repeated;
	uint64_t count;	   /* whole steps; 0: what is known of steps' times is not either */
	uint64_t first_ns; /* the first range of their thread; CLOCK_MONOTONIC */
	/* Recorded before the first step of a process that started in the recording: imports and
	 * set-up. 0: it ran before. */
	uint64_t startup_ns;
	/* Start-up, and what an ended process did after its last step: no part of a step. 0 also
	 * where it is not known which samples are of that time. */
	uint64_t outside_ns;
	enum profile_steps_by found_by;
	double confidence; /* 0 to 1 that these are steps; 1 but for a period */
	uint32_t function; /* whose ends they are */
	uint32_t context;  /* and in which calling context; 0: in all */
	uint32_t tid;	   /* on which thread */
	uint64_t total_ns, avg_ns, p50_ns, p95_ns, max_ns;
	double stddev_ns; /* of the population */
	/* Sums over the steps, ns. Data, backward and optimizer are those of their ranges, which
	 * the overhead budget leaves (but see backward_until_ns); the others are known in `divided`
	 * alone. */
	uint64_t phases[PROFILE_PHASES];
	struct profile_step_division divided;
	/* When the overhead budget reduced the first probe that phases and costs rest on; 0: it did
	 * not. */
	uint64_t times_until_ns, costs_until_ns;
	uint64_t backward_until_ns; /* likewise, of the probes that time backward passes */
	/* The same where the optimizer calls backward passes: its own time is unknown then, too. */
	uint64_t optimizer_until_ns;
	/* When it stopped tracing the calls that end steps, with the probes of ended_with; 0: it
	 * did not. Where most of the process's time is after that, no steps are known. */
	uint64_t ended_ns;
	uint32_t ended_with;
	/* Steps with known waits; off_cpu_ns: their sum, PROFILE_ABSENT: not measured. */
	uint64_t waited_count, waited_ns, off_cpu_ns;
	struct profile_step_cost cost;
	const struct profile_step *series; /* in order */
	size_t series_count;
	bool gpu_used; /* otherwise `gpu` says nothing */
	struct profile_step_gpu gpu;
	uint64_t series_each; /* steps in each but the last */
	const struct profile_step_time *times;
	size_t times_count;
	/* In order of time, of the time of `times` (profile.h); owned. */
	struct profile_step_sample *samples;
	size_t samples_count;
	/* Known also where count is 0. None yet while they are those of a period that further calls
	 * may disprove. */
	struct profile_step_sums run;
};

/* The measured steps stand for all if their mean differs from the mean of all by this share at
 * most. */
#define STEPS_TYPICAL 0.10

/* Do these steps take about as long as all of them? The first ones do not where tracing slowed them
 * down until the overhead budget reduced it: then their times say nothing of the others. */
static inline bool steps_are_typical(const struct profile_steps *steps, uint64_t count, uint64_t ns)
{
	double all_ns = steps->count ? (double)steps->total_ns / (double)steps->count : 0;
	double apart_ns = count ? (double)ns / (double)count - all_ns : 0;

	return count && apart_ns <= STEPS_TYPICAL * all_ns && -apart_ns <= STEPS_TYPICAL * all_ns;
}

/* The mean time of a step in a phase. < 0: not known, because the overhead budget stopped timing
 * functions before the first whole step ended. */
static inline double steps_phase_ns(const struct profile_steps *steps, enum profile_phase phase)
{
	bool is_range = phase == PROFILE_PHASE_DATA ||
			(phase == PROFILE_PHASE_OPTIMIZER && !steps->optimizer_until_ns) ||
			(phase == PROFILE_PHASE_BACKWARD && !steps->backward_until_ns);

	if (steps->divided.count)
		return (double)steps->divided.phases[phase] / (double)steps->divided.count;
	return is_range && steps->count ? (double)steps->phases[phase] / (double)steps->count : -1;
}

/* That time as a share of the step; < 0: not known. */
static inline double steps_phase_share(const struct profile_steps *steps, enum profile_phase phase)
{
	uint64_t count = steps->divided.count ? steps->divided.count : steps->count,
		 ns = steps->divided.count ? steps->divided.ns : steps->total_ns;
	double phase_ns = steps_phase_ns(steps, phase);

	return ns && phase_ns >= 0 ? phase_ns * (double)count / (double)ns : -1;
}

/*
 * The same steps with and without probes: UNPROBED_STEPS records. Times are medians. Of the process
 * that bears most of the probes' hits.
 */
struct profile_observed {
	uint64_t steps_without, steps_with; /* counts */
	uint64_t without_ns, with_ns;	    /* a step; without_ns 0: not observed */
	uint32_t function; /* from one end of its calls to the next, in place of steps; 0 */
	/* The part of the difference that may be chance, in percent of a step without probes: how
	 * much those differ among themselves, how much the speed changed during the recording, and
	 * how long the thread waited for a CPU. */
	double noise_percent;
};

/* By how much steps took longer while they were traced; it is < 0 where they took less. */
static inline double profile_observed_percent(const struct profile_observed *observed)
{
	return 100 * ((double)observed->with_ns / (double)observed->without_ns - 1);
}

/* Did they take longer, by more than chance explains? Otherwise the difference says nothing. */
static inline bool profile_observed_slower(const struct profile_observed *observed)
{
	return observed->without_ns && profile_observed_percent(observed) > observed->noise_percent;
}

#endif
