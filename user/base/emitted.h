/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Growing sums, emitted as differences: each record has the growth since the record before it.
 * Remembers the emitted sums of each key. All-zero but for width is empty.
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
	uint64_t *keys;	   /* by row */
	size_t rows_count, sums_capacity, keys_capacity;
};

void emitted_clear(struct emitted *emitted);

/* Subtracts from the sums of a key, in place, the part that was emitted. Is anything left? */
bool emitted_subtract(const struct emitted *emitted, uint64_t key, void *sums);
/* Notes that the difference is emitted. 0, or -ENOMEM: then the caller must not emit it. */
int emitted_add(struct emitted *emitted, uint64_t key, const void *difference);
/* Sums of these keys begin at 0 again. */
void emitted_forget(struct emitted *emitted, bool (*is_gone)(const void *ctx, uint64_t key),
		    const void *ctx);
/* Both. 1: something is left; 0: nothing; -ENOMEM. */
int emitted_advance(struct emitted *emitted, uint64_t key, void *sums);

#endif
