/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the thread that drives a process does with its time: how much of it runs Python, and what it
 * waits for, where. Pure functions of the profile.
 *
 * The driver is the thread that runs the steps; without steps the one that the report follows
 * outside of traced calls (profile_untraced), else the main thread. Threads of a pool wait most of
 * the time by design, so of other threads nothing is said.
 *
 * Waits are exact sums, of which samples say where they were; running Python is known by samples
 * alone. What happens in a traced call, such as the waiting in a synchronization, is that call's:
 * only time outside of traced calls counts here; a range is not a call.
 */
#ifndef PERFX_ANALYZE_DRIVER_H
#define PERFX_ANALYZE_DRIVER_H

#include "aggregate/profile.h"
#include "analyze/stack_kind.h"
#include "base/grow.h"
#include "base/text.h"

/* The Python function that leads, by its hottest line; of a stack without Python a native one. */
struct place {
	const struct profile_frame *frame; /* NULL: not known */
	uint64_t ns;			   /* of the function, all of its lines */
};

/* Of sampled time. */
struct sampled {
	uint64_t ns, count;
	double error_ns; /* standard error of ns */
	struct place lead;
};

enum wait_kind {
	WAIT_UNJUDGED =
		0, /* for a condition, a device, a CPU, in a traced call: no fault by itself */
	WAIT_GIL,
	WAIT_LOCK, /* that another thread has: no condition, no queue */
	WAIT_INPUT,
	WAIT_OUTPUT,
	WAIT_DISK,
	WAIT_SLEEP,
	WAIT_CHILD,
	WAIT_KINDS
};

struct driver_wait {
	uint64_t ns, count, max_ns;
	const struct profile_activity *most; /* the object that took most of it; NULL: ns is 0 */
	uint64_t most_ns;		     /* of that object, whoever held it */
	const struct profile_frame *place;   /* where that was; NULL: not known */
	/* Sampled: in the system calls of that function while it ran, which go with the waits: a
	 * write that waits for a disk also copies. WAIT_DISK alone. */
	uint64_t running_ns;
};

/* The largest part of running Python that is the program's own: from a function on which is mostly
 * there for it, with the native code that it calls outside of traced calls (NumPy). */
struct own_python {
	const struct profile_frame *function; /* the outermost such; NULL: there is none */
	struct place lead;		      /* the hottest in it */
	uint64_t ns; /* of all in it; of `lead` alone, where that is less */
};

struct driver {
	uint32_t tid;
	uint64_t wall_ns;
	double part; /* of its interval that a sample of the thread stands for while it runs */
	struct sampled python;	   /* in the interpreter, no traced call open */
	struct sampled marked;	   /* the part of it in ranges */
	struct sampled data;	   /* the part of it that prepares the next batch */
	struct sampled collecting; /* garbage, wherever: no part of it */
	struct sampled outside;	   /* whatever runs outside of traced calls, but for the batch */
	struct own_python own;
	struct driver_wait waits[WAIT_KINDS];
	/* of whatever kind, but for a CPU; NULL: none is known */
	const struct profile_activity *longest;
	const struct profile_frame *longest_place; /* NULL: not known */
	uint64_t runnable_ns;			   /* without a CPU */
	uint64_t gil_ns;			   /* all threads of the process, for the GIL */
};

/* 0 or -ENOMEM. */
int driver_find(struct driver *driver, const struct profile *profile,
		const struct profile_process *process);

/* Where threads of a process run Python, outside of traced calls: all but the one given (0: all).
 */
int sampled_python(struct sampled *sampled, const struct profile *profile,
		   const struct profile_process *process, uint32_t but_tid);
/* The same of one thread, in whatever it runs on a CPU. */
struct place thread_place(const struct profile_process *process, uint32_t tid);
/* Where most samples of a wait were; NULL: not known. */
const struct profile_frame *wait_place(const struct profile_process *process,
				       const struct profile_activity *wait);

/* A range, or what has no name in PyTorch 1.13 (plan/annotations.c): it does no work itself. */
bool function_is_marker(const struct profile_function *function);

/* --- what samples and waits mean --- */

/* The calling contexts of a process, by id. Borrows. */
struct contexts {
	const struct profile *profile;
	const struct profile_process *process;
	struct map64 places;  /* id → process->contexts[] */
	struct map64 batches; /* functions in which a data loader's next batch is fetched */
};

/* 0 or -ENOMEM; to be cleared in both cases. */
int contexts_begin(struct contexts *contexts, const struct profile *profile,
		   const struct profile_process *process);
void contexts_clear(struct contexts *contexts);
/* NULL: 0, or not known. */
const struct profile_context *context_of(const struct contexts *contexts, uint32_t id);
/* Is a traced call the innermost? A range is none. */
bool context_is_call(const struct contexts *contexts, uint32_t id);
/* Is it in a range of a data loader's next batch? */
bool context_is_data(const struct contexts *contexts, uint32_t id);

/* By its reason, object and stack, whether it is in a call or not. */
enum wait_kind wait_kind_of(const struct profile_activity *wait);
/* Was the sample taken in this wait? */
bool sample_is_of(const struct profile_activity *sample, const struct profile_activity *wait);

/* --- lines, for other rules --- */

/* Sums by line. The first are the most frequent ones: rows of samples are in that order. */
#define LINES_MAX 256

struct lines {
	struct place lines[LINES_MAX];
	size_t count;
};

/* frame may be NULL. */
void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns);
/* Of the function with the most time the line with the most. */
struct place lines_lead(const struct lines *lines);

#endif
