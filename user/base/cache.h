/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cached files, kept from run to run, in /var/cache/perfx-trace for root,
 * in $XDG_CACHE_HOME/perfx-trace or ~/.cache/perfx-trace for others. Nothing depends on them: a
 * file that is missing or damaged, or that another user could have written, is made anew.
 */
#ifndef PERFX_BASE_CACHE_H
#define PERFX_BASE_CACHE_H

#include <stddef.h>
#include <stdint.h>

/* The path of a file or folder there (malloc'd); NULL: there is no place, or no memory. */
char *cache_path(const char *name);

/* The content of a file (malloc'd). NULL with errno: EPERM another user owns the file or its
 * folder, or may write there; EFBIG it has more than bytes_max; ELOOP a symbolic link. */
void *cache_load(const char *path, size_t bytes_max, size_t *size);

/* Replaces the file as a whole and makes missing folders: 0 or -errno. */
int cache_store(const char *path, const void *data, size_t size);

/* As cache_store and cache_load, for a result that is valid for one key (a hash of its inputs).
 * cache_recall: the content (malloc'd) if it is intact, was kept for that key, and is no larger
 * than bytes_max; NULL otherwise. */
int cache_keep(const char *path, uint64_t key, const void *data, size_t size);
void *cache_recall(const char *path, uint64_t key, size_t bytes_max, size_t *size);

/* Deletes the oldest file of a folder that has files_max files, to make room for one more. */
void cache_bound(const char *folder, size_t files_max);

#endif
