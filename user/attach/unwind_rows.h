/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiled unwind tables in the maps that the BPF programs read (bpf/unwind.bpf.h): rules, rows in
 * slabs of 1 MiB, and the pages of 64 KiB of text that they belong to. A page is compiled at once,
 * published by one store, and stays until it is dropped. Rules stay: the programs remember them.
 */
#ifndef PERFX_ATTACH_UNWIND_ROWS_H
#define PERFX_ATTACH_UNWIND_ROWS_H

#include "elf/image.h"
#include "perfx_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unwind_rows;

/* The memory of the maps, all zero; borrowed. */
struct unwind_memory {
	uint64_t *pages;		 /* PERFX_UNWIND_PAGES_MAX, struct perfx_unwind_page */
	struct perfx_unwind_rule *rules; /* PERFX_UNWIND_RULES_MAX */
	/* The rows of another slab, PERFX_UNWIND_SLAB_ROWS; NULL: no memory. */
	uint32_t *(*add_slab)(void *ctx, uint32_t slab);
	void *ctx;
};

/* NULL: ENOMEM. */
struct unwind_rows *unwind_rows__new(const struct unwind_memory *memory);
void unwind_rows__free(struct unwind_rows *rows);

/* Indices of `count` pages in a row; -ENOSPC: the table is full. */
int64_t unwind_rows__add_pages(struct unwind_rows *rows, size_t count);
/* Is the page compiled? */
bool unwind_rows__loaded(const struct unwind_rows *rows, uint32_t page);
/* Compiles the page whose code begins at vaddr, a multiple of 64 KiB. -ENOSPC: the rows are full.
 */
int unwind_rows__load(struct unwind_rows *rows, uint32_t page, struct image *image, uint64_t vaddr);

/* Takes the rows of pages away: they are as if they had never been loaded. */
void unwind_rows__drop(struct unwind_rows *rows, uint32_t first_page, uint32_t count);
/* Makes room of all that was dropped, which no program may be reading any more; pages that were
 * asked for in vain may be asked for again. 0 or -ENOMEM. */
int unwind_rows__reuse(struct unwind_rows *rows);

/* Kernel memory of the rows: what the slabs take. */
size_t unwind_rows__bytes(const struct unwind_rows *rows);
size_t unwind_rows__pages_loaded(const struct unwind_rows *rows);

#endif
