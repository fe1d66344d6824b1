/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process maps executably at some time. Never changed, shared by related processes. */
#ifndef PERFX_SESSION_VIEWS_H
#define PERFX_SESSION_VIEWS_H

#include "elf/file_cache.h"

#include <stdbool.h>
#include <stddef.h>

struct mapped_range {
	uint64_t start, end; /* addresses in the process, [start, end) */
	uint64_t offset;     /* of start in the file */
	uint32_t file;	     /* in the file cache; FILE_CACHE_NONE: code without a file */
	uint32_t pad;
};

struct address_map {
	size_t users;
	size_t count;
	struct mapped_range ranges[]; /* in order of address */
};

/* Opens the files that are new. One user; NULL: out of memory. */
struct address_map *address_map__new(struct file_cache *files, pid_t pid, const struct maps *maps);
struct address_map *address_map__get(struct address_map *map);
/* The last user's frees it. NULL is fine. */
void address_map__put(struct address_map *map);

/* The span that contains an address. view NULL: nothing is mapped. */
const struct mapped_range *address_map__find(const struct address_map *map, uint64_t address);
bool address_map__same(const struct address_map *a, const struct address_map *b);
bool mapped_range_same(const struct mapped_range *a, const struct mapped_range *b);

#endif
