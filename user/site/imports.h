/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a call through the procedure linkage table calls, by name: a function's last call may be
 * one that does not come back, or that only gives memory back.
 */
#ifndef PERFX_SITE_IMPORTS_H
#define PERFX_SITE_IMPORTS_H

#include "elf/image.h"

/* Name of the function that the stub at a vaddr jumps to; NULL: no stub, or not known. Borrowed
 * from the image. *vaddr: where this file defines it, 0 if another does; may be NULL. */
const char *import_at(const struct image *image, uint64_t stub, uint64_t *vaddr);

bool import_never_returns(const char *name);
/* free and operator delete */
bool import_frees(const char *name);

#endif
