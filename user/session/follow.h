/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes a recording is about: the targets that were named, their children, and what they
 * execute and map later. Events put a process into a queue (attach_queue.h); attaching is done
 * between two drains of the rings, for many processes at once.
 */
#ifndef PERFX_SESSION_FOLLOW_H
#define PERFX_SESSION_FOLLOW_H

#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/recorder.h"
#include "session/recycle.h"

struct follow;

/* What it works on, all borrowed. */
struct follow_parts {
	const struct recorder_options *options;
	struct plan *plan; /* files that arrive are added to it */
	struct skipped_list *skipped;
	struct tracer *tracer;
	struct probes *probes;
	struct memory *memory;
	struct frames *frames;
	struct unwind_tables *unwind_tables; /* NULL: stacks are walked by frame pointers */
	struct process_table *processes;
	struct recycle *recycle; /* NULL: indices are not used again */
	struct sink *sink;
	pid_t main_pid; /* the first target: whose end by a signal is reported */
};

struct follow_result {
	bool main_ended;
	int main_status;
	uint64_t looks_count, untraced_read_count; /* as in struct perfx_end */
	uint64_t missed_count;			   /* PERFX_LOSS_PROCESSES_MISSED */
};

/* NULL with errno. */
struct follow *follow__new(const struct follow_parts *parts);
void follow__free(struct follow *follow);
/* Up to now; borrowed. */
const struct follow_result *follow__result(const struct follow *follow);

/* Traces the targets, and those of their descendants that live. 0 or -errno. */
int follow__targets(struct follow *follow);
/* Attaches for all traced processes. 0, or -errno after a message. */
int follow__attach(struct follow *follow);

/* The recording begins: processes whose probes were open by then are not traced late. */
void follow__begin(struct follow *follow, uint64_t start_ns);

/* Acts upon a record as it passes: fork, exec, exit. */
void follow__record(struct follow *follow, const struct perfx_record *record);
/* At each tick of the clock: files that untraced processes now call often get links by process. */
void follow__tick(struct follow *follow, uint64_t now_ns);

/* A descriptor for epoll, readable when a process has mapped something; -1: there is none. */
int follow__mappings_fd(const struct follow *follow);
/* Queues the processes that have mapped something since the last call. Is any process queued? */
bool follow__take_mappings(struct follow *follow);
/* Likewise, unless all mappings up to a time have been taken already: records of that time follow.
 */
void follow__take_mappings_until(struct follow *follow, uint64_t time_ns);
/* Attaches for the queued processes. */
void follow__attach_queued(struct follow *follow);

/* A descriptor for epoll, readable when a traced file has been written to; -1: there is none. */
int follow__files_fd(const struct follow *follow);
/* Takes the probes out of files that have been written to. */
void follow__files(struct follow *follow);

#endif
