// SPDX-License-Identifier: BSD-2-Clause
#include "cost/collectives.h"

#include "base/text.h"

#include <fnmatch.h>

static const char *const mpi[] = {
	/* no rank leaves before all have come */
	"MPI_Allgather",
	"MPI_Allgatherv",
	"MPI_Allreduce",
	"MPI_Alltoall",
	"MPI_Alltoallv",
	"MPI_Alltoallw",
	"MPI_Barrier",
	"MPI_Reduce_scatter",
	"MPI_Reduce_scatter_block",
	NULL};

bool collective_of_mpi(const char *base_name, const char *symbol)
{
	/* Open MPI, MPICH, Intel MPI */
	return begins_with(symbol, "MPI_") && !fnmatch("libmpi*", base_name, 0) &&
	       text_is_one_of(symbol, mpi);
}

bool collective_meets(const char *name)
{
	return begins_with(name, "c10d::ProcessGroupGloo::AsyncWork::execute") ||
	       text_is_one_of(name, mpi);
}
