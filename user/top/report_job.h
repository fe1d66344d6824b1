/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A report of the last seconds while the recording goes on: the recording writes them into a file,
 * and another perfx-trace makes the report of it, so that the recording never waits.
 */
#ifndef PERFX_TOP_REPORT_JOB_H
#define PERFX_TOP_REPORT_JOB_H

struct report_job;

/* rules_file: --rules of the report; NULL: none. NULL: out of memory. */
struct report_job *report_job__new(const char *rules_file);
/* Cancels a report that is being made. */
void report_job__free(struct report_job *job);

/* Wants a report, or of a path that ends with .perfx a capture. Says why not, if there is none. */
void report_job__begin(struct report_job *job, const char *path);
/* As in struct recorder_watcher. */
char *report_job__wants(struct report_job *job);
void report_job__captured(struct report_job *job, const char *path, int err);
/* Call it often: it prints that the report has been written, or the error. */
void report_job__tick(struct report_job *job);

#endif
