/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps that take longer than most: which they are, whether they come periodically, and what their
 * thread did in them that it did not do in the others. Pure functions of the profile.
 *
 * A step is slow that is so many times as long as the median, and so many deviations above it (by
 * the median distance from the median, which a few slow steps do not change). Slow steps are
 * periodic if they are those of every k-th, most of these, and if so many would hardly be there by
 * chance: `confidence`.
 *
 * What they did is known by samples and by the phases of a step. Of each place, what slow steps
 * have beyond as many other steps is extra; so are what they waited for, and collecting garbage.
 */
#ifndef PERFX_ANALYZE_SLOW_STEPS_H
#define PERFX_ANALYZE_SLOW_STEPS_H

#include "aggregate/profile.h"

#include <stdbool.h>

/* Below, neither a median nor a period says much. */
#define SLOW_STEPS_MIN	 10
#define SLOW_PERIODS_MIN 3

struct slow_limits {
	double least, deviations;
	double covered;	   /* of every k-th step, the share that is slow */
	double confidence; /* that the period is no chance */
};

struct slow_steps {
	uint64_t ordinary_ns; /* the median of all */
	uint64_t least_ns;    /* longer ones are slow */
	size_t only;	      /* ask for this one alone: its index in `times`, from 1; 0: for all */
	size_t steps_count, count;
	/* Every period-th, from the first one on (index in `times`); 0: they come irregularly. */
	size_t period, first;
	size_t periodic_count, expected_count; /* slow ones of these; all of these */
	double periodic_ns;		       /* beyond ordinary_ns, sum over these */
	double confidence;		       /* 0 to 1 that the period is no chance */
};

/* Causes of extra time in slow steps. */
enum slow_part {
	SLOW_RUNS = 0, /* on a CPU, whatever it runs there */
	SLOW_COLLECTS, /* the part of that in the garbage collector */
	SLOW_COMPILES, /* JAX, torch.compile: it runs or waits */
	SLOW_DISK,
	SLOW_FAULTS,  /* page faults that wait for a disk */
	SLOW_NO_CPU,  /* others have it */
	SLOW_STOPPED, /* by a signal, a debugger or a freezer */
	SLOW_GIL,
	SLOW_WAITS, /* for anything else */
	SLOW_PARTS
};

struct slow_cause {
	uint64_t samples_count;	  /* in slow steps */
	double extra_ns;	  /* sampled: of all slow steps, beyond ordinary ones */
	double parts[SLOW_PARTS]; /* of these; COLLECTS and COMPILES are in others as well */
	/* Of these, of the Python function that has most of them, by its hottest line: the
	 * outermost one that only slow steps enter, as an evaluation; without one the program's
	 * innermost. Of a stack without Python a native one. NULL: not known. */
	const struct profile_frame *place;
	double place_ns;
	bool place_is_new; /* only slow steps enter the function */
	/* The Python function that it calls there, mostly: one of the program's own that only slow
	 * steps enter, else a library's. NULL: none. */
	const struct profile_frame *callee;
	const struct profile_frame *caller; /* the program's own line, of a place that is not */
	const char *file;		    /* that it waits for; "": not known */
	const char *rival;		    /* that has the CPU; "": not known */
	double phases[PROFILE_PHASES];	    /* of the steps' time; exact */
};

/* 0 or -ENOMEM. Nothing is slow where there are too few steps. */
int slow_steps_find(struct slow_steps *slow, const struct profile_steps *steps,
		    const struct slow_limits *limits);
bool slow_steps_is_slow(const struct slow_steps *slow, const struct profile_step_time *step);
/* Is it one of every period-th? */
bool slow_steps_is_periodic(const struct slow_steps *slow, size_t index);

/* periodic: of the slow ones among every period-th; otherwise of all others that are slow. 0 or
 * -ENOMEM. */
int slow_steps_cause(struct slow_cause *cause, const struct slow_steps *slow,
		     const struct profile_process *process, bool periodic);

#endif
