/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes a recording is about: the targets that were named, their children, and what they
 * execute and map later. Events put a process into a queue (attach_queue.h); attaching is done
 * between two drains of the rings, for many processes at once.
 */
#ifndef PERFX_SESSION_FOLLOW_H
#define PERFX_SESSION_FOLLOW_H

#include "decode/pack.h"

#include <stdbool.h>
#include <stdint.h>

struct follow;

struct follow_result {
	bool main_ended;
	int main_status;
	uint64_t maps_read_count, untraced_read_count; /* as in struct perfx_end */
	uint64_t missed_count;			       /* PERFX_LOSS_PROCESSES_MISSED */
};

/* Up to now; borrowed. */
const struct follow_result *follow__result(const struct follow *follow);

/* Traces the targets, and those of their descendants that live. 0 or -errno. */
int follow__targets(struct follow *follow);
/* Attaches for all traced processes. 0, or -errno after a message. */
int follow__attach(struct follow *follow);

/* Acts upon a record as it passes: fork, exec, exit. */
void follow__record(struct follow *follow, const struct perfx_record *record);

/* Queues the processes that have mapped something since the last call. Is any process queued? */
bool follow__read_mappings(struct follow *follow);
/* Likewise, unless all mappings up to a time have been read already: records of that time follow.
 */
void follow__read_mappings_until(struct follow *follow, uint64_t time_ns);
/* Attaches for the queued processes. */
void follow__attach_queued(struct follow *follow);

/* Removes the probes of files that have been written to. */
void follow__drop_written_files(struct follow *follow);

#endif
