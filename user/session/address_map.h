/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An address map lists the executable mappings of a process, in order of address. A process and the
 * children that it forks share a map, so a map is never changed: a new mapping makes a new map.
 */
#ifndef PERFX_SESSION_ADDRESS_MAP_H
#define PERFX_SESSION_ADDRESS_MAP_H

#include "elf/file_cache.h"
#include "proc/maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapped_range {
	uint64_t start, end; /* addresses in the process, [start, end) */
	uint64_t offset;     /* of start in the file */
	/* It lay there in [from_ns, until_ns), CLOCK_MONOTONIC; from_ns 0: since nothing else did.
	 */
	uint64_t from_ns, until_ns;
	uint32_t file;	/* in the file cache; FILE_CACHE_NONE: code without a file */
	bool ended_ago; /* until_ns is when it was seen last, not when it was replaced */
};

struct address_map {
	size_t users;
	size_t count;
	struct mapped_range ranges[]; /* in order of address */
};

/* Opens the mapping's file if it is new; root: of the process, from file_cache__root. */
struct mapped_range mapped_range_of(struct file_cache *files, pid_t pid, uint32_t root,
				    const struct mapping *mapping);
bool mapped_range_overlaps(const struct mapped_range *a, const struct mapped_range *b);

/* Opens the files that are new. One user; NULL: out of memory. */
struct address_map *address_map__new(struct file_cache *files, pid_t pid, const struct maps *maps);
/* A copy in which a range takes the place of those that it overlaps. One user; NULL: out of
 * memory. */
struct address_map *address_map__with(const struct address_map *map,
				      const struct mapped_range *range);
/* One more user. */
struct address_map *address_map__get(struct address_map *map);
/* One user less; the last one frees it. NULL is fine. */
void address_map__put(struct address_map *map);

/* Have both the same files at the same addresses? a NULL: no. */
bool address_map__same(const struct address_map *a, const struct address_map *b);
/* The range that contains an address, or NULL. map NULL: nothing is mapped. */
const struct mapped_range *address_map__find(const struct address_map *map, uint64_t at);

#endif
