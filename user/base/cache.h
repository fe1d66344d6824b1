/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that are kept from run to run because they save time, in /var/cache/perfx-trace for root,
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

/* As cache_store and cache_load, of something that was found out under a condition, by a hash of
 * which it is known: the content (malloc'd) if it is whole, was kept for that key, and is no larger
 * than bytes_max; NULL otherwise. */
int cache_keep(const char *path, uint64_t key, const void *data, size_t size);
void *cache_recall(const char *path, uint64_t key, size_t bytes_max, size_t *size);

/* Makes room for one more file in a folder that has so many: deletes the one that was kept first.
 */
void cache_bound(const char *folder, size_t files_max);

#endif
