/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profile of a dump → what its threads wait for, and what that means: threads that are alike, the
 * graph of who waits for whom, deadlocks, ranks that are elsewhere, and the verdict. A pure
 * function of the profile.
 */
#ifndef PERFX_ANALYZE_DUMP_H
#define PERFX_ANALYZE_DUMP_H

#include "aggregate/profile.h"
#include "aggregate/profile_dump.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_NONE SIZE_MAX /* no such thread, group or chain */

/* A thread of the dump. */
struct dump_thread {
	const struct profile_process *process;
	const struct profile_thread_state *state;
	size_t group;
	/* wait_graph.c: the thread of the dump that must act for this one to go on; DUMP_NONE: none
	 * is known. A process that must act without a known thread is represented by its thread
	 * that works on it, or by its main thread (waits_for_process). */
	size_t waits_for;
	bool waits_for_process; /* `waits_for` stands for its whole process */
	size_t waiters_count;	/* threads whose chain leads here */
};

/* Threads that are alike, of one process or of processes that do the same work: same stack, same
 * state, same reason, same kind of target. */
struct dump_group {
	const struct profile_process *process; /* of the first thread */
	const size_t *threads;		       /* indices, ascending; at least one */
	size_t threads_count;
	uint64_t least_age_ns, most_age_ns; /* PROFILE_ABSENT: unknown */
};

/* A cycle of threads, each of which waits for the next one, and the last for the first. */
struct dump_deadlock {
	size_t *threads;
	size_t threads_count;
};

/* Ranks of a job that are in the same call. */
struct dump_rank_group {
	size_t *processes; /* indices in profile->processes, by rank */
	size_t processes_count;
	size_t thread; /* of the first of them: the one that drives it; DUMP_NONE: unknown */
	/* "all_reduce", borrowed; where no collective is known, its frame's name; "": unknown */
	const char *call;
	const char *library; /* "gloo"; NULL: unknown */
	bool in_collective;  /* or it waits for its GPU, where a collective may run */
	uint64_t least_age_ns;
};

/* In the order in which they are asked: the first that holds is the answer. */
enum dump_answer {
	DUMP_ANSWER_NOTHING = 0, /* no thread was seen */
	DUMP_ANSWER_DEADLOCK,
	DUMP_ANSWER_RANK_ELSEWHERE,
	DUMP_ANSWER_STOPPED, /* by a signal, a debugger, a freezer */
	DUMP_ANSWER_WAITS,   /* the main thread waits, as do all others */
	DUMP_ANSWER_COMPUTES,
	DUMP_ANSWER_SPINS, /* the thread that all depends on only waits, on a CPU */
	DUMP_ANSWER_READY, /* threads could run and have no CPU */
};

struct dump {
	struct dump_thread *threads; /* by process as in the profile, then by tid */
	size_t threads_count;
	/* By process: the first one in the profile that does the same work, as far as its command
	 * line and its place among the processes tell. */
	size_t *classes;
	struct dump_group *groups; /* of a class one after the other; the most telling first */
	size_t groups_count;
	struct dump_deadlock *deadlocks;
	size_t deadlocks_count;
	struct dump_rank_group *ranks; /* the odd ones out first; none: no job of several ranks */
	size_t ranks_count;
	size_t culprit; /* the thread at the end of the chain that most threads lead to; DUMP_NONE
			 */
	uint64_t watched_ns; /* from the first dump to the last (--watch); 0: there was one */
	enum dump_answer answer;
	char *verdict; /* one line, that a writer can quote: the first line of each report */

	size_t *group_threads; /* what groups[].threads point to */
};

/* NULL with errno ENOMEM. Borrows from the profile. */
struct dump *dump__new(const struct profile *profile);
void dump__free(struct dump *dump);

/* Is it stopped by a signal, a debugger or a freezer? */
bool dump_is_stopped(const struct profile_thread_state *state);
/* Has it come to another place since the first dump? */
bool dump_has_moved(const struct profile_thread_state *state);
/* Was it on a CPU for much of the dump? */
bool dump_computes(const struct profile *profile, const struct profile_thread_state *state);
/* Such a thread that only waits there (analyze/spinning.h). */
bool dump_spins(const struct profile *profile, const struct profile_thread_state *state);

/* Words for reports, with marked names (base/escape.h): "loader (4243)"; "waits for pipe:[12]
 * from python3 (pid 42)"; "for 12.3 s". */
void dump_add_thread(struct text *text, const struct dump_thread *thread);
void dump_add_what(struct text *text, const struct profile *profile,
		   const struct dump_thread *thread);
/* Nothing where that is not known, or the thread has run meanwhile. */
void dump_add_age(struct text *text, const struct profile_thread_state *state, uint64_t age_ns);
/* frames_count: there is none. */
size_t dump_first_python(const struct profile_stack *stack);
/* Does a frame tell anything beside the others of its stack? In a stack with Python the
 * interpreter's own frames do not, nor do native ones between Python frames. */
bool dump_frame_tells(const struct profile_stack *stack, size_t i, size_t first_python);
/* The frame that a thread is said to be in: of the program's own Python, else of its native code,
 * else the innermost. NULL: none is known. */
const struct profile_frame *dump_place(const struct profile_stack *stack);

/* A coroutine of an asyncio task. */
struct dump_coroutine {
	char function[1024], file[1024]; /* longer ones are cut */
	uint32_t line;			 /* 0: unknown */
};
/* Takes the next line of profile_async_task.coroutines. False: there is none. */
bool dump_next_coroutine(const char **lines, struct dump_coroutine *coroutine);
/* Does the process run an event loop of asyncio whose tasks its release does not show? */
bool dump_hides_tasks(const struct profile_process *process);

/* The steps of dump__new(), in this order: wait_graph.c has the first two, dump.c the last. 0 or
 * -ENOMEM. */
int dump_graph(const struct profile *profile, struct dump *dump); /* edges, deadlocks, culprit */
int dump_ranks(const struct profile *profile, struct dump *dump);
int dump_verdict(const struct profile *profile, struct dump *dump);

#endif
