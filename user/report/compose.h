/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that compose a document share. */
#ifndef PERFX_REPORT_COMPOSE_H
#define PERFX_REPORT_COMPOSE_H

#include "report/document.h"

struct roof;

struct composer {
	struct document *document;
	const struct profile *profile;
	const struct analysis *analysis;
	const struct report_options *options;
	const struct document_limits *limits;
	unsigned more_left; /* of limits->more */
	size_t *groups;	    /* of identical workers (workers.h); NULL: each process by itself */
	/* functions.c: names that several functions of one process have, sorted */
	const struct profile_process *names_of;
	const char **shared_names;
	size_t shared_names_count;
};

/* facts.c: command line, what the process used, its threads */
void compose_facts(struct composer *c, const struct profile_process *process);
void compose_threads(struct composer *c, const struct profile_process *process);
/* functions.c: the table and who called */
void compose_functions(struct composer *c, const struct profile_process *process);
/* The function's name as this process's tables show it, marked. */
void compose_function_name(struct composer *c, const struct profile_process *process, uint32_t id,
			   struct text *into);
/* compute.c: operations, where they are known, and the roofline */
void compose_compute(struct composer *c, const struct profile_process *process);
/* "2 cores" */
void compose_cores(struct text *text, double cores);
/* "222 GFLOP/s that 2 cores can do (f64)", and whether that is a guess */
void compose_peak(struct text *text, const struct roof *roof);
/* ranges.c: what ranges compute, with all that runs inside them */
void compose_ranges(struct composer *c, const struct profile_process *process);
/* steps.c: the steps of a training, and what their time went into */
void compose_steps(struct composer *c, const struct profile_process *process);
/* collectives.c: what collectives move */
void compose_collectives(struct composer *c, const struct profile_process *process);
/* values.c: the program's own counters */
void compose_values(struct composer *c, const struct profile_process *process);
/* counters.c: perf events of calls, or why there are none */
void compose_counters(struct composer *c, const struct profile_process *process);
/* memory.c: all of a process's memory */
void compose_memory(struct composer *c, const struct profile_process *process,
		    const struct process_analysis *analysis);
/* a line a domain, and the places that matter most */
void compose_memory_worst(struct composer *c, const struct profile_process *process,
			  const struct process_analysis *analysis);
bool memory_sees_frees(const struct profile_memory *memory);
/* series.c: a row for what is live over time, a row for sizes */
void compose_memory_series(struct composer *c, const struct profile_process *process,
			   const struct profile_memory *memory);
void compose_sizes(struct composer *c, const struct profile_memory *memory);
/* hotspots.c: the table of places and their stacks */
void compose_hotspots(struct composer *c, const struct profile_process *process,
		      const struct profile_memory *memory, const struct memory_analysis *analysis);
/* The places that matter most, of all domains together */
void compose_worst_places(struct composer *c, const struct profile_process *process,
			  const struct process_analysis *analysis);
/* measured.c */
void compose_measured(struct composer *c);
/* What attaching cannot see, and what does. */
void compose_hints(struct composer *c);
/* What was traced late, or not at all because it ended too soon. */
void compose_late(struct composer *c);
/* brief.c: of a report of one screen or two */
void compose_brief_process(struct composer *c, size_t i);
void compose_brief_end(struct composer *c);
/* Identical workers, the first of which is at `first`. */
void compose_workers(struct composer *c, size_t first);
/* sections.c */
void compose_process_title(struct composer *c, const struct profile_process *process);
/* A fold where the details of a section are folded. */
void compose_details(struct composer *c, const char *title);
void compose_details_end(struct composer *c);

#endif
