/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that are only another way to a function: operator delete that jumps to free. A probe on
 * both would see one call twice.
 */
#ifndef PERFX_SITE_FORWARD_H
#define PERFX_SITE_FORWARD_H

#include "elf/image.h"

/* Is this the function that is asked about? vaddr: where it is in this file, 0 when elsewhere;
 * name: as an import, or NULL. */
typedef bool (*forward_fn)(uint64_t vaddr, const char *name, void *ctx);

/* A call of the function at vaddr always comes to one of the others, or does nothing (gives back a
 * NULL): by jumps, so that the other's caller is this one's, or by calls. */
enum forward { FORWARD_NO = 0, FORWARD_JUMPS, FORWARD_CALLS };

/* FORWARD_NO also where nothing can be proved; -ENOMEM. */
int forward_decide(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx);

/* 1: some way through the function calls one of the others, or jumps to it. 0: none does; < 0: not
 * known, or -ENOMEM. */
int forward_passes(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx);

#endif
