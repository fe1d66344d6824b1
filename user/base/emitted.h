/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sums that grow while they are emitted, as differences: each record has what has come since the
 * one before it. Remembers for each key what has been emitted. All-zero but for width is empty.
 *
 * Sums are `width` integers of 64 bits each, signed or not, as they lie in a record.
 */
#ifndef PERFX_BASE_EMITTED_H
#define PERFX_BASE_EMITTED_H

#include "base/grow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emitted {
	size_t width;	   /* sums of a key */
	struct map64 rows; /* by key */
	uint64_t *sums;	   /* by row */
	size_t rows_count, sums_capacity;
};

void emitted_clear(struct emitted *emitted);

/* Takes from the sums of a key, in place, what has been emitted of them. Is anything left? */
bool emitted_subtract(const struct emitted *emitted, uint64_t key, void *sums);
/* What is left has been emitted, too. 0 or -ENOMEM: then it must not be. */
int emitted_add(struct emitted *emitted, uint64_t key, const void *difference);
/* Both. 1: something is left; 0: nothing; -ENOMEM. */
int emitted_advance(struct emitted *emitted, uint64_t key, void *sums);

#endif
