/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that a recording follows (follow.c), and how their files get probes
 * (attach_batch.c). */
#ifndef PERFX_SESSION_FOLLOW_INTERNAL_H
#define PERFX_SESSION_FOLLOW_INTERNAL_H

#include "attach/mapped_files.h"
#include "attach/probes.h"
#include "attach/tracer.h"
#include "decode/pack.h"
#include "session/attach_queue.h"
#include "session/follow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * With -a: files that untraced processes mapped before the files had probes. A process may end
 * before its mappings are scanned; its files are then probed for the next process that maps them,
 * and the process is counted as missed if one of them was of interest.
 */

struct early_file {
	pid_t pid;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	char *path; /* malloc'd */
};

/* All zero at first. */
struct early_files {
	struct early_file *files;
	size_t files_count, files_capacity;
};

/* Ignored beyond 4,096 entries, or without memory. */
void early_files_add(struct early_files *early, const struct new_mapping *mapping);
void early_files_clear(struct early_files *early);

#define LOST_MAX 64 /* at most so many processes with lost exit records are found at a time */

struct follow {
	struct recording *recording;
	struct follow_result result;
	struct attach_queue *queue;    /* processes whose files will be planned */
	struct mappings *mappings;     /* NULL: mappings are read at regular times */
	struct file_watch *file_watch; /* NULL: files are checked when any file is mapped */
	struct untraced_files untraced_files;
	bool rescan; /* any process may have mapped a file */
	uint64_t next_scan_ns;
	struct {
		uint64_t next_ns, hits_count; /* time of the next check; hits at the last check */
	} untraced;
	bool full;		  /* there were more processes than the table has room for */
	struct early_files early; /* -a */
	uint64_t opened_ns;	/* when probes were opened last, except those of forked children */
	uint64_t child_life_ns; /* end of the forked child that ended last */
	uint64_t taken_ns;	/* when new mappings were read last */
	uint64_t begin_ns;	/* beginning of the recording; 0: not yet */
	uint64_t used_ns;	/* result of used_ns() at that time */
	pid_t *grown;		/* processes whose stacks need files that arrived late */
	size_t grown_count, grown_capacity;
	uint64_t next_unwind_ns;
	uint64_t next_lost_ns;
	pid_t missing[LOST_MAX]; /* from the kernel's table, at the last check */
	size_t missing_count;
	struct pack_buffer made; /* for LATE and EXIT records */
};

/* A process, and its mapped files with planned functions. */
struct attach_job {
	struct attach_task task;
	uint32_t born;	 /* the process's first index */
	uint32_t parent; /* first index of the parent, which maps the same files; 0: the process is
			    scanned itself */
	size_t *modules; /* malloc'd; still to be attached, or attached after the task's event */
	size_t modules_count;
};

struct attach_batch {
	struct attach_job *jobs;
	size_t jobs_count, jobs_capacity;
	struct sharing *files; /* processes that map these files will be searched */
	size_t files_count, files_capacity;
};

/* Plans the files that a process maps, and adds those to be attached to the batch. Returns their
 * number, or -errno. */
ssize_t attach_batch_scan(struct follow *follow, struct attach_batch *batch,
			  const struct attach_task *task);
/* Attaches and opens the probes of the whole batch: for all processes where only traced ones map a
 * file. The maps of untraced processes are read once for the whole batch, and only for a new file
 * that one of them may map. */
void attach_batch_open(struct follow *follow, struct attach_batch *batch);
void attach_batch_clear(struct attach_batch *batch);
/* Counts the ended processes that had mapped a file of interest before it had probes. */
void follow_count_missed(struct follow *follow);
/* Was a module attached for the process (by its first index) at a time; 0: is it attached now? */
bool follow_was_attached(const struct follow *follow, size_t module, uint32_t born,
			 uint64_t since_ns);
/* Releases the links of a process that ended while it was attached, because its pid may be reused.
 */
void follow_release_if_ended(struct follow *follow, pid_t pid, uint32_t born);
/* Is the process in the BPF programs' table? It may be there while the record of its fork is still
 * unread. */
bool follow_is_traced(pid_t pid, void *follow);

/* Reads a process's mappings, which name the addresses in its stacks. */
void follow_update_mappings(struct follow *follow, const struct attach_task *task);
/* Does a forked child map its parent's files? Not if its parent is queued, or was queued when the
 * child began. */
bool follow_maps_as_parent(const struct follow *follow, const struct attach_task *task);
void follow_enqueue(struct follow *follow, const struct attach_task *task);
/* Writes a LATE record: since when a part of a process was not recorded; without a file: the
 * process has ended. */
void follow_emit_late(struct follow *follow, const struct attach_task *task,
		      struct perfx_late *record, const char *path);

#endif
