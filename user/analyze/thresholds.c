// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/thresholds.h"

#include <assert.h>
#include <string.h>

const struct threshold_row threshold_rows[] = {
#define THRESHOLD(member, kind, name, value, unit, meaning) \
	{kind, name, value, THRESHOLD_##unit, meaning, offsetof(struct thresholds, member)},
#include "analyze/thresholds.def"
#undef THRESHOLD
};
const size_t threshold_rows_count = sizeof(threshold_rows) / sizeof(threshold_rows[0]);

const struct threshold_row *threshold_named(const char *kind, const char *name)
{
	for (size_t i = 0; i < threshold_rows_count; i++)
		if (!strcmp(threshold_rows[i].kind, kind) && !strcmp(threshold_rows[i].name, name))
			return &threshold_rows[i];
	return NULL;
}

double threshold_value(const struct thresholds *thresholds, const struct threshold_row *row)
{
	return *(const double *)((const char *)thresholds + row->offset);
}

double threshold_of(const struct thresholds *thresholds, const char *kind, const char *name)
{
	const struct threshold_row *row = threshold_named(kind, name);

	assert(row);
	return threshold_value(thresholds, row);
}
