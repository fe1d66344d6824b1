// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/thresholds.h"

#include "base/units.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
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
	const void *member = (const char *)thresholds + row->offset;

	return *(const double *)member;
}

double threshold_of(const struct thresholds *thresholds, const char *kind, const char *name)
{
	const struct threshold_row *row = threshold_named(kind, name);

	assert(row);
	return threshold_value(thresholds, row);
}

void threshold_set(struct thresholds *thresholds, const struct threshold_row *row, double value)
{
	void *member = (char *)thresholds + row->offset;

	*(double *)member = value;
}

static bool parse_number(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && *value >= 0 && isfinite(*value);
}

/* A bare number could be meant as a part of 1. */
static bool parse_share(const char *text, double *value)
{
	return strchr(text, '%') && !parse_percent(text, value) && isfinite(*value);
}

static bool parse_time(const char *text, double *value)
{
	uint64_t ns;

	if (parse_duration(text, &ns))
		return false;
	*value = (double)ns;
	return true;
}

static bool parse_bytes(const char *text, double *value)
{
	uint64_t bytes;

	if (parse_size(text, &bytes))
		return false;
	*value = (double)bytes;
	return true;
}

static const struct unit_row {
	const char *ending; /* may be left out */
	bool (*parse)(const char *text, double *value);
	const char *want;
} units[] = {
	[THRESHOLD_SHARE] = {"", parse_share, "a share: try 25%"},
	[THRESHOLD_NUMBER] = {"", parse_number, "a number: try 1.5"},
	[THRESHOLD_COUNT] = {"", parse_number, "a count: try 100"},
	[THRESHOLD_PER_S] = {"/s", parse_number, "a count per second: try 1000/s"},
	[THRESHOLD_TIME] = {"", parse_time, "a time: try 5us, 20ms, 1.5s"},
	[THRESHOLD_BYTES] = {"", parse_bytes, "a size: try 64M, 1G"},
	[THRESHOLD_BYTES_PER_S] = {"/s", parse_bytes, "bytes per second: try 50M/s"},
	[THRESHOLD_BYTES_PER_HOUR] = {"/h", parse_bytes, "bytes per hour: try 64M/h"},
};

#define VALUE_MAX 64

const char *threshold_parse(const char *text, enum threshold_unit unit, double *value)
{
	const struct unit_row *row = &units[unit];
	char bare[VALUE_MAX];

	if (strlen(text) >= sizeof(bare))
		return row->want;
	strcpy(bare, text);
	remove_suffix(bare, row->ending);
	return *bare && row->parse(bare, value) ? NULL : row->want;
}

/* In the largest unit that gives a whole number. */
static void add_scaled(struct text *into, double value, const char *const *suffixes,
		       const double *sizes)
{
	while (*sizes > 1 && fmod(value, *sizes) != 0) {
		sizes++;
		suffixes++;
	}
	text_printf(into, "%.15g%s", value / *sizes, *suffixes);
}

/* spaced: for a sentence. */
static void add_time(struct text *into, double ns, bool spaced)
{
	static const char *const suffixes[][4] = {{"s", "ms", "us", "ns"},
						  {" s", " ms", " µs", " ns"}};
	static const double sizes[] = {1e9, 1e6, 1e3, 1};

	add_scaled(into, ns, suffixes[spaced], sizes);
}

static void add_size(struct text *into, double bytes, bool spaced)
{
	static const char *const suffixes[][4] = {{"G", "M", "K", ""},
						  {" GiB", " MiB", " KiB", " B"}};
	static const double sizes[] = {1 << 30, 1 << 20, 1 << 10, 1};

	add_scaled(into, bytes, suffixes[spaced], sizes);
}

static void add_plain(struct text *into, double value, enum threshold_unit unit, bool spaced)
{
	switch (unit) {
	case THRESHOLD_SHARE:
		text_printf(into, spaced ? "%.10g %%" : "%.10g%%", value * 100);
		break;
	case THRESHOLD_TIME:
		add_time(into, value, spaced);
		break;
	case THRESHOLD_BYTES:
	case THRESHOLD_BYTES_PER_S:
	case THRESHOLD_BYTES_PER_HOUR:
		add_size(into, value, spaced);
		break;
	case THRESHOLD_NUMBER:
	case THRESHOLD_COUNT:
	case THRESHOLD_PER_S:
		text_printf(into, "%.15g", value);
		break;
	}
}

void threshold_add_value(struct text *into, double value, enum threshold_unit unit)
{
	add_plain(into, value, unit, false);
	text_add(into, units[unit].ending);
}

void threshold_add_sentence(struct text *into, const char *sentence, const char *kind,
			    const struct thresholds *thresholds)
{
	const char *open;

	for (; (open = strchr(sentence, '{')); sentence = strchr(open, '}') + 1) {
		const struct threshold_row *row;
		char name[VALUE_MAX], *dot;

		text_add_bytes(into, sentence, (size_t)(open - sentence));
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(open + 1, "}"), open + 1);
		dot = strchr(name, '.');
		if (dot)
			*dot = '\0';
		row = dot ? threshold_named(name, dot + 1) : threshold_named(kind, name);
		assert(row);
		add_plain(into, threshold_value(thresholds, row), row->unit, true);
	}
	text_add(into, sentence);
}

void threshold_add_shown(struct text *into, double value, enum threshold_unit unit)
{
	switch (unit) {
	case THRESHOLD_SHARE:
		add_percent(into, value);
		break;
	case THRESHOLD_TIME:
		add_ns(into, u64_of(value));
		break;
	case THRESHOLD_BYTES:
	case THRESHOLD_BYTES_PER_S:
	case THRESHOLD_BYTES_PER_HOUR:
		add_bytes(into, u64_of(value));
		break;
	case THRESHOLD_COUNT:
	case THRESHOLD_PER_S:
		add_count(into, u64_of(value));
		break;
	case THRESHOLD_NUMBER:
		text_printf(into, "%.3g", value);
		break;
	}
	text_add(into, units[unit].ending);
}

void threshold_add(struct text *into, const struct threshold_row *row,
		   const struct thresholds *thresholds)
{
	text_printf(into, "%s.%s = ", row->kind, row->name);
	threshold_add_value(into, threshold_value(thresholds, row), row->unit);
}
