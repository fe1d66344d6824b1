/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that compose a document's sections. */
#ifndef PERFX_REPORT_DOCUMENT_COMPOSE_H
#define PERFX_REPORT_DOCUMENT_COMPOSE_H

#include "report/document/document.h"

#include <stdint.h>

struct roof;

struct composer {
	struct document *document;
	const struct profile *profile;
	const struct analysis *analysis;
	const struct report_options *options;
	const struct document_limits *limits;
	unsigned more_left; /* of limits->more */
	size_t *groups;	    /* of identical workers (below); NULL: each process by itself */
	/* functions.c: names that several functions of one process have, sorted */
	const struct profile_process *names_of;
	const char **shared_names;
	size_t shared_names_count;
};

/* Cells of a row: a name and a frame from the traced program, a function as compose_function_name()
 * shows it. */
static inline const char *compose_name(struct composer *c, const char *name)
{
	return document_name(c->document, name, c->limits->name_columns);
}

static inline const char *compose_frame(struct composer *c, const struct profile_frame *frame)
{
	return document_frame(c->document, frame, c->limits->name_columns);
}

/* A name inside a sentence: whole; until the next row is added. */
static inline const char *compose_mark(struct composer *c, const char *name)
{
	return document_name(c->document, name, 0);
}

/* Adds a name, marked, between other words; nothing where there is no name: NULL or "". */
void add_marked(struct text *text, const char *before, const char *name, const char *after);

const char *compose_function(struct composer *c, const struct profile_process *process,
			     uint32_t id);

/* sections.c */
/* "2 more places in the JSON report." what: " place", or "". Nothing where none is left out. */
void compose_left_out(struct composer *c, size_t count, const char *what, const char *report);
/* The report that has what this one leaves out. */
static inline const char *compose_larger(const struct composer *c)
{
	return c->limits->brief ? "full" : "JSON";
}

/* A fold where the details of a section are folded. */
void compose_details(struct composer *c, const char *title);
void compose_details_end(struct composer *c);

/* The process's place in the analysis. */
static inline const struct process_analysis *compose_analysis(const struct composer *c,
							      const struct profile_process *process)
{
	return &c->analysis->processes[process - c->profile->processes];
}

/* A section of a process; nothing where the process has nothing for it. sections.c has the tables
 * of them. */
typedef void compose_section(struct composer *c, const struct profile_process *process);

/* ended.c: the last lines of a process that failed; all processes that ended */
compose_section compose_last_lines;
void compose_ended(struct composer *c);
/* process.c: title, command line, what the process used, its threads */
compose_section compose_process_title, compose_facts, compose_threads;
/* functions.c: the table and who called */
compose_section compose_functions;
/* code.c: the account of time, lines, waits, and how whole the stacks are */
compose_section compose_files;
compose_section compose_account, compose_lines, compose_waits, compose_stack_quality;
/* compute.c: operations, where they are known, and the roofline */
compose_section compose_compute;
/* steps.c: the steps of a training and their phases */
compose_section compose_steps;
/* energy.c: of the GPUs that a process uses */
compose_section compose_process_energy;
/* gpu.c: devices, kernels, copies, waits */
compose_section compose_gpu;
/* counters.c: perf events of calls, or why there are none; the program's own counters */
compose_section compose_counters, compose_values;
/* memory.c: all of a process's memory; one line per domain, and the most important places */
compose_section compose_memory, compose_memory_worst;
/* memory_sum.c: what resident memory consists of */
compose_section compose_memory_sum;
compose_section compose_timeline;
/* hotspots.c: the most important places of all domains */
compose_section compose_worst_places;

/* functions.c: the function's name as this process's tables show it, marked */
void compose_function_name(struct composer *c, const struct profile_process *process, uint32_t id,
			   struct text *into);
/* code.c: the innermost frame with a line, of Python if there is one. NULL: none; stack may be
 * NULL. */
const struct profile_frame *stack_line(const struct profile_stack *stack);
/* compute.c: "222 GFLOP/s that 2 cores can do (f64)", and whether that is a guess */
void compose_peak(struct text *text, const struct roof *roof);
/* ranks.c: of a job, side by side */
void compose_ranks(struct composer *c);
/* energy.c: of the host */
void compose_energy(struct composer *c);
/* memory_sum.c: of all processes */
void compose_job_memory(struct composer *c);
/* gpu.c: what GPUs did for the steps */
void compose_steps_gpu(struct composer *c, const struct profile_steps *steps);
bool memory_sees_frees(const struct profile_memory *memory);
/* Of a bucket of PROFILE_SIZES. */
static inline uint64_t largest_size(size_t bucket)
{
	return bucket ? 1ULL << (bucket - 1) : 0;
}

/* hotspots.c: the table of allocation sites and their stacks; domain: index of the process's memory
 */
void compose_hotspots(struct composer *c, const struct profile_process *process, size_t domain);

/* measured.c */
/* ", observed …": how much longer steps took than without probes; nothing where that is not known.
 */
void text_add_observed(struct text *text, const struct profile *profile);
void compose_measured(struct composer *c);
/* Functions that attaching cannot trace, and how to trace them: "Python functions: …". */
void compose_hints(struct composer *c);
/* Processes that were traced late, or ended before they could be traced. */
void compose_late(struct composer *c);

/* Identical workers as one section; the first of them is at `first`. */
void compose_workers(struct composer *c, size_t first);

/* Identical workers do the same work, as the workers of a DataLoader and the ranks of a training.
 *
 * For each process the place of the first that does the same: of one parent, with one command line,
 * and with the same functions where its time goes. malloc'd; NULL: out of memory. */
size_t *workers_group(const struct profile *profile);

#define WORKER_DOMAINS (PERFX_DOMAIN_USER + 1)

struct worker_sum {
	size_t count; /* of workers */
	uint64_t wall_ns, cpu_ns, rss_bytes;
	/* Pages of files and of shared memory, of the worker with most of them: the others' are the
	 * same ones. */
	uint64_t own_bytes, file_bytes, shmem_bytes;
	uint64_t untraced_ns; /* PROFILE_ABSENT where one's is not known */
	uint64_t gpu_mj;      /* likewise */
	bool gpu_estimated;
	uint64_t steps_count, steps_ns, steps_avg_least_ns, steps_avg_most_ns;
	uint64_t allocated_bytes[WORKER_DOMAINS]; /* by enum perfx_domain */
	bool estimated[WORKER_DOMAINS];		  /* from samples */
	/* their calls and times, each function once, by self time */
	struct profile_row *rows;
	size_t rows_count, rows_capacity;
};

/* Of the group whose first process is at `first`. 0 or -ENOMEM; worker_sum_clear either way. */
int worker_sum_make(struct worker_sum *sum, const struct profile *profile, const size_t *groups,
		    size_t first);
void worker_sum_clear(struct worker_sum *sum);

/*
 * Lines of source files, for the reader of a report. Which files, the traced program says: so only
 * those are read that look like sources, that anybody may read or the user owns, and that have not
 * changed since the recording began.
 */

/* The file that was read last. All-zero: none. */
struct source {
	char *path, *text;
};

/* Adds the line, without indentation, to a buffer of its own: malloc'd; NULL: it cannot be shown.
 * recorded_unix_ns: when the recording began. */
char *source_line(struct source *source, const char *path, uint32_t line,
		  uint64_t recorded_unix_ns);
void source_clear(struct source *source);

#endif
