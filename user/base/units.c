// SPDX-License-Identifier: BSD-2-Clause
#include "base/units.h"

#include "base/escape.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct scale {
	double factor; /* of the base unit */
	const char *unit;
	double end; /* from here on the next one is better */
};

/* Three digits, and those before the point always: 1.23 12.3 123 1023 */
static int print_digits(char *buffer, double value)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	return snprintf(buffer, UNITS_MAX, "%.*f", decimals, value);
}

static const char *print_scaled(char *buffer, double value, const struct scale *scale)
{
	int length;

	/* values that round up to the next unit are shown in it: 1.00 ms, not 1000 µs */
	while (value / scale->factor >= scale->end)
		scale++;
	length = print_digits(buffer, value / scale->factor);
	snprintf(buffer + length, (size_t)(UNITS_MAX - length), " %s", scale->unit);
	return buffer;
}

const char *format_ns(char buffer[UNITS_MAX], uint64_t ns)
{
	static const struct scale scales[] = {
		{1e3, "µs", 999.5},   {1e6, "ms", 999.5},   {1e9, "s", 99.95},
		{60e9, "min", 99.95}, {3600e9, "h", 1e300},
	};

	if (ns < 1000) {
		snprintf(buffer, UNITS_MAX, "%u ns", (unsigned)ns);
		return buffer;
	}
	return print_scaled(buffer, (double)ns, scales);
}

const char *format_bytes(char buffer[UNITS_MAX], uint64_t bytes)
{
	static const struct scale scales[] = {
		{0x1p10, "KiB", 1023.5}, {0x1p20, "MiB", 1023.5}, {0x1p30, "GiB", 1023.5},
		{0x1p40, "TiB", 1023.5}, {0x1p50, "PiB", 1e300},
	};

	if (bytes < 1024) {
		snprintf(buffer, UNITS_MAX, "%u B", (unsigned)bytes);
		return buffer;
	}
	return print_scaled(buffer, (double)bytes, scales);
}

const char *format_count(char buffer[UNITS_MAX], uint64_t count)
{
	static const struct scale scales[] = {
		{1e6, "M", 999.5}, {1e9, "G", 999.5}, {1e12, "T", 999.5}, {1e15, "P", 1e300}};
	unsigned n = (unsigned)count;

	if (count >= 10000000)
		return print_scaled(buffer, (double)count, scales);
	if (n < 1000)
		snprintf(buffer, UNITS_MAX, "%u", n);
	else if (n < 1000000)
		snprintf(buffer, UNITS_MAX, "%u,%03u", n / 1000, n % 1000);
	else
		snprintf(buffer, UNITS_MAX, "%u,%03u,%03u", n / 1000000, n / 1000 % 1000, n % 1000);
	return buffer;
}

const char *format_si(char buffer[UNITS_MAX], double value, const char *unit)
{
	static const char prefixes[][2] = {"", "k", "M", "G", "T", "P", "E"};
	size_t i = 0;
	int length;

	while (value >= 999.5 && i + 1 < sizeof(prefixes) / sizeof(prefixes[0])) {
		value /= 1000;
		i++;
	}
	if (!i && value == (double)(unsigned)value)
		length = snprintf(buffer, UNITS_MAX, "%u", (unsigned)value);
	else
		length = print_digits(buffer, value);
	if (prefixes[i][0] || unit[0])
		snprintf(buffer + length, (size_t)(UNITS_MAX - length), " %s%.15s", prefixes[i],
			 unit);
	return buffer;
}

const char *format_percent(char buffer[UNITS_MAX], double share)
{
	double percent = share * 100;

	if (!(percent > 0))
		snprintf(buffer, UNITS_MAX, "0 %%");
	else if (percent < 0.1)
		snprintf(buffer, UNITS_MAX, "<0.1 %%");
	else
		snprintf(buffer, UNITS_MAX, "%.*f %%", percent < 99.95 ? 1 : 0, percent);
	return buffer;
}

/* More than the rounding of a whole. */
#define MORE_THAN_WHOLE 1.005

const char *format_share(char buffer[UNITS_MAX], double share)
{
	if (!(share > MORE_THAN_WHOLE))
		return format_percent(buffer, share);
	snprintf(buffer, UNITS_MAX, "×%.*f", share < 99.95 ? 1 : 0, share);
	return buffer;
}

