/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of the processes of one job, of several machines or several tracers → one capture, of
 * which every report and export can be made.
 *
 * Two passes. The first finds out whose the captures are and by how much their clocks differ. The
 * second reads all of them side by side, the earliest first, and writes each record with its ids
 * behind those of the captures before and its times moved. Memory is that of the sums of one
 * segment of each capture.
 */
#ifndef PERFX_MERGE_MERGE_H
#define PERFX_MERGE_MERGE_H

#include "capture/capture.h"
#include "perfx_record.h"

/* time + offset_ns + drift · (time - from_ns) is the reference's time. */
struct alignment {
	enum perfx_alignment by; /* INVALID: it was not found */
	const char *name;	 /* of the function whose ends were compared; NULL: none */
	int64_t offset_ns;
	double drift;
	uint64_t from_ns;
	uint64_t error_ns; /* half of all pairs are nearer to it; UINT64_MAX: not known */
	uint64_t pairs_count;
};

struct merger;

/* Nothing is read yet. NULL with errno ENOMEM. */
struct merger *merger__new(void);
void merger__free(struct merger *merge);

/* The first pass over one more capture; path is borrowed. 0 or -errno, as survey_make. */
int merger__add(struct merger *merge, const char *path);

/* Do they belong together? NULL: yes, and the clocks are compared; otherwise why not, malloc'd. */
char *merger__check(struct merger *merge);

/* The second pass. 0 or -errno. */
int merger__write(struct merger *merge, struct capture_writer *writer);

struct merge_part {
	const char *path, *host_name;
	struct alignment alignment;
	size_t ranks_count;
	uint64_t damaged_bytes, undecoded_count; /* once it was written */
	uint64_t left_out_count;		 /* records of GPUs beyond those that fit */
	bool counters_left_out; /* perf counters: others than the first capture's */
	bool ended;
};

size_t merger__count(const struct merger *merge);
struct merge_part merger__part(const struct merger *merge, size_t part);

#endif
