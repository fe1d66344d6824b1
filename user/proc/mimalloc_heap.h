/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mimalloc's heap, read from outside. It lies in segments, at multiples of 32 MiB, whose headers
 * describe their pages. No symbol is needed: a segment is one, if its slices fill it exactly and
 * each of its pages has room for its blocks (types.h and segment.c, 2.0 to 2.1.2). Other versions
 * have other pages or segments: -ENOENT.
 */
#ifndef PERFX_PROC_MIMALLOC_HEAP_H
#define PERFX_PROC_MIMALLOC_HEAP_H

#include "proc/heap.h"

/* A block that another thread has freed is in use until its owner finds it. 0 or -errno; -ENOENT:
 * the process has no such heap, or none of a known layout. */
int mimalloc_heap_read(struct pages *pages, const struct maps *maps, struct heap *heap);

#endif
