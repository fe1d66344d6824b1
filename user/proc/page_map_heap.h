/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heaps of jemalloc and of gperftools' tcmalloc, read from outside. Both keep a map of their
 * pages: a root in the data of their library, of pointers to leaves, of which each word leads to
 * the description of the extent (jemalloc) or span (tcmalloc) that the page belongs to.
 *
 * No symbol is needed: a pointer is the root's, if the descriptions that it leads to name the very
 * pages by whose numbers they were reached.
 *
 *	jemalloc 5.2, 5.3	rtree.h, extent_structs.h and edata.h, emap.c; 4 KiB pages
 *	gperftools 2.10, 2.16	pagemap.h, span.h; 8 KiB pages, with 48 bits of address
 *
 * Others have another layout (jemalloc before 5.2, Google's own tcmalloc): -ENOENT.
 */
#ifndef PERFX_PROC_PAGE_MAP_HEAP_H
#define PERFX_PROC_PAGE_MAP_HEAP_H

#include "proc/heap.h"

/* What the allocators' own statistics say of it:
 *	jemalloc: held: stats.active and the pages of dirty and muzzy extents; used: of slabs
 *	curregs, of large blocks their extents
 *	tcmalloc: held: generic.heap_size; free: page heap and central lists
 * 0 or -errno; -ENOENT: the process has no such heap, or none of a known layout. */
int jemalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap);
int tcmalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap);

#endif
