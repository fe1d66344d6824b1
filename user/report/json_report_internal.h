/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that read a JSON report share. */
#ifndef PERFX_REPORT_JSON_REPORT_INTERNAL_H
#define PERFX_REPORT_JSON_REPORT_INTERNAL_H

#include "base/grow.h"
#include "base/text.h"
#include "report/json_report.h"

#include <jansson.h>

struct json_report {
	json_t *root; /* most texts of the profile are its */
	struct pool texts;
	struct profile profile;
	struct profile_function *functions;
	struct perfx_peak *peaks;
};

/* Members, whatever they are: "" and PROFILE_ABSENT where they are not of that type; negative
 * numbers are absent, too. */
const char *json_text_of(const json_t *object, const char *key);
uint64_t json_number_of(const json_t *object, const char *key);
/* 0 where it is absent. */
uint64_t json_count_of(const json_t *object, const char *key);

/* json_report_memory.c: 0 or -ENOMEM */
int json_read_memory(struct json_report *report, struct profile_process *process,
		     const json_t *from);
void json_free_memory(struct profile_process *process);

#endif
