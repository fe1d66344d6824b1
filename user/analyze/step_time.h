/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the time of a step goes: that of the thread that drives the process (driver.h), divided
 * into classes that exclude each other and add up to it. Without steps, that of a second.
 *
 * Three sources, the exact ones first:
 *
 *	the self time of each calling context, and the time outside of all of them	exact
 *	what the thread waited for, and how long it had no CPU				exact
 *	samples: in which context a wait was, and what ran in a context		estimates
 *
 * So samples only divide what is known exactly: n of them in a context whose time is t, of which a
 * part p is Python, leave an error of t √(p (1 − p) / n) and not that of the whole time.
 */
#ifndef PERFX_ANALYZE_STEP_TIME_H
#define PERFX_ANALYZE_STEP_TIME_H

#include "aggregate/profile.h"

struct driver;

enum time_class {
	TIME_COMPUTE =
		0,   /* in traced operators, or while other threads run operators for this one */
	TIME_NATIVE, /* native code outside of traced calls */
	TIME_PYTHON, /* the interpreter, outside of traced calls */
	TIME_INPUT,  /* waits for the next batch, or prepares it itself */
	TIME_GIL,
	TIME_LOCK,
	TIME_DISK,
	TIME_OUTPUT,
	TIME_CHILD,
	TIME_SLEEP,
	TIME_LAUNCH,
	TIME_GPU_SYNC,
	TIME_COMMUNICATION,
	TIME_RUNNABLE, /* runnable, without a CPU */
	TIME_OTHER,
	TIME_CLASSES
};

struct step_time {
	double unit_ns; /* an average step; without steps, one second */
	double ns[TIME_CLASSES],
		error_ns[TIME_CLASSES]; /* times in a step; their standard errors */
	/* Parts of TIME_INPUT in a data loader's next batch: all of it; the thread itself runs; the
	 * thread itself sleeps, reads or waits for a disk to prepare the batch. */
	double batch_ns, batch_own_ns, batch_own_waits_ns;
	double batch_runnable_ns; /* of TIME_RUNNABLE, there */
	bool known;		  /* false: there are neither calls nor samples of the thread */
};

/* 0 or -ENOMEM. */
int step_time_find(struct step_time *time, const struct profile *profile,
		   const struct profile_process *process, const struct driver *driver);

#endif
