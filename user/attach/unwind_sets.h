/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mappings of traced processes, in the form that the BPF programs search (bpf/unwind.bpf.h):
 * sets of mappings, sorted by address, and which process uses which. Computed here;
 * unwind_tables.c puts them into the maps.
 *
 * /proc/PID/maps is read in pieces while the process changes it, and what a file says of its code
 * may be anything: an address never leads to a page of another file.
 */
#ifndef PERFX_ATTACH_UNWIND_SETS_H
#define PERFX_ATTACH_UNWIND_SETS_H

#include "perfx_config.h"
#include "proc/maps.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UNWIND_PAGE_BYTES (1ull << PERFX_UNWIND_PAGE_BITS)

#define CODE_SEGMENTS_MAX 8

/* A file's code, and its pages in the table of pages. */
struct code_pages {
	struct code_segment {
		uint64_t vaddr, size, offset; /* bytes */
	} segments[CODE_SEGMENTS_MAX];
	size_t segments_count;
	uint64_t first_vaddr_page; /* vaddr / 64 KiB */
	uint32_t first_page;	   /* its index in the table of pages */
	uint32_t pages_count;	   /* 0: it has none there */
};

/* Adds a segment; an invalid one, or one too many, is left out. */
void code_pages__add_segment(struct code_pages *code, uint64_t vaddr, uint64_t size,
			     uint64_t offset);
/* How many pages all its segments take. */
uint64_t code_pages__needed(const struct code_pages *code);
/* Gives it as many as it needs, from an index on. */
void code_pages__place(struct code_pages *code, uint32_t first_page);
/* The first vaddr of one of its pages. */
uint64_t code_pages__vaddr(const struct code_pages *code, uint32_t page);

struct mapping_list {
	struct perfx_unwind_mapping *list; /* sorted, none overlaps */
	size_t count, capacity;
};

/* Adds a mapping that lies behind those before; of one that overlaps them the rest. code: NULL or
 * without pages: its code has no table. 0 or -ENOMEM. */
int mapping_list__add(struct mapping_list *list, const struct code_pages *code,
		      const struct mapping *mapping);
void mapping_list__clear(struct mapping_list *list);
bool mapping_list__has(const struct mapping_list *list, const struct perfx_unwind_mapping *mapping);
/* Have both the same mappings? */
bool mapping_list__equal(const struct mapping_list *a, const struct mapping_list *b);
/* The page of an address in a mapping that has pages. */
uint32_t mapping_page(const struct perfx_unwind_mapping *mapping, uint64_t address);

#define UNWIND_SLOT_NONE UINT32_MAX

struct unwind_sets;

struct unwind_sets *unwind_sets__new(void);
void unwind_sets__free(struct unwind_sets *sets);

/* The slot of what a process maps; UNWIND_SLOT_NONE: not known. */
uint32_t unwind_sets__slot(const struct unwind_sets *sets, pid_t pid);
const struct mapping_list *unwind_sets__list(const struct unwind_sets *sets, uint32_t slot);
/* UNWIND_SLOT_NONE: all are in use. */
uint32_t unwind_sets__free_slot(const struct unwind_sets *sets);

/* Sets a process's mappings: to a list, which must not be empty and goes into a free slot; or to
 * those of a slot in use. *unused: the slot that became free by this; UNWIND_SLOT_NONE: none.
 * -ENOMEM: nothing has changed. */
int unwind_sets__put(struct unwind_sets *sets, pid_t pid, uint32_t slot, struct mapping_list *list,
		     uint32_t *unused);
int unwind_sets__share(struct unwind_sets *sets, pid_t pid, uint32_t slot, uint32_t *unused);
/* It has ended, or runs another program. The slot that became free, or UNWIND_SLOT_NONE. */
uint32_t unwind_sets__forget(struct unwind_sets *sets, pid_t pid);

/* Have generations begun again since this was asked last? Then what is cached of those before must
 * go. */
bool unwind_sets__generations_again(struct unwind_sets *sets);
/* The programs' entry of a process that uses a slot. */
struct perfx_unwind_process unwind_sets__process(const struct unwind_sets *sets, uint32_t slot);

#endif
