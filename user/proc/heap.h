/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap of a running process, read from outside: where it lies, how much its allocator holds,
 * and how much of that is free. Each allocator has its reader: glibc_heap.h, page_map_heap.h,
 * mimalloc_heap.h. A reader believes no layout that the data themselves do not confirm.
 *
 * The process goes on meanwhile, so what is read may change. Each walk is bounded.
 */
#ifndef PERFX_PROC_HEAP_H
#define PERFX_PROC_HEAP_H

#include "proc/maps.h"
#include "proc/pages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_range {
	uint64_t start, end; /* addresses */
};

struct heap_ranges {
	struct heap_range *list;
	size_t count, capacity;
};

/* Adds a range, or makes the last one longer if it ends there. 0 or -ENOMEM. */
int heap_ranges_add(struct heap_ranges *ranges, uint64_t start, uint64_t end);

struct heap {
	unsigned arenas_count;
	uint64_t held_bytes;	  /* from the kernel, and not given back; touched or not */
	uint64_t free_bytes;	  /* of that. Blocks in threads' caches are in use */
	uint64_t scattered_bytes; /* of free_bytes: beside the pages in `free` */
	bool exact;		  /* nothing changed while it was read, within 1 % */
	/* glibc's: ends of arenas, in free_bytes; blocks with mappings of their own, UINT64_MAX if
	 * they are not known */
	uint64_t top_bytes, mapped_bytes, mapped_count;
	/* Where blocks and the allocator's own data lie, beside the [heap] of brk(); whole pages of
	 * that which are free, given back or not. In order of address. */
	struct heap_ranges ranges, free;
};

void heap_clear(struct heap *heap);
/* Adds a free piece of memory: to `free`, if it has many whole pages. 0 or -ENOMEM. */
#define HEAP_CHUNK_BYTES 65536
int heap_add_free(struct heap *heap, uint64_t start, uint64_t bytes);
/* Puts the ranges in order of address, and joins those that touch or overlap. */
void heap_sort(struct heap *heap);

/* Reads small pieces that lie near each other: it keeps the page that it read last. */
struct heap_reader {
	const struct pages *pages;
	uint64_t page; /* 0: none */
	uint8_t bytes[4096];
};

/* 0 or -errno. */
int heap_reader_copy(struct heap_reader *reader, uint64_t address, void *to, size_t size);

#endif
