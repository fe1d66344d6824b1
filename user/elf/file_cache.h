/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that processes map, kept open from when they are first seen: when they are read, at the end
 * of a recording, the process may be gone and the file deleted or replaced.
 */
#ifndef PERFX_ELF_FILE_CACHE_H
#define PERFX_ELF_FILE_CACHE_H

#include "elf/image.h"
#include "proc/maps.h"

#include <stdint.h>

/* Descriptors at most, of the 65,536 that the tracer allows itself. A process with PyTorch has 200
 * to 500 files. Files beyond are known by their path only. */
#define FILE_CACHE_FILES_MAX 4096
/* Roots (/proc/PID/root) at most, one for each container: where debug files are looked for. */
#define FILE_CACHE_ROOTS_MAX 256
#define FILE_CACHE_NONE	     UINT32_MAX

struct file_cache;

struct file_cache *file_cache__new(void);
void file_cache__free(struct file_cache *files);

/* The process's root, to be given to file_cache__add. FILE_CACHE_NONE: not to be had. */
uint32_t file_cache__root(struct file_cache *files, pid_t pid);
/* The file of a mapping of that process, opened when it is new; equal (device, inode) is equal
 * index. FILE_CACHE_NONE: out of memory. */
uint32_t file_cache__add(struct file_cache *files, pid_t pid, uint32_t root,
			 const struct mapping *mapping);

/* Are both one file? Reports of an overlay's file differ in its device; equal paths tell. */
bool file_cache__same(const struct file_cache *files, uint32_t a, uint32_t b);

/* The root for rootfs_open(); valid as long as files. */
struct root_path {
	char text[32];
};
struct root_path file_cache__root_path(const struct file_cache *files, uint32_t root);

/* How many were not opened because there were FILE_CACHE_FILES_MAX already. */
size_t file_cache__left_out(const struct file_cache *files);
/* As the first process that mapped it sees it; lives as long as files. */
const char *file_cache__path(const struct file_cache *files, uint32_t file);
/* The caller frees. NULL: not held, or no ELF file. */
struct image *file_cache__image(const struct file_cache *files, uint32_t file);

#endif
