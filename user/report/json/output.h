/* SPDX-License-Identifier: BSD-2-Clause */
/* The layout of the JSON report: containers one below the other, the innermost values on one line
 * each, so that memory does not grow with the report. */
#ifndef PERFX_REPORT_JSON_OUTPUT_H
#define PERFX_REPORT_JSON_OUTPUT_H

#include "analyze/analyze.h"

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
/* Writes a value on one line and takes it; NULL says that memory was out. */
void json_put(struct json_output *o, const char *key, json_t *value);
/* Numbers with all their digits: another's, and not measured by us. */
void json_put_exact(struct json_output *o, const char *key, json_t *value);
/* Unless it was not measured (PROFILE_ABSENT). */
void json_put_measured(struct json_output *o, const char *key, uint64_t value);
void json_set_measured(json_t *object, const char *key, uint64_t value);

json_t *json_of_integer(uint64_t value);
/* What a traced process wrote may be no UTF-8. */
json_t *json_of_string(const char *value);
/* Without its marks. */
json_t *json_of_sentence(const char *value);

/* --- parts of the report -------------------------------------------------------------------- */

/* write_memory.c: the process's "memory" array, when memory was recorded */
void json_put_memory(struct json_output *o, const struct profile *profile,
		     const struct profile_process *process,
		     const struct process_analysis *analysis);

/* write_compute.c: what a function computes; the process's "compute" object, when anything is known
 * of it; what the host can do, when it was measured */
void json_set_cost(json_t *object, const struct profile *profile,
		   const struct profile_process *process, const struct profile_row *row);
void json_put_compute(struct json_output *o, const struct profile *profile,
		      const struct profile_process *process);
void json_put_peaks(struct json_output *o, const struct profile *profile);

#endif
