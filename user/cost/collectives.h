/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls in which the ranks of a job meet: each returns when all ranks have come, at nearly the
 * same moment on all of them. The one list of their names, for planning and for analysis. Calls
 * that only submit a collective (NCCL's, c10d's operators) are none.
 */
#ifndef PERFX_COST_COLLECTIVES_H
#define PERFX_COST_COLLECTIVES_H

#include <stdbool.h>

/* Is it one of MPI's, in a library that has them? MPI_Allreduce, not MPI_Bcast, whose root leaves
 * before the others. */
bool collective_of_mpi(const char *base_name, const char *symbol);

/* By the name that a function is shown with: "MPI_Allreduce",
 * "c10d::ProcessGroupGloo::AsyncWork::execute". */
bool collective_meets(const char *name);

/* The collective that a frame of a stack is in, as its caller knows it: "all_reduce", "barrier",
 * "MPI_Allreduce", "ncclAllReduce", "TCPStore::get"; also those that only submit one, because a
 * thread that hangs there waits for the others as well. Borrowed from `function`. file: of a Python
 * function, otherwise "". NULL: none. */
const char *collective_call(const char *function, const char *module_base, const char *file);
/* What carries out a collective by this frame: "gloo", "nccl", "mpi"; NULL: unknown. */
const char *collective_library(const char *function, const char *module_base);

/* PyTorch's, by any of gloo's collectives, on a thread of the process group. */
#define COLLECTIVE_GLOO_SYMBOL "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeE"

#endif
