/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With -a: files that untraced processes mapped before the files had probes. A process may end
 * before its mappings are scanned; its files are then probed for the next process that maps them,
 * and the process is counted as missed if one of them was of interest.
 */
#ifndef PERFX_SESSION_EARLY_FILES_H
#define PERFX_SESSION_EARLY_FILES_H

#include "attach/mapped_files.h"
#include "attach/probes.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* Ignored if there are 4,096 already, or without memory. */
void early_files_add(struct early_files *early, const struct new_mapping *mapping);
/* Plans the files of processes that have ended, and attaches those of interest for all processes.
 */
void early_files_attach(const struct early_files *early, struct plan *plan, struct probes *probes);
/* 1: the process mapped a file of interest; 0: none; -1: one of its files cannot be read any more.
 */
int early_files_are_ml(const struct early_files *early, const struct plan *plan, pid_t pid);
void early_files_forget(struct early_files *early, pid_t pid);
void early_files_clear(struct early_files *early);

#endif
