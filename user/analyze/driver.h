/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the thread that drives a process spends its time: how much of it runs Python, and what it
 * waits for, where. Pure functions of the profile.
 *
 * The driver is the thread that runs the steps; without steps the one that the report follows
 * outside of traced calls (profile_untraced), else the main thread; where that only waits for the
 * others (account.h), the one of them that works. Threads of a pool wait most of the time by
 * design, so of other threads nothing is said.
 *
 * Waits are exact sums, of which samples say where they were; running Python is known by samples
 * alone. What happens in a traced call, such as the waiting in a synchronization, is that call's:
 * only time outside of traced calls counts here; a range is not a call.
 */
#ifndef PERFX_ANALYZE_DRIVER_H
#define PERFX_ANALYZE_DRIVER_H

#include "analyze/account.h"

/* A share of sampled time. */
struct sampled {
	uint64_t ns, count;
	double error_ns; /* standard error of ns */
	struct place lead;
};

struct driver_wait {
	uint64_t ns, count, max_ns;
	const struct profile_activity *most; /* the object that took most of it; NULL: ns is 0 */
	uint64_t most_ns;		     /* of that object, whoever held it */
	const struct profile_frame *place;   /* where that was; NULL: not known */
	/* Sampled: in the system calls of that function while it ran, which go with the waits: a
	 * write that waits for a disk also copies. ACCOUNT_DISK alone. */
	uint64_t running_ns;
	bool extended; /* ns and most_ns are by samples where waits were not recorded */
};

/* The largest part of running Python that is the program's own: from a function on which is mostly
 * there for it, with the native code that it calls outside of traced calls (NumPy). */
struct own_python {
	const struct profile_frame *function; /* the outermost such; NULL: there is none */
	struct place lead;		      /* the hottest in it */
	uint64_t ns;	    /* of all in it; of `lead` alone, where that is less */
	bool runs_packages; /* `lead` mostly runs Python of packages: there is no function */
};

struct driver {
	uint32_t tid;
	uint64_t wall_ns;
	/* The part from the first step to the last (profile_steps.outside_ns): the base of sampled
	 * shares and of `waits`. Without steps, all of it. */
	uint64_t judged_ns;
	double part; /* of its interval that a sample of the thread stands for while it runs */
	struct sampled python;	   /* in the interpreter, no traced call open */
	struct sampled marked;	   /* the part of it in ranges */
	struct sampled data;	   /* the part of it that prepares the next batch */
	struct sampled importing;  /* the part of it in imports of modules */
	struct sampled collecting; /* garbage, wherever: no part of it */
	struct sampled outside;	   /* whatever runs outside of traced calls, but for the batch */
	struct own_python own;
	struct driver_wait waits[ACCOUNT_CLASSES]; /* those that are waits */
	/* of whatever kind, but for a CPU; NULL: none is known */
	const struct profile_activity *longest;
	const struct profile_frame *longest_place; /* NULL: not known */
	uint64_t runnable_ns;			   /* without a CPU */
	uint64_t gil_ns;			   /* all threads of the process, for the GIL */
};

/* 0 or -ENOMEM. account: of the process. */
int driver_find(struct driver *driver, const struct profile *profile,
		const struct profile_process *process, const struct process_account *account);

/* Where threads of a process run Python, outside of traced calls: all but the one given (0: all).
 */
int sampled_python(struct sampled *sampled, const struct profile *profile,
		   const struct profile_process *process, uint32_t but_tid);
/* The same of one thread, in whatever it runs on a CPU. */
struct place thread_place(const struct profile_process *process, uint32_t tid);
/* All threads except one. */
struct place other_threads_place(const struct profile_process *process, uint32_t tid);

#endif
