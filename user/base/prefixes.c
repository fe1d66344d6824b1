// SPDX-License-Identifier: BSD-2-Clause
#include "base/prefixes.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

int prefixes_add(struct prefixes *prefixes, const char *text)
{
	int err = grow_array(&prefixes->list, &prefixes->capacity, prefixes->count + 1,
			     sizeof(*prefixes->list));

	if (!err)
		prefixes->list[prefixes->count++] = text;
	return err;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void prefixes_sort(struct prefixes *prefixes)
{
	if (prefixes->count)
		qsort(prefixes->list, prefixes->count, sizeof(*prefixes->list), compare);
}

/* From low to high are those that begin as the name does, up to depth; the shortest stands first.
 */
bool prefixes_match(const struct prefixes *prefixes, const char *name)
{
	const char **list = prefixes->list;
	size_t low = 0, high = prefixes->count;

	for (size_t depth = 0; low < high; depth++) {
		if (!list[low][depth])
			return true;
		while (low < high && list[low][depth] != name[depth])
			low++;
		while (low < high && list[high - 1][depth] != name[depth])
			high--;
	}
	return false;
}

void prefixes_clear(struct prefixes *prefixes)
{
	free(prefixes->list);
	*prefixes = (struct prefixes){0};
}
