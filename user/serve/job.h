/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last seconds, for one request at a time: the recording writes them into a private file, and
 * a thread of low priority makes the report of it that was asked for.
 *
 *   job__begin ─▶ job__wants ─▶ (the recording writes) ─▶ job__captured ─▶ the thread ─▶ done
 *      HTTP        recording                                 recording
 *
 * Only job__stop waits.
 */
#ifndef PERFX_SERVE_JOB_H
#define PERFX_SERVE_JOB_H

#include "analyze/rule_set.h"
#include "export/export.h"
#include "push/push.h"
#include "report/dump.h"
#include "report/report.h"

#include <stdbool.h>
#include <stdint.h>

/* A request for a report or a capture: its arguments behind the "?" and its Accept header. */
#define QUERY_WHY 256 /* bytes */

/* /report?format=html&seconds=30&table=threads&of=cpu, /capture?seconds=30, /dump?format=json */
struct report_query {
	bool capture; /* the file itself: seconds is all that can be given */
	bool dump;    /* what each thread does now, by: */
	const struct dump_writer *dump_writer;
	struct push *push;		    /* no answer: the profile goes there */
	const struct report_writer *writer; /* else either of the two */
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
/* The name under which a browser saves the reply: "report.html". Returns its buffer. */
#define QUERY_FILE 64
const char *report_query_file(const struct report_query *query, char name[QUERY_FILE]);

/* Does an Accept header prefer OpenMetrics, or rank it equal to other text? NULL: no such header.
 */
bool accepts_openmetrics(const char *accept);

/* From the request until its answer is made; reading a capture is given up then. */
#define JOB_MAX_NS 60000000000u

struct job_request {
	struct report_query query;
	/* The answer can be taken; in the job's thread. */
	void (*done)(void *ctx);
	void *ctx;
};

struct job;

/* rules: borrowed; NULL: those that are built in. NULL with errno. */
struct job *job__new(const struct rule_set *rules);
/* Ends the report that is being made, and waits half a second for its request to get an answer.
 * Only job__answer_fd, job__end and job__free may follow. */
void job__stop(struct job *job);
/* NULL is fine; otherwise it has been stopped. */
void job__free(struct job *job);

bool job__is_busy(struct job *job);
/* 0, or -EBUSY: another one is being made, or sent. */
int job__begin(struct job *job, const struct job_request *request);
/* After done: a file of the answer, which is the caller's, from its start; or -errno: ETIMEDOUT,
 * ECANCELED (the recording ends), of the capture, of writing. */
int job__answer_fd(struct job *job);
/* The answer has been sent, or its client is gone. */
void job__end(struct job *job);

/* The path of the file that the recording should write now, malloc'd; NULL: none. */
char *job__wants(struct job *job);
/* Is it to end with a dump? */
bool job__wants_dump(struct job *job);
void job__captured(struct job *job, const char *path, int err);

#endif
