/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last seconds, for one request at a time: the recording writes them into a private file, and
 * a thread of low priority makes the report of it that was asked for.
 *
 *   job__begin ─▶ job__wants ─▶ (the recording writes) ─▶ job__captured ─▶ the thread ─▶ done
 *      HTTP        recording                                 recording
 *
 * None of these calls waits, but job__stop.
 */
#ifndef PERFX_SERVE_JOB_H
#define PERFX_SERVE_JOB_H

#include "analyze/rule_set.h"
#include "serve/query.h"

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

/* 0, or -EBUSY: another one is being made, or sent. */
int job__begin(struct job *job, const struct job_request *request);
/* After done: a file of the answer, which is the caller's, from its start; or -errno: ETIMEDOUT,
 * ECANCELED (the recording ends), of the capture, of writing. */
int job__answer_fd(struct job *job);
/* The answer has been sent, or its client is gone. */
void job__end(struct job *job);

/* The path of the file that the recording should write now, malloc'd; NULL: none. */
char *job__wants(struct job *job);
void job__captured(struct job *job, const char *path, int err);

#endif
