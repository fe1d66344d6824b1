// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/thresholds.h"

#include <assert.h>
#include <math.h>
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

/* In the largest unit that gives a whole number. */
static void add_scaled(struct text *into, double value, const char *const *units,
		       const double *sizes)
{
	while (*sizes > 1 && fmod(value, *sizes) != 0) {
		sizes++;
		units++;
	}
	text_printf(into, "%.15g%s", value / *sizes, *units);
}

static void add_time(struct text *into, double ns)
{
	static const char *const units[] = {"s", "ms", "us", "ns"};
	static const double sizes[] = {1e9, 1e6, 1e3, 1};

	add_scaled(into, ns, units, sizes);
}

static void add_size(struct text *into, double bytes)
{
	static const char *const units[] = {"G", "M", "K", ""};
	static const double sizes[] = {1 << 30, 1 << 20, 1 << 10, 1};

	add_scaled(into, bytes, units, sizes);
}

static void add_value(struct text *into, double value, enum threshold_unit unit)
{
	switch (unit) {
	case THRESHOLD_SHARE:
		text_printf(into, "%.10g%%", value * 100);
		break;
	case THRESHOLD_TIME:
		add_time(into, value);
		break;
	case THRESHOLD_BYTES:
	case THRESHOLD_BYTES_PER_S:
	case THRESHOLD_BYTES_PER_HOUR:
		add_size(into, value);
		break;
	case THRESHOLD_NUMBER:
	case THRESHOLD_COUNT:
	case THRESHOLD_PER_S:
		text_printf(into, "%.15g", value);
		break;
	}
	if (unit == THRESHOLD_PER_S || unit == THRESHOLD_BYTES_PER_S)
		text_add(into, "/s");
	else if (unit == THRESHOLD_BYTES_PER_HOUR)
		text_add(into, "/h");
}

void threshold_add(struct text *into, const struct threshold_row *row,
		   const struct thresholds *thresholds)
{
	text_printf(into, "%s.%s = ", row->kind, row->name);
	add_value(into, threshold_value(thresholds, row), row->unit);
}
