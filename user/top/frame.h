/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What top shows of one moment: numbers and texts of its own, taken out of a snapshot, so that a
 * frame stays as it is while the recording goes on.
 *
 * Texts are harmless on a terminal (base/escape.h). NAN: not measured.
 */
#ifndef PERFX_TOP_FRAME_H
#define PERFX_TOP_FRAME_H

#include "base/grow.h"
#include "live/live.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum top_view { TOP_FUNCTIONS, TOP_LINES, TOP_THREADS, TOP_FINDINGS, TOP_MEMORY, TOP_VIEWS };
const char *top_view_name(enum top_view view);

/* How a number is written. */
enum top_unit { TOP_NS, TOP_SHARE, TOP_RATE, TOP_BYTES, TOP_FLOPS, TOP_NUMBER, TOP_TEXT };

struct top_column {
	const char *title;
	enum top_unit unit;
	unsigned width; /* the last column takes the rest */
	unsigned rank;	/* 0: always shown; the highest is left out first where space is short */
	bool processes; /* only where there are several processes */
	bool cut_end;	/* a text is shortened at its end, not in its middle */
};

#define TOP_COLUMNS_MAX 8

struct top_cell {
	double value;	  /* TOP_TEXT: sorts it, where it is not NAN */
	const char *text; /* TOP_TEXT */
};

struct top_row {
	struct top_cell cells[TOP_COLUMNS_MAX];
	uint32_t pid;
	enum finding_severity severity; /* 0: it is no finding */
	const char *details;		/* of the selected row, lines; NULL: none */
};

/* In the order of what matters most. */
struct top_table {
	const struct top_column *columns;
	size_t columns_count;
	struct top_row *rows;
	size_t rows_count, rows_capacity;
	const char *why; /* there are none; NULL: there are, or nothing has happened yet */
};

/* One number over time, a point a period; 0: not measured, or none. */
struct top_series {
	uint64_t points[LIVE_HISTORY];
	size_t count;
};

struct top_process {
	uint32_t pid;
	bool exited;
	const char *name; /* "python3 (pid 4711)"; of a job with its rank */
	double step_ns, steps_per_s, flops_per_s;
	uint64_t steps_count;	       /* of the run */
	double phases[PROFILE_PHASES]; /* shares of the steps of the period */
	bool has_phases;
	double cpu_share; /* 1: one CPU */
	double rss_bytes, live_bytes;
	enum perfx_domain live_domain; /* of live_bytes */
	double gpu_share;
	struct top_series steps, cpu, rss, live, gpu;
};

struct top_frame {
	struct pool pool; /* of the texts */
	bool failed;	  /* memory was out */
	uint64_t elapsed_ns, period_ns;
	const char *verdict;			   /* "" : not judged yet */
	unsigned findings_counts[FINDING_LOW + 1]; /* by severity */
	struct top_process *processes;		   /* those with most steps first */
	size_t processes_count;
	struct top_table tables[TOP_VIEWS];
	double slowdown;     /* by tracing, of the program; 0.05: 5 % */
	double tracer_share; /* CPU time of the tracer; 1: one CPU */
	double hits_per_s;
	const char *losses; /* "" : none */
};

/* What frames before this one have shown. All-zero: there were none. */
struct top_past {
	uint64_t hits_count, tracer_cpu_ns;
	struct top_known { /* a finding */
		uint64_t key, since_ns, number;
	} * known;
	size_t known_count, known_capacity;
};

/* tracer_cpu_ns: CPU time that this program has used. NULL: out of memory. */
struct top_frame *top_frame__new(const struct live_snapshot *snapshot, struct top_past *past,
				 uint64_t tracer_cpu_ns);
void top_frame__free(struct top_frame *frame);
void top_past_clear(struct top_past *past);

#endif
