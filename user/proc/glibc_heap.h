/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * glibc's heap of a running process, read from outside: how much its arenas hold, and how much of
 * that is free. The same numbers as mallinfo2() in the process, all arenas together.
 *
 * The layout is that of malloc/malloc.c and malloc/arena.c, glibc 2.23 to 2.42. main_arena has no
 * symbol in stripped libraries: it is found in libc's data by its bins, of which each empty one
 * points at itself.
 *
 * The process goes on meanwhile, so a list may change while it is read. Each list is bounded, and
 * all is read once more if two readings disagree.
 */
#ifndef PERFX_PROC_GLIBC_HEAP_H
#define PERFX_PROC_GLIBC_HEAP_H

#include "proc/heap.h"

/* 0 or -errno; -ENOENT: the process has no such heap (another allocator, another C library). */
int glibc_heap_read(const struct pages *pages, const struct maps *maps, struct heap *heap);

/* Length of the block of malloc() that begins with a mapping, by its header; 0: none does. */
uint64_t glibc_mapped_block(const struct pages *pages, uint64_t address, uint64_t end);

#endif
