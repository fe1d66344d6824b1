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

static int add_row(struct emitted *emitted, uint64_t key)
{
	size_t needed = (emitted->rows_count + 1) * emitted->width;
	int err = grow_array(&emitted->sums, &emitted->sums_capacity, needed, sizeof(uint64_t));

	if (!err)
		err = map64_put(&emitted->rows, key, (uint32_t)emitted->rows_count);
	emitted->rows_count += !err;
	return err;
}

int emitted_add(struct emitted *emitted, uint64_t key, const void *difference)
{
	const unsigned char *at = difference;
	uint32_t row = map64_get(&emitted->rows, key);

	if (row == MAP64_NONE) {
		if (add_row(emitted, key))
			return -ENOMEM;
		row = (uint32_t)emitted->rows_count - 1;
	}
	for (size_t i = 0; i < emitted->width; i++, at += sizeof(uint64_t)) {
		uint64_t more;

		memcpy(&more, at, sizeof(more));
		emitted->sums[row * emitted->width + i] += more;
	}
	return 0;
}

int emitted_advance(struct emitted *emitted, uint64_t key, void *sums)
{
	int err;

	if (!emitted_subtract(emitted, key, sums))
		return 0;
	err = emitted_add(emitted, key, sums);
	return err ? err : 1;
}
