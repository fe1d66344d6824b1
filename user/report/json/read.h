/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A JSON report → the profile that it was made of, for diff. What the report does not hold, such as
 * calls by thread, is empty. The file's types and numbers are not trusted: any file becomes a
 * profile or an error.
 */
#ifndef PERFX_REPORT_JSON_READ_H
#define PERFX_REPORT_JSON_READ_H

#include "analyze/analyze.h"

#define JSON_REPORT_WHY 200 /* bytes */

struct json_report;

/* Does the file begin as JSON does? */
bool json_report_is(const char *path);
/* NULL: why it could not be read, one line without the path. */
struct json_report *json_report__read(const char *path, char why[JSON_REPORT_WHY]);
const struct profile *json_report__profile(const struct json_report *report);
/* What the report found about the processes of a selection of its profile. NULL: memory was out.
 * Borrows from the report. */
struct analysis *json_report__analysis(const struct json_report *report,
				       const struct profile *selected);
void json_report__free(struct json_report *report);

#endif
