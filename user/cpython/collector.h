/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the garbage collector is in an interpreter that has no symbols for it. */
#ifndef PERFX_CPYTHON_COLLECTOR_H
#define PERFX_CPYTHON_COLLECTOR_H

#include "elf/image.h"

#include <stdbool.h>
#include <stdint.h>

/* What its code is called then: all of a collection runs in it. */
#define COLLECTOR_NAME "gc_collect_main"

struct collector {
	uint64_t vaddr, bytes; /* bytes 0: none was found, or it has a name */
};

/* CPython exports PyGC_Collect, which calls a static function that does the work, as does each
 * collection that begins by itself: the first function without a name that it calls. */
struct collector collector_find(struct image *image);

#endif
