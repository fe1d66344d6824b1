// SPDX-License-Identifier: BSD-2-Clause
#include "base/quantity.h"

#include "base/escape.h"
#include "base/units.h"

#include <ctype.h>
#include <string.h>

void add_ns(struct text *text, uint64_t ns)
{
	char buffer[UNITS_MAX];

	text_add(text, format_ns(buffer, ns));
}

void add_bytes(struct text *text, uint64_t bytes)
{
	char buffer[UNITS_MAX];

	text_add(text, format_bytes(buffer, bytes));
}

void add_count(struct text *text, uint64_t count)
{
	char buffer[UNITS_MAX];

	text_add(text, format_count(buffer, count));
}

void add_percent(struct text *text, double share)
{
	char buffer[UNITS_MAX];

	text_add(text, format_percent(buffer, share));
}

void add_si(struct text *text, double value, const char *unit)
{
	char buffer[UNITS_MAX];

	text_add(text, format_si(buffer, value, unit));
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
