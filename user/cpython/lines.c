// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/lines.h"

#define CODE_UNIT_BYTES 2

/* Lines of programs are below this; a damaged table may say anything. */
#define LINE_MAX (1 << 30)

static uint32_t line_or_none(int64_t line)
{
	return line > 0 && line < LINE_MAX ? (uint32_t)line : 0;
}

/* Pairs: bytes of code to the next one, lines from the one before. */
static uint32_t find_in_lnotab(const struct code_lines *table, uint64_t at)
{
	int64_t line = table->first_line;
	uint64_t address = 0;

	for (size_t i = 0; i + 1 < table->length; i += 2) {
		address += table->bytes[i];
		if (address > at)
			break;
		line += (int8_t)table->bytes[i + 1];
	}
	return line_or_none(line);
}

/* Pairs: bytes of code of a range, lines from the range before it that has one. */
static uint32_t find_in_ranges(const struct code_lines *table, uint64_t at)
{
	enum { NO_LINE = -128 };
	int64_t line = table->first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < table->length; i += 2) {
		int8_t lines = (int8_t)table->bytes[i + 1];

		end += table->bytes[i];
		if (lines != NO_LINE)
			line += lines;
		if (end > at)
			return lines == NO_LINE ? 0 : line_or_none(line);
	}
	return 0;
}

/* 6 bits a byte, the lowest first; bit 6: another follows. */
static uint64_t read_varint(const struct code_lines *table, size_t *at)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < table->length && shift < 36; shift += 6) {
		uint8_t byte = table->bytes[(*at)++];

		value |= (uint64_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40))
			break;
	}
	return value;
}

/* Bit 0 is the sign. */
static int64_t read_signed(const struct code_lines *table, size_t *at)
{
	uint64_t value = read_varint(table, at);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Entries begin with a byte 1kkkknnn: kind, instructions less one. The other bytes of an entry
 * have bit 7 clear. */
static uint32_t find_in_locations(const struct code_lines *table, uint64_t at)
{
	enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LOCATION = 15 };
	int64_t line = table->first_line;
	uint64_t end = 0;

	for (size_t i = 0; i < table->length;) {
		uint8_t byte = table->bytes[i++];
		unsigned kind = byte >> 3 & 0xf;

		if (!(byte & 0x80))
			continue;
		end += (byte & 7) + 1u;
		if (kind == NO_COLUMNS || kind == LONG)
			line += read_signed(table, &i);
		else if (kind >= ONE_LINE_0 && kind <= ONE_LINE_2)
			line += kind - ONE_LINE_0;
		if (end > at)
			return kind == NO_LOCATION ? 0 : line_or_none(line);
	}
	return 0;
}

uint32_t line_of_instruction(const struct code_lines *table, uint32_t instruction)
{
	switch (table->format) {
	case LINE_TABLE_LNOTAB:
		return find_in_lnotab(table, (uint64_t)instruction * CODE_UNIT_BYTES);
	case LINE_TABLE_RANGES:
		return find_in_ranges(table, (uint64_t)instruction * CODE_UNIT_BYTES);
	case LINE_TABLE_LOCATIONS:
		return find_in_locations(table, instruction);
	}
	return 0;
}
