/* SPDX-License-Identifier: BSD-2-Clause */
/* The library that memory_late opens. */
#include <stdlib.h>

#include "known.h"

TRACED void *late_take(size_t size)
{
	void *block = malloc(size);

	KEEP(block);
	return block;
}

TRACED void late_give(void *block)
{
	free(block);
}