const char *format_slowdown(char buffer[UNITS_MAX], double share)
{
	if (share < 0.1)
		return format_percent(buffer, share);
	snprintf(buffer, UNITS_MAX, "%.*f× (+%.0f %%)", share < 8.95 ? 1 : 0, 1 + share,
		 share * 100);
	return buffer;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* DIGITS[.DIGITS]UNIT in integers: the value times the unit's factor. */
static int parse_scaled(const char *text, const struct unit *units, uint64_t *value)
{
	unsigned __int128 whole = 0, fraction = 0, fraction_scale = 1, sum;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		whole = whole * 10 + (unsigned)(*p - '0');
		if (whole > UINT64_MAX)
			whole = (unsigned __int128)UINT64_MAX + 1; /* too large, whatever comes */
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)p[1]))
			return -EINVAL;
		for (p++; isdigit((unsigned char)*p); p++) {
			if (fraction_scale >= 1000000000000ULL)
				continue; /* below any unit's grain */
			fraction = fraction * 10 + (unsigned)(*p - '0');
			fraction_scale *= 10;
		}
	}
	for (; units->name; units++) {
		if (!strcasecmp(p, units->name))
			break;
	}
	if (!units->name)
		return -EINVAL;
	sum = whole * units->factor + fraction * units->factor / fraction_scale;
	if (sum > UINT64_MAX)
		return -ERANGE;
	*value = (uint64_t)sum;
	return 0;
}

int parse_duration(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"", 1000000000},     {"s", 1000000000},    {"sec", 1000000000}, {"ms", 1000000},
		{"us", 1000},	      {"µs", 1000},	    {"ns", 1},		 {"m", 60000000000},
		{"min", 60000000000}, {"h", 3600000000000}, {NULL, 0},
	};

	return parse_scaled(text, units, ns);
}

#define KI (1ULL << 10)
#define MI (1ULL << 20)
#define GI (1ULL << 30)
#define TI (1ULL << 40)

int parse_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},     {"B", 1},	 {"K", KI},   {"KB", KI},  {"KiB", KI},
		{"M", MI},   {"MB", MI}, {"MiB", MI}, {"G", GI},   {"GB", GI},
		{"GiB", GI}, {"T", TI},	 {"TB", TI},  {"TiB", TI}, {NULL, 0},
	};

	return parse_scaled(text, units, bytes);
}

/* Takes an ending off, whatever its case. */
static void cut_ending(char *text, const char *ending)
{
	size_t length = strlen(text), size = strlen(ending);

	if (length >= size && !strcasecmp(text + length - size, ending))
		text[length - size] = '\0';
}

int parse_rate(const char *text, uint64_t *per_s)
{
	static const struct unit units[] = {
		{"", 1},    {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15},
		{"Ki", KI}, {"Mi", MI}, {"Gi", GI}, {"Ti", TI}, {NULL, 0},
	};
	char copy[64];
	size_t length = 0;

	for (; *text; text++) {
		if (length == sizeof(copy) - 1)
			return -EINVAL;
		if (*text != ' ')
			copy[length++] = *text;
	}
	copy[length] = '\0';
	cut_ending(copy, "/s");
	cut_ending(copy, "FLOPS");
	cut_ending(copy, "FLOP");
	cut_ending(copy, "B");
	return parse_scaled(copy, units, per_s);
}

int parse_percent(const char *text, double *share)
{
	static const struct unit units[] = {{"", 10000000}, {"%", 10000000}, {NULL, 0}};
	uint64_t billionths;
	int err = parse_scaled(text, units, &billionths);

	if (!err)
		*share = (double)billionths / 1e9;
	return err;
}

void add_ns(struct text *text, uint64_t ns)
{
	text_add(text, as_ns(ns));
}

void add_bytes(struct text *text, uint64_t bytes)
{
	text_add(text, as_bytes(bytes));
}

void add_count(struct text *text, uint64_t count)
{
	text_add(text, as_count(count));
}

void add_percent(struct text *text, double share)
{
	text_add(text, as_percent(share));
}

void add_share(struct text *text, double share)
{
	text_add(text, as_share(share));
}

void add_si(struct text *text, double value, const char *unit)
{
	text_add(text, as_si(value, unit));
}

static bool is_unit(const char *word)
{
	static const char units[] =
		" ns µs ms s min h % B KiB MiB GiB TiB PiB kB MB GB TB k M G T P E "
		"FLOP kFLOP MFLOP GFLOP TFLOP PFLOP EFLOP ";
	size_t length = strcspn(word, " /.,;:()");
	char wanted[16];

	if (!length || length > sizeof(wanted) - 3)
		return false;
	wanted[0] = ' ';
	memcpy(wanted + 1, word, length);
	memcpy(wanted + 1 + length, " ", 2);
	return strstr(units, wanted) != NULL;
}

void add_joined(struct text *text, const char *sentence)
{
	bool in_name = false, after_digit = false;

	for (const char *p = sentence; *p; p++) {
		if (*p == NAME_OPEN || *p == NAME_CLOSE)
			in_name = *p == NAME_OPEN;
		if (*p == ' ' && after_digit && !in_name && is_unit(p + 1))
			text_add(text, NARROW_SPACE);
		else
			text_add_bytes(text, p, 1);
		after_digit = isdigit((unsigned char)*p);
	}
}
