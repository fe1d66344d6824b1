/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that processes execute: new mappings of them, which of them untraced processes map too,
 * and which are written to while they are traced. */
#ifndef PERFX_ATTACH_MAPPED_FILES_H
#define PERFX_ATTACH_MAPPED_FILES_H

#include "base/grow.h"
#include "plan/plan.h"
#include "proc/maps.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * New mappings as they happen, by perf's sideband (PERF_RECORD_MMAP2 of a dummy event on each
 * CPU). It costs
 * something only on such a mapping, unlike system-call tracepoints, which slow down every system
 * call of the machine, and needs no tracefs.
 */

struct mappings;

/* NULL with errno: then libraries that arrive late are found by reading the mappings from time to
 * time. */
struct mappings *mappings__new(void);
void mappings__free(struct mappings *mappings);

/* A descriptor for epoll, readable when there is something to take. */
int mappings__fd(const struct mappings *mappings);

/* A file, or memory without one, that a process has mapped to execute it. */
struct new_mapping {
	pid_t pid;	  /* 0: some were lost: read those of all processes */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	/* As in /proc/PID/maps, but the path of a deleted file; valid until fn returns. */
	struct mapping mapping;
};

/* Calls fn for each since the last call, in order of time. Returns how many records were read. */
int mappings__drain(struct mappings *mappings,
		    void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx);

struct sharing {
	size_t module; /* index in the plan */
	bool shared;   /* out: a process that is not traced maps it */
};

/* Inode numbers of the files that untraced processes execute: of one pass over /proc, and of the
 * new mappings since. A file that is not among them is not shared; one that is may be another file
 * of that number, or its process may have ended. */
struct untraced_files {
	struct map64 inodes;
	bool complete; /* false: some may be missing, and only another pass finds out */
};

/* An untraced process has mapped a file. */
void untraced_files_add(struct untraced_files *untraced, uint64_t inode);
void untraced_files_clear(struct untraced_files *untraced);

/* Marks the files that are shared. Passes over /proc for those that may be. Returns how many
 * processes' maps were read. */
size_t sharing_find(struct untraced_files *untraced, const struct plan *plan,
		    bool (*is_traced)(pid_t pid, void *ctx), void *ctx, struct sharing *files,
		    size_t count);

/*
 * Traced files that are written to. A probe is put where an instruction of the old content was, and
 * the kernel executes what it read there: a program that maps the new content dies of it. So all
 * probes of a file go as soon as it is written to; programs that map it from then on get their own,
 * planned anew.
 *
 * Limits: writes through a shared mapping are noticed only when a program maps something next, and
 * a program that maps the file between the write and the tracer's turn still meets the old probes.
 * A program that ran on the old content has lost it by the write itself.
 */

struct file_watch;

/* NULL with errno: then changes are found when something is mapped. */
struct file_watch *file_watch__new(void);
void file_watch__free(struct file_watch *watch);
/* A descriptor for epoll, readable when a file has been written to; -1 for NULL. */
int file_watch__fd(const struct file_watch *watch);
/* Watches what has been planned since the last time. */
void file_watch__follow(struct file_watch *watch, const struct plan *plan);
/* Empties the descriptor. */
void file_watch__drain(struct file_watch *watch);

/* Does the process map the module's file? */
bool process_maps(pid_t pid, const struct plan *plan, size_t module);
/* Does the process have in memory what the file has, wherever something of the module is planned?
 * Pages in which there have been probes are its own copies, and may be older. */
bool process_holds(pid_t pid, const struct plan *plan, size_t module);

#endif
