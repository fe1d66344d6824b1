/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the profile (aggregate/profile.h) that says how a process ended: by which signal, who
 * sent it, what was full, and what its threads did last. EXIT, SIGNAL and DEATH records and the
 * samples make it; analyze/death.h puts it into words.
 */
#ifndef PERFX_AGGREGATE_PROFILE_END_H
#define PERFX_AGGREGATE_PROFILE_END_H

#include "aggregate/profile_stack.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_NEIGHBOURS_MAX 8

/* A process in the control group whose memory was full. */
struct profile_neighbour {
	uint32_t pid;
	const char *comm;
	uint64_t rss_bytes;
};

#define PROFILE_LAST_SAMPLES_MAX 64 /* threads of a process */

struct profile_last_sample; /* profile.h */

struct profile_end {
	bool out_of_memory; /* the kernel's out-of-memory killer chose it */
	/* The last signal that ends processes; signal.signal 0: none was seen. The cause of the end
	 * if the status names it: see profile_end_signal(). */
	struct perfx_signal signal;
	const char *sender, *sender_parent, *file; /* "": unknown */
	const char *cgroup;			   /* path of signal.cgroup; "": unknown */
	uint64_t oom_kills_count;		   /* of that group so far; PROFILE_ABSENT */
	const char *storage; /* where the mapped file's file system is mounted; "": unknown */
	struct profile_neighbour neighbours[PROFILE_NEIGHBOURS_MAX]; /* rss_bytes descending */
	size_t neighbours_count;
	struct profile_last_sample *samples; /* newest first; of a status other than 0 alone */
	size_t samples_count;
};

#endif
