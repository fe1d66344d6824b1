/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The class of a wait in the account of time, by its reason, object and stack.
 */
#ifndef PERFX_ANALYZE_WAIT_CLASS_H
#define PERFX_ANALYZE_WAIT_CLASS_H

#include "analyze/context.h"

/* The classes of a thread's time, which exclude each other. */
enum account_class {
	ACCOUNT_COMPUTING = 0,
	ACCOUNT_SPINNING, /* on a CPU, only polling for another thread or an event */
	ACCOUNT_JOIN,	  /* waiting for its own working threads or children */
	ACCOUNT_GIL,
	ACCOUNT_LOCK, /* for a lock that another thread holds; not for conditions or queues */
	ACCOUNT_INPUT,
	ACCOUNT_OUTPUT,
	ACCOUNT_DISK,
	ACCOUNT_SLEEP,
	ACCOUNT_CHILD,
	ACCOUNT_OTHER, /* for a condition or a device, or in a traced call: no fault by itself */
	ACCOUNT_RUNNABLE,
	ACCOUNT_STOPPED,
	ACCOUNT_UNKNOWN,
	ACCOUNT_CLASSES
};
/* In JSON: "computing". In reports: "waiting for the disk". */
const char *account_class_name(enum account_class class);
const char *account_class_words(enum account_class class);

/* Does the thread wait in an event loop, for a timer or another thread of the process? */
bool wait_is_for_own_events(const struct profile_activity *wait);
/* The class by the wait's reason, object and stack, whether the wait is in a traced call or not. */
enum account_class wait_class(const struct profile_activity *wait);
/* For a thread that prepares data: is this sleep or read part of the work? False where it waits for
 * another thread or process to prepare them. */
bool wait_prepares(const struct profile_activity *wait);
/* As wait_class_of(), but INPUT inside a data loader's next batch, and OTHER in a traced call that
 * waits for its own work. */
enum account_class wait_class_of(const struct contexts *contexts,
				 const struct profile_activity *wait);
/* The class of one sample of a wait, by the rules of wait_class_of(). */
enum account_class class_of_sample(const struct contexts *contexts,
				   const struct profile_activity *sample);
/* Share of its time. A thread that spends less on the data for which it waits does not work on
 * them. */
#define FEED_OWN_SHARE 0.05

/* Waits that may be a join:
 *
 *	JOIN	by their stack they are for threads or children
 *	NAP	sleeps, and waits for events that the process's own threads may raise
 *	FEED	of data, from own threads (a queue) or from others: a join only where the thread
 *		does nothing with the data, and the others work all the time
 *	POOL	for its own workers, which it gives work by a queue that is full, or which tell a
 *		package how far they are: a join however little of its time that is
 */
enum join_candidate {
	CANDIDATE_NONE = 0,
	CANDIDATE_JOIN,
	CANDIDATE_NAP,
	CANDIDATE_FEED,
	CANDIDATE_POOL,
	CANDIDATES
};

enum join_candidate join_candidate_of(const struct contexts *contexts,
				      const struct profile_activity *wait,
				      enum account_class class);
/* Does it wait for a child process to end, or for output of a child that ends? */
bool wait_is_for_child(const struct profile_activity *wait);
/* Was the sample taken in this wait? */
bool sample_is_of(const struct profile_activity *sample, const struct profile_activity *wait);
/* The stack of most samples of a wait; NULL: unknown. */
const struct profile_frame *wait_place(const struct profile_process *process,
				       const struct profile_activity *wait);

/* Does it wait for a file that another process has locked? */
bool wait_is_for_file_lock(const struct profile_activity *wait);
/* Does it lock or unlock a mutex? */
bool stack_is_at_mutex(const struct profile_stack *stack);

/* The Python function that runs or waits; otherwise the innermost native one outside of libc. NULL:
 * it has no name. */
const struct profile_frame *stack_place(const struct profile_stack *stack);

#endif
