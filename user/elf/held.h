/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that processes map, held open from the moment they are seen: when they are read, at the end
 * of a recording, the process may be gone and the file deleted or replaced.
 */
#ifndef PERFX_ELF_HELD_H
#define PERFX_ELF_HELD_H

#include "elf/image.h"
#include "proc/maps.h"

#include <stdint.h>

/* Descriptors at most, of the 65,536 that the tracer allows itself. A process with PyTorch has 200
 * to 500 files. Files beyond are known by their path only. */
#define HELD_FILES_MAX 4096
/* Roots (/proc/PID/root) at most, one for each container: where debug files are looked for. */
#define HELD_ROOTS_MAX 256
#define HELD_NONE      UINT32_MAX

struct held_files;

struct held_files *held_files__new(void);
void held_files__free(struct held_files *files);

/* The process's root, to be given to held_files__add. HELD_NONE: not to be had. */
uint32_t held_files__root(struct held_files *files, pid_t pid);
/* The file of a mapping of that process, opened when it is new; equal (device, inode) is equal
 * index. HELD_NONE: out of memory. */
uint32_t held_files__add(struct held_files *files, pid_t pid, uint32_t root,
			 const struct mapping *mapping);

/* As the first process that mapped it sees it; lives as long as files. */
const char *held_files__path(const struct held_files *files, uint32_t file);
/* The caller frees. NULL: not held, or no ELF file. */
struct image *held_files__image(const struct held_files *files, uint32_t file);

#endif
