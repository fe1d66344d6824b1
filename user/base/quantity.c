// SPDX-License-Identifier: BSD-2-Clause
#include "base/quantity.h"

#include "base/units.h"

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
