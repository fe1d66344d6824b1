// SPDX-License-Identifier: BSD-2-Clause
#include "cost/collectives.h"

#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

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

/* A function's name without its namespace is the call. */
static const struct {
	const char *functions, *modules; /* globs */
} calls[] = {
	{"MPI_*", "libmpi*"},	  {"nccl[A-Z]*", "*"},
	{"c10d::*Store::*", "*"}, {"gloo::all*", "*"},
	{"gloo::barrier*", "*"},  {"gloo::broadcast*", "*"},
	{"gloo::gather*", "*"},	  {"gloo::reduce*", "*"},
	{"gloo::scatter*", "*"},  {"xla::*Communicator::*", "*"}, /* JAX */
};

const char *collective_call(const char *function, const char *module_base, const char *file)
{
	const char *colons;

	/* torch.distributed's own helpers begin with an underscore */
	if (*file)
		return !fnmatch("*/torch/distributed/distributed_c10d.py", file, 0) &&
				       *function >= 'a' && *function <= 'z' &&
				       !strchr(function, '.')
			       ? function
			       : NULL;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (fnmatch(calls[i].functions, function, 0) ||
		    fnmatch(calls[i].modules, module_base, 0))
			continue;
		/* "TCPStore::get": of which store matters */
		if (begins_with(function, "c10d::"))
			return function + strlen("c10d::");
		colons = strstr(function, "::");
		for (const char *next = colons; next; next = strstr(colons + 2, "::"))
			colons = next;
		return colons ? colons + 2 : function;
	}
	return NULL;
}

const char *collective_library(const char *function, const char *module_base)
{
	static const struct {
		const char *functions, *modules, *library;
	} libraries[] = {
		/* its idle threads are in runLoop */
		{"c10d::ProcessGroupGloo::AsyncWork::execute*", "*", "gloo"},
		{"gloo::transport::*UnboundBuffer::wait*", "*", "gloo"},
		{"c10d::ProcessGroupNCCL::WorkNCCL::*", "*", "nccl"},
		{"nccl[A-Z]*", "*", "nccl"},
		{"MPI_*", "libmpi*", "mpi"},
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!fnmatch(libraries[i].functions, function, 0) &&
		    !fnmatch(libraries[i].modules, module_base, 0))
			return libraries[i].library;
	return NULL;
}
