/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_MERGE_INTERNAL_H
#define PERFX_MERGE_INTERNAL_H

#include "base/grow.h"
#include "decode/decode.h"
#include "merge/merge.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest id of a space; larger ones are not decoded. */
uint64_t id_max(enum id_space space);

/*
 * The first pass over a capture that is to be merged: whose it is, which ids it uses, and when its
 * ranks met. Memory is bounded by what is alive and by SURVEY_ENDS_MAX, not by its length.
 */

/* Ends of one function in one process that are kept: the last. */
#define SURVEY_ENDS_MAX	  65536
#define SURVEY_SERIES_MAX 1024

/* A call that ends on all ranks at nearly the same moment. */
struct series {
	uint32_t process;
	enum perfx_alignment by; /* COLLECTIVES or BACKWARD */
	const char *name;
	uint64_t *list; /* ends, ns; ascending, once it is complete */
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

/*
 * One clock for two captures: by calls that end on both sides at nearly the same moment.
 *
 * Neither knows when the other began, so which end of one is which of the other is not known: some
 * ends are laid side by side with every lag, and the lags with which they vary least are tried with
 * all ends, as is the lag nearest to the machines' time of day. Each end is paired with the nearest
 * one, which a lost record does not disturb; the offset is the center of the differences; over a
 * longer time, a line through medians. Steps are never quite equal, so a wrong lag shows the steps'
 * own jitter, the right one only that of the ends. Where several lags do as well, the time of day
 * says which it is.
 */

/* Two series of ends, ascending; expected_ns: the offset by other clocks, to choose among lags that
 * do equally well. False: they do not tell. */
bool align_ends(struct alignment *alignment, const uint64_t *reference, size_t reference_count,
		const uint64_t *ends, size_t count, int64_t expected_ns);

/* Aligns a capture to another: by the same boot, by collectives, by backward passes, by the time of
 * day. */
struct alignment align_captures(const struct survey *reference, const struct survey *capture);

/* Aligns to the capture that the reference itself is aligned to. */
struct alignment align_through(const struct alignment *outer, struct alignment inner);

uint64_t align_time(const struct alignment *alignment, uint64_t time_ns);

#endif
