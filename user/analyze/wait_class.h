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
	ACCOUNT_SPINNING, /* on a CPU, but only polling for another thread or an event */
	ACCOUNT_JOIN,	  /* for its own threads or children, which work meanwhile */
	ACCOUNT_GIL,
	ACCOUNT_LOCK, /* that another thread has: no condition, no queue */
	ACCOUNT_INPUT,
	ACCOUNT_OUTPUT,
	ACCOUNT_DISK,
	ACCOUNT_SLEEP,
	ACCOUNT_CHILD,
	ACCOUNT_OTHER, /* for a condition, a device, in a traced call: no fault by itself */
	ACCOUNT_RUNNABLE,
	ACCOUNT_STOPPED,
	ACCOUNT_UNKNOWN,
	ACCOUNT_CLASSES
};
/* "computing": of JSON. "waiting for the disk": of reports. */
const char *account_class_name(enum account_class class);
const char *account_class_words(enum account_class class);

/* In an event loop, for a timer or another thread of the process. */
bool wait_is_for_own_events(const struct profile_activity *wait);
/* By its reason, object and stack, whether it is in a call or not. */
enum account_class wait_class(const struct profile_activity *wait);
/* For a thread that prepares data: is this sleep or read part of the work? False where it waits for
 * another thread or process to prepare them. */
bool wait_prepares(const struct profile_activity *wait);
/* The same, but INPUT in a data loader's next batch, OTHER in a traced call that waits for its own
 * work. */
enum account_class wait_class_of(const struct contexts *contexts,
				 const struct profile_activity *wait);
/* The class of one sample of a wait, by the rules of wait_class_of(). */
enum account_class class_of_sample(const struct contexts *contexts,
				   const struct profile_activity *sample);
/* A thread that spends less of its time on the data that it waits for does nothing with them. */
#define FEED_OWN_SHARE 0.05
/* Is it on a CPU only to poll? */
bool stack_polls(const struct profile_stack *stack);

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
/* For a child process to end, or for what that writes before? */
bool wait_is_for_child(const struct profile_activity *wait);
/* Was the sample taken in this wait? */
bool sample_is_of(const struct profile_activity *sample, const struct profile_activity *wait);
/* Where most samples of a wait were; NULL: not known. */
const struct profile_frame *wait_place(const struct profile_process *process,
				       const struct profile_activity *wait);

/* For a file that another process has locked? */
bool wait_is_for_file_lock(const struct profile_activity *wait);
/* Does it take a mutex, or hand it over? */
bool stack_is_at_mutex(const struct profile_stack *stack);

/* The Python function that runs or waits, else the innermost native one outside of libc. NULL:
 * without a name. */
const struct profile_frame *stack_place(const struct profile_stack *stack);

#endif
