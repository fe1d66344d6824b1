/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first pass over a capture that is to be merged: whose it is, which ids it uses, and when its
 * ranks met. Memory is bounded by what is alive and by SURVEY_ENDS_MAX, not by its length.
 */
#ifndef PERFX_MERGE_SURVEY_H
#define PERFX_MERGE_SURVEY_H

#include "base/grow.h"
#include "merge/fields.h"

#include <stdbool.h>

/* Ends of one function in one process that are kept: the last. */
#define SURVEY_ENDS_MAX	  65536
#define SURVEY_SERIES_MAX 1024

/* A call that ends on all ranks at nearly the same moment. */
struct series {
	uint32_t process;
	enum perfx_alignment by; /* COLLECTIVES or BACKWARD */
	const char *name;
	uint64_t *ends_ns; /* ascending, once it is complete */
	size_t count, capacity;
};

struct survey_process {
	uint32_t process, pid;
	uint64_t start_boot_ns;
};

struct survey_rank {
	uint32_t process, rank, world_size;
	const char *job;
};

struct survey_label {
	uint32_t id;
	const char *text;
};

struct survey {
	const char *path; /* borrowed */
	struct pool strings;
	bool has_host, has_end, is_merged;
	struct perfx_host host;
	const char *host_strings[5];
	struct perfx_end end;
	struct perfx_time_slice slice; /* hdr.size 0: it is a whole recording */
	const char *slice_why;
	uint64_t end_ns;	 /* of END; without it, the latest time seen */
	uint64_t ids[ID_SPACES]; /* the largest of each; those counted from 0: how many */
	struct survey_process *processes;
	size_t processes_count, processes_capacity;
	struct survey_rank *ranks;
	size_t ranks_count, ranks_capacity;
	struct survey_label *gpus; /* their uuids */
	size_t gpus_count, gpus_capacity;
	struct survey_label counters[PERFX_PERF_COUNTERS]; /* perf counters by place */
	struct series *series;
	size_t series_count, series_capacity;
	/* while it is made */
	struct map64 functions;	 /* that meet → functions' names[] */
	struct map64 series_ids; /* process << 32 | function → series[] */
	struct survey_label *names;
	size_t names_count, names_capacity;
};

/* 0 or -errno: of reading, -EPROTO another version, -ENOEXEC no capture. To be cleared in both
 * cases. */
int survey_make(struct survey *survey, const char *path);
void survey_clear(struct survey *survey);

#endif
