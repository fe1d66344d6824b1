/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of a recording: what /proc has of them goes into the stream as records, so that a
 * replay needs no /proc. A process here is one incarnation: (pid, start, exec); its index is
 * what the kernel side calls `process`.
 */
#ifndef PERFX_SESSION_PROCESS_TABLE_H
#define PERFX_SESSION_PROCESS_TABLE_H

#include "attach/tracer.h"
#include "decode/pack.h"
#include "proc/growth.h"
#include "proc/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_table;

/* tracer and sink are borrowed. full_cmdline: do not hide what looks like a secret. launched: the
 * program that the tracer has started; 0: none. */
struct process_table *process_table__new(struct tracer *tracer, struct sink *sink,
					 bool full_cmdline, pid_t launched);
/* Stops or resumes sampling: what is used meanwhile is not emitted. */
void process_table__hold(struct process_table *table, bool held);
void process_table__free(struct process_table *table);

/* A traced process that was running before: PROCESS record. */
int process_table__open(struct process_table *table, uint32_t process, pid_t pid);
/* Events of the control ring. adopted: a PROCESS record from BPF (-a). */
void process_table__on_adopted(struct process_table *table, const struct perfx_process *adopted);
void process_table__on_fork(struct process_table *table, const struct perfx_fork *fork);
void process_table__on_exec(struct process_table *table, const struct perfx_exec *exec);
/* The first process index of what has ended; 0: it was not known. */
uint32_t process_table__on_exit(struct process_table *table, const struct perfx_exit *exit);

/* USAGE of all running processes, and LIMITS now and then; whole: LIMITS and THREAD records of all
 * (start and end of the recording). */
void process_table__sample(struct process_table *table, bool whole);

/* Reading the CPU time of more threads costs too much. */
#define BUSY_THREADS_MAX 128

/* CPU time of threads, or of processes with more threads than are read, at the last call. */
struct busy_snapshot {
	struct busy_thread {
		pid_t pid, tid; /* tid 0: the process */
		struct cpu_times times;
	} list[BUSY_THREADS_MAX];
	size_t count;
};

/* The time since the last snapshot in which the traced processes had a CPU, each process as one
 * thread: the CPU time of all its threads, but no more than has passed while the busiest one did
 * not wait for a CPU. Hits are those of one thread at a time, and threads that spin meanwhile do
 * not make them cheaper. */
uint64_t process_table__busy_ns(const struct process_table *table, struct busy_snapshot *last,
				uint64_t elapsed_ns);

/* Reading the memory of more processes at each tick costs too much. */
#define GROWTH_PROCESSES_MAX 16

/* Does the memory of a process grow? To be called at each tick. */
enum growth process_table__growth(struct process_table *table, uint64_t now_ns);

/* Living pids, borrowed until the next call. */
const pid_t *process_table__pids(const struct process_table *table, size_t *count);
/* Have all of these ended, as /proc says, before there was an exit record? */
bool process_table__all_ended(const struct process_table *table);
/* The pid of a running process, by its index; 0: no such process runs. */
pid_t process_table__pid(const struct process_table *table, uint32_t process);
/* The index of the process that has this pid now; 0: none. */
uint32_t process_table__process(const struct process_table *table, pid_t pid);
/* Its first process index; 0: none. */
uint32_t process_table__born(const struct process_table *table, pid_t pid);
bool process_table__has(const struct process_table *table, pid_t pid);

/*
 * Which of the processes of a job one is, by the environment variables of its launcher:
 * torchrun and what does as it does (RANK, WORLD_SIZE), Open MPI, MPICH and Intel MPI (PMI),
 * JAX, Slurm's srun.
 */

#define RANK_JOB_BYTES 128

struct rank {
	uint32_t rank, world_size;
	uint32_t local_rank; /* on its machine; UINT32_MAX: not known */
	const char *source;  /* the variable that has the rank */
	/* The same for all processes of a job, such as "127.0.0.1:29500"; "": not known */
	char job[RANK_JOB_BYTES];
};

/* Reads an environment, "NAME=VALUE" NUL-separated. False: it has no valid rank. */
bool rank_of_environment(const char *environment, size_t bytes, struct rank *rank);

/* Reads the environment that a process started with, else its present one, because
 * torch.multiprocessing and others set the variables in running processes. *environ_at: where
 * the C library has `environ`, kept for the next time; 0: not known. */
bool rank_of_process(pid_t pid, uint64_t *environ_at, struct rank *rank);

#endif
