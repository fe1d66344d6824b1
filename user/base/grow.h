/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays and string pools that grow. */
#ifndef PERFX_BASE_GROW_H
#define PERFX_BASE_GROW_H

#include <stddef.h>

/* Makes room for `needed` items in an array that malloc gave (or NULL). `array` is the address of
 * the pointer; new items are zero. 0 or -ENOMEM, and then the array is as it was. */
int grow_array(void *array, size_t *capacity, size_t needed, size_t item_size);

/* Strings that live and die together: one allocation for many. All-zero is an empty pool. */
struct pool {
	struct pool_block *blocks;
};

/* A copy that lives until pool_clear; NULL when memory is out. */
const char *pool_add(struct pool *pool, const char *text);
void pool_clear(struct pool *pool);

#endif
