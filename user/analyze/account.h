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
#include "analyze/context.h"
#include "analyze/wait_class.h"

/* Sums of time by line, of samples and waits. */

/* The Python function that leads, by its hottest line; of a stack without Python a native one. */
struct place {
	const struct profile_frame *frame; /* NULL: not known */
	uint64_t ns, line_ns; /* of the function, all of its lines; of the frame's line */
};

/* Sums by line. The first are the most frequent ones: rows of samples are in that order. */
#define LINES_MAX 256

struct lines {
	struct place lines[LINES_MAX];
	size_t count;
};

/* frame may be NULL. */
void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns);
/* Finds the function with the most time, and its line with the most. */
struct place lines_lead(const struct lines *lines);
/* Adds the lines that call on files, by the samples of these calls. */
void lines_add_files(struct lines *lines, const struct profile_files *files);

/*
 * Where a thread was on a CPU, by its samples. A pure function of the profile.
 */

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

/* Sums over all samples of a process, by function: which functions only call others. */
struct place_sum {
	uint64_t all_ns, self_ns;
	size_t seen; /* the last sample that was added, from 1 */
};

/* Borrows the contexts. */
struct place_finder {
	const struct contexts *contexts;
	struct map64 by_frames; /* → sums[] */
	struct place_sum *sums;
	size_t sums_count, sums_capacity;
	uint64_t on_cpu_ns; /* of all threads */
	bool has_python;    /* some stack has a Python function */
	int err;
};

/* 0 or -ENOMEM; to be cleared in both cases. */
int place_finder_begin(struct place_finder *finder, const struct contexts *contexts);
void place_finder_clear(struct place_finder *finder);
/* Finds the place of a sample that is on a CPU. Leaves its ns and count at 0. */
struct account_place place_find(struct place_finder *finder, const struct profile_activity *sample,
				enum account_class class);
/* The innermost native function inside of Python that is neither the interpreter's nor libc's; of a
 * stack without Python libc's, where there is no other. NULL: none. */
const struct profile_frame *place_native(const struct profile_stack *stack);

/* One thread's account, or the sum of all threads. */
struct account {
	uint32_t tid;		      /* 0: of all */
	uint64_t wall_ns;	      /* while it was there, as far as that is known */
	uint64_t ns[ACCOUNT_CLASSES]; /* their sum is wall_ns */
	uint64_t stops_count;
};

struct process_account {
	struct account all, *threads;
	size_t threads_count;
	uint64_t longest_wall_ns;     /* of a thread */
	struct account_place *places; /* ns descending */
	size_t places_count;
	/* For each class, the place with most of its samples. */
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

/* The native function in which all threads are most of the time, computing or spinning. */
struct place account_native(const struct process_account *account, enum account_class class);

/* Time in which threads other than this one take a step's batch from a pipeline of tf.data, as the
 * thread waits for that; judged: in the steps alone. */
uint64_t pipeline_ns(const struct profile_process *process, uint32_t tid, bool judged);
/* wait_class_of() of a thread in its account: a wait for children that work is a JOIN. */
enum account_class account_wait_class(const struct process_account *account,
				      const struct contexts *contexts,
				      const struct profile_activity *wait);

#endif
