/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who maps executable files, as it happens: perf's sideband (PERF_RECORD_MMAP2 of a dummy event
 * on each CPU). It costs nothing but on such a mapping, unlike system-call tracepoints, which slow
 * down every system call of the machine, and needs no tracefs.
 */
#ifndef PERFX_ATTACH_MAPPINGS_H
#define PERFX_ATTACH_MAPPINGS_H

#include <stdint.h>
#include <sys/types.h>

struct mappings;

/* NULL with errno: then libraries that arrive late are found by looking from time to time. */
struct mappings *mappings__new(void);
void mappings__free(struct mappings *mappings);

/* A descriptor for epoll, readable when there is something to take. */
int mappings__fd(const struct mappings *mappings);

/* A file that a process has mapped to execute it. Code without a file, such as a just-in-time
 * compiler's, is not reported. */
struct new_mapping {
	pid_t pid;	  /* 0: some were lost, look at all processes */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t inode;
	uint32_t dev_major, dev_minor; /* as in /proc/PID/maps */
};

/* Calls fn for each since the last call. Returns how many records were taken. */
int mappings__take(struct mappings *mappings,
		   void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx);

#endif
