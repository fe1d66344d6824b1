/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the processes of a job one is, by the environment variables of its launcher:
 * torchrun and what does as it does (RANK, WORLD_SIZE), Open MPI, MPICH and Intel MPI (PMI),
 * JAX, Slurm's srun.
 */
#ifndef PERFX_SESSION_RANK_H
#define PERFX_SESSION_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RANK_JOB_BYTES 128

struct rank {
	uint32_t rank, world_size;
	uint32_t local_rank; /* on its machine; UINT32_MAX: not known */
	const char *source;  /* the variable that has the rank */
	/* What the processes of one job have in common: "127.0.0.1:29500"; "": nothing is known */
	char job[RANK_JOB_BYTES];
};

/* Of an environment, "NAME=VALUE" NUL-separated. False: it names no rank, or one that is none. */
bool rank_of_environment(const char *environment, size_t bytes, struct rank *rank);

/* Of a process: by the environment with which it began, else by the one that it has now, for
 * torch.multiprocessing and its like set the variables in processes that run. *environ_at: where
 * the C library has `environ`, kept for the next time; 0: not known. */
bool rank_of_process(pid_t pid, uint64_t *environ_at, struct rank *rank);

#endif
