/* SPDX-License-Identifier: BSD-2-Clause */
/* The layout of the JSON report: containers one below the other, the innermost values on one line
 * each, so that memory does not grow with the report. */
#ifndef PERFX_REPORT_JSON_OUTPUT_H
#define PERFX_REPORT_JSON_OUTPUT_H

#include "analyze/analyze.h"
#include "report/table/table.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_output {
	FILE *file;
	unsigned depth;
	bool first; /* nothing stands in the innermost container yet */
	int err;
};

/* key: NULL in an array */
void json_open(struct json_output *o, const char *key, char bracket);
void json_close(struct json_output *o, char bracket);
/* Closes the outermost object. 0 or -errno of the whole. */
int json_end(struct json_output *o);

/*
 * Functions that are given a value own it. NULL: out of memory. json_null() stands for a value that
 * was not measured: members without a value are left out.
 */

/* Writes a value on one line. */
void json_put(struct json_output *o, const char *key, json_t *value);
/* Numbers with all their digits: the program's own values. */
void json_put_exact(struct json_output *o, const char *key, json_t *value);
/* Members of an object, a line each, into the open container; as an object of that key. */
void json_put_members(struct json_output *o, json_t *object);
void json_put_object(struct json_output *o, const char *key, json_t *object);
void json_put_integer(struct json_output *o, const char *key, uint64_t value);
void json_put_string(struct json_output *o, const char *key, const char *value);

/* json_object_of({"pid", json_of_integer(pid)}, {"rss_bytes", json_of_measured(rss_bytes)}, …) */
struct json_member {
	const char *key;
	json_t *value;
};
#define json_object_of(...) json_of_members((const struct json_member[]){__VA_ARGS__, {NULL, NULL}})
json_t *json_of_members(const struct json_member *members);
/* Adds a member to an object. */
void json_set(json_t *object, const char *key, json_t *value);
void json_set_integer(json_t *object, const char *key, uint64_t value);
void json_set_string(json_t *object, const char *key, const char *value);
/* json_null() in place of an empty object or array. */
json_t *json_unless_empty(json_t *container);

json_t *json_of_integer(uint64_t value);
/* Unless it is PROFILE_ABSENT; unless it is 0. */
json_t *json_of_measured(uint64_t value);
json_t *json_of_count(uint64_t value);
/* Unless it is negative; unless it is negative or 0. */
json_t *json_of_known(double value);
json_t *json_of_positive(double value);
/* A whole number as an integer; unless it is infinite, or no number. */
json_t *json_of_number(double number);
/* Invalid UTF-8 from a traced process is repaired. */
json_t *json_of_string(const char *value);
/* Unless it is NULL or empty. */
json_t *json_of_any_string(const char *value);
/* A name to be shown: harmless (base/escape.h); "?" where there is none. */
json_t *json_of_name(const char *name);
/* Without its marks. */
json_t *json_of_sentence(const char *value);

/* A number that is not negative, rounded; PROFILE_ABSENT for all else. */
uint64_t json_to_u64(const json_t *value);

/* A row of a table: its columns of JSON that are not absent. */
json_t *json_of_row(struct data_table *table, const struct data_table_row *row);
/* All rows of a process, as an array. */
void json_put_rows(struct json_output *o, const char *key, const char *kind,
		   const struct profile *profile, const struct data_table_row *of_process);

/* The Python lines behind a function's calls */
json_t *json_of_python_callers(const struct profile_row *row);
/* Of a process: Python, call stacks, samples, lines, waits */
void json_put_code(struct json_output *o, const struct profile *profile,
		   const struct data_table_row *of_process);

struct report_options;
struct ranks;

/* The whole report as a string, malloc'd. 0 or -errno. */
int report_json_text(char **text, size_t *size, const struct profile *profile,
		     const struct analysis *analysis, const struct report_options *options);

/* end.c: how a process ended; nothing if it lives */
void json_put_end(struct json_output *o, const struct profile *profile,
		  const struct profile_process *process);

/* ranks.c: of all jobs */
void json_put_ranks(struct json_output *o, const struct profile *profile,
		    const struct ranks *ranks);

/* A grid, a block */
json_t *json_of_shape(const uint32_t shape[3]);
/* Of a process: devices, kernels, copies, waits, gaps */
void json_put_gpu(struct json_output *o, const struct profile *profile,
		  const struct data_table_row *of_process);

void json_put_files(struct json_output *o, const struct profile_process *process);

void json_put_memory_sums(struct json_output *o, const struct profile *profile,
			  const struct profile_process *process);
/* Of all processes: shared memory counts once. */
void json_put_job_memory(struct json_output *o, const struct profile *profile);

/* Phases by name */
json_t *json_of_phases(const uint64_t phases[PROFILE_PHASES]);
void json_put_steps(struct json_output *o, const struct profile *profile,
		    const struct data_table_row *of_process);
/* Where the time of a step goes, without steps that of a second. */
void json_put_step_time(struct json_output *o, const struct process_analysis *analysis);

/* Where a finding's cause is */
json_t *json_of_place(const struct finding_place *place);
/* Words of a command line */
json_t *json_of_arguments(const char *cmdline);
/* Perf events of a function's calls */
json_t *json_of_perf_counters(const struct profile *profile, const struct profile_row *row);
/* The function's own calls, by how well their cost is known */
json_t *json_of_call_costs(const struct profile_cost *cost);
/* Each allocator's name once */
json_t *json_of_allocators(const struct profile_memory *memory);
/* Frames, innermost first */
/* Function, with file and line or with its module; absent: NULL. */
json_t *json_of_line(const struct profile_frame *frame);
json_t *json_of_frames(const struct profile_frame *const *frames, size_t count);
/* Live bytes by window */
json_t *json_of_windows(const struct profile_memory *memory, const struct profile_hotspot *hotspot);

#endif
