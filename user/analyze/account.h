/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One account of a process's time: what each of its threads did, in classes that exclude each other
 * and add up to the time in which the thread was there; those of the process add up to wall time ×
 * threads. A pure function of the profile.
 *
 *	time on a CPU, without one, blocked; waits by reason	exact
 *	samples divide these sums: computing and spinning, and places	estimates
 *
 * A thread that only waits for its own threads or children while these work has joined them: the
 * thread that the verdict is about is the one that works.
 */
#ifndef PERFX_ANALYZE_ACCOUNT_H
#define PERFX_ANALYZE_ACCOUNT_H

#include "aggregate/profile.h"
#include "analyze/stack_kind.h"
#include "base/grow.h"

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

/* Of a thread, or the sum of all. */
struct account {
	uint32_t tid;		      /* 0: of all */
	uint64_t wall_ns;	      /* while it was there, as far as that is known */
	uint64_t ns[ACCOUNT_CLASSES]; /* their sum is wall_ns */
	uint64_t stops_count;
};

/* Where a thread was on a CPU. */
struct account_place {
	uint32_t tid;
	enum account_class class; /* COMPUTING, SPINNING */
	/* The innermost line of the program's own, in Python or, in a stack without Python, native;
	 * the native function that a native one calls; the innermost Python line of any code; the
	 * innermost native function inside of that, of libc only where Python calls nothing else.
	 * NULL: none. */
	const struct profile_frame *own, *callee, *python, *native;
	uint32_t function; /* of the traced call around it; 0: none */
	uint64_t ns, count;
};

struct process_account {
	struct account all, *threads;
	size_t threads_count;
	uint64_t longest_wall_ns;     /* of a thread */
	struct account_place *places; /* ns descending */
	size_t places_count;
	/* Of each class the place with most of its samples. */
	const struct profile_frame *leads[ACCOUNT_CLASSES];
	/* The program's own line where its main thread mostly runs or waits; NULL: not known. */
	const struct profile_frame *main_line;
	/* The line where the parent waits for this process, if that runs no own line; else NULL. */
	const struct profile_frame *job_line;
	uint32_t tid; /* of the thread that the verdict is about */
	bool sampled;
	bool joins, joins_children; /* the thread that would drive it only waits for the others */
	uint32_t pool_tid;	    /* drives it, and waits for its own workers at times; 0: none */
};

/* Borrows frames from the profile. 0 or -ENOMEM; _clear either way. */
int account_find(struct process_account *account, const struct profile *profile,
		 const struct profile_process *process);
void account_clear(struct process_account *account);

/* NULL: the thread is not known. */
const struct account *account_of_thread(const struct process_account *account, uint32_t tid);
/* Was it there for less than half as long as another one, as a thread of one request? */
bool account_is_brief(const struct process_account *account, const struct account *thread);
/* Do samples and waits say where most of the time went? */
bool account_is_known(const struct process_account *account);
/* On a CPU, or ready for one. */
uint64_t account_busy_ns(const struct account *account);
uint64_t process_busy_ns(const struct profile_process *process);

/* The Python function that leads, by its hottest line; of a stack without Python a native one. */
struct place {
	const struct profile_frame *frame; /* NULL: not known */
	uint64_t ns, line_ns; /* of the function, all of its lines; of the frame's line */
};

/* The native function in which all threads are most of the time, computing or spinning. */
struct place account_native(const struct process_account *account, enum account_class class);

#define LOADERS_MAX 16

/* Python functions that prepare batches (loaders.h). Borrows. */
struct loaders {
	const struct profile_frame *list[LOADERS_MAX];
	size_t count;
};

/* The calling contexts of a process, by id. Borrows. */
struct contexts {
	const struct profile *profile;
	const struct profile_process *process;
	struct map64 places; /* id → process->contexts[] */
	struct map64
		batches; /* functions that fetch a loader's next batch, and whose ends are seen */
	bool has_loader; /* a framework's, by the name of its range */
	struct loaders loaders;
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
/* The same, by a range or by the stack. */
bool sample_is_of_batch(const struct contexts *contexts, const struct profile_activity *sample);
bool stack_is_of_batch(const struct contexts *contexts, const struct profile_stack *stack);
/* A range, or what has no name in PyTorch 1.13 (plan/annotations.c): it does no work itself. */
bool function_is_marker(const struct profile_function *function);

/* Time in which threads other than this one take a step's batch from a pipeline of tf.data, as the
 * thread waits for that; judged: in the steps alone. */
uint64_t pipeline_ns(const struct profile_process *process, uint32_t tid, bool judged);
/* In an event loop, for a timer or another thread of the process. */
bool wait_is_for_own_events(const struct profile_activity *wait);
/* By its reason, object and stack, whether it is in a call or not. */
enum account_class wait_class(const struct profile_activity *wait);
/* Of a thread that prepares data: does it sleep or read as a part of that? False where it waits for
 * another thread or process to prepare them. */
bool wait_prepares(const struct profile_activity *wait);
/* The same, but INPUT in a data loader's next batch, OTHER in a traced call that waits for its own
 * work. */
enum account_class wait_class_of(const struct contexts *contexts,
				 const struct profile_activity *wait);
/* The same of a thread in its account: a wait for children that work is a JOIN. */
enum account_class account_wait_class(const struct process_account *account,
				      const struct contexts *contexts,
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
