// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/given.h"

#include "base/units.h"
#include "decode/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A number outside is a slip: a unit that was forgotten. */
#define RATE_MIN 1000000ull
#define RATE_MAX 1000000000000000000ull

static int parse_peak(const char *text, uint64_t *rate)
{
	if (parse_rate(text, rate) || *rate < RATE_MIN || *rate > RATE_MAX)
		return -EINVAL;
	return 0;
}

static enum perfx_dtype dtype_named(const char *name, size_t length)
{
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		const char *known = name_of_dtype(peaks_dtypes[i]);

		if (strlen(known) == length && !strncmp(name, known, length))
			return peaks_dtypes[i];
	}
	return PERFX_DTYPE_UNKNOWN;
}

static int take_one(struct peaks_given *given, const char *item)
{
	const char *colon = strchr(item, ':');
	enum perfx_dtype dtype = colon ? dtype_named(item, (size_t)(colon - item)) : 0;
	uint64_t rate;

	if (parse_peak(colon ? colon + 1 : item, &rate) || (colon && !dtype))
		return -EINVAL;
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (!colon || peaks_dtypes[i] == dtype)
			given->flops[peaks_dtypes[i]] = rate;
	return 0;
}

int peaks_given_flops(struct peaks_given *given, const char *text)
{
	char *copy = strdup(text), *rest = copy, *item;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (item = strsep(&rest, ",")))
		err = take_one(given, item);
	free(copy);
	return err;
}

int peaks_given_bytes(struct peaks_given *given, const char *text)
{
	return parse_peak(text, &given->bytes);
}

static bool any_flops(const struct peaks_given *given)
{
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (given->flops[peaks_dtypes[i]])
			return true;
	return false;
}

bool peaks_given_any(const struct peaks_given *given)
{
	return given->bytes || any_flops(given);
}

bool peaks_given_all(const struct peaks_given *given)
{
	return given->bytes && any_flops(given);
}
