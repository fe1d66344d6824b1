// SPDX-License-Identifier: BSD-2-Clause
#include "base/emitted.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void emitted_clear(struct emitted *emitted)
{
	map64_clear(&emitted->rows);
	free(emitted->sums);
	free(emitted->keys);
	*emitted = (struct emitted){.width = emitted->width};
}

bool emitted_subtract(const struct emitted *emitted, uint64_t key, void *sums)
{
	uint32_t row = map64_get(&emitted->rows, key);
	unsigned char *at = sums;
	bool any = false;

	for (size_t i = 0; i < emitted->width; i++, at += sizeof(uint64_t)) {
		uint64_t sum;

		memcpy(&sum, at, sizeof(sum));
		if (row != MAP64_NONE)
			sum -= emitted->sums[row * emitted->width + i];
		memcpy(at, &sum, sizeof(sum));
		any = any || sum;
	}
	return any;
}

int emitted_add(struct emitted *emitted, uint64_t key, const void *difference)
{
	const unsigned char *at = difference;
	uint32_t row = map64_get(&emitted->rows, key);

	if (row == MAP64_NONE) {
		row = (uint32_t)emitted->rows_count;
		if (grow_array(&emitted->sums, &emitted->sums_capacity, (row + 1) * emitted->width,
			       sizeof(uint64_t)) ||
		    grow_array(&emitted->keys, &emitted->keys_capacity, row + 1,
			       sizeof(uint64_t)) ||
		    map64_put(&emitted->rows, key, row))
			return -ENOMEM;
		emitted->keys[row] = key;
		emitted->rows_count++;
	}
	for (size_t i = 0; i < emitted->width; i++, at += sizeof(uint64_t)) {
		uint64_t more;

		memcpy(&more, at, sizeof(more));
		emitted->sums[row * emitted->width + i] += more;
	}
	return 0;
}

void emitted_forget(struct emitted *emitted, bool (*is_gone)(const void *ctx, uint64_t key),
		    const void *ctx)
{
	for (size_t row = 0; row < emitted->rows_count; row++)
		if (is_gone(ctx, emitted->keys[row]))
			memset(&emitted->sums[row * emitted->width], 0,
			       emitted->width * sizeof(uint64_t));
}

int emitted_advance(struct emitted *emitted, uint64_t key, void *sums)
{
	int err;

	if (!emitted_subtract(emitted, key, sums))
		return 0;
	err = emitted_add(emitted, key, sums);
	return err ? err : 1;
}
