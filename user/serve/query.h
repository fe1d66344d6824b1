/* SPDX-License-Identifier: BSD-2-Clause */
/* What a request asks for: the arguments behind the "?", and the text that it accepts. */
#ifndef PERFX_SERVE_QUERY_H
#define PERFX_SERVE_QUERY_H

#include "export/export.h"
#include "report/report.h"

#include <stdbool.h>
#include <stdint.h>

#define QUERY_WHY 256 /* bytes */

/* /report?format=html&seconds=30&table=threads&of=cpu, /capture?seconds=30 */
struct report_query {
	bool capture;			    /* the file itself: seconds is all that can be given */
	const struct report_writer *writer; /* either of the two */
	const struct export_format *export;
	uint64_t length_ns; /* the last so much; 0: not given; of a capture: all */
	const char *table;  /* of CSV and TSV; static; NULL: functions */
	enum export_of of;
	unsigned given; /* bits of the arguments that came */
};

/* Parses the next argument. 0, or -EINVAL with a sentence that names valid ones. value: NULL
 * without "=". */
int report_query_parse(struct report_query *query, const char *key, const char *value,
		       char why[QUERY_WHY]);
/* After the last argument: sets the defaults. As above. length_max_ns: of the flight recorder. */
int report_query_end(struct report_query *query, uint64_t length_max_ns, char why[QUERY_WHY]);

/* "text/html; charset=utf-8": of the chosen format. */
const char *report_query_type(const struct report_query *query);
/* What a browser would save it as: "report.html". Returns its buffer. */
#define QUERY_FILE 64
const char *report_query_file(const struct report_query *query, char name[QUERY_FILE]);

/* Does an Accept header like OpenMetrics at least as much as other text? NULL: it has none. */
bool accepts_openmetrics(const char *accept);

#endif
