/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Line tables of CPython's code objects: instruction → line. They come from the traced process
 * and are not trusted: damaged ones give some line or none, never a read outside them.
 */
#ifndef PERFX_CPYTHON_LINES_H
#define PERFX_CPYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

enum line_table {
	LINE_TABLE_LNOTAB = 1, /* co_lnotab, to 3.9 (Objects/lnotab_notes.txt) */
	LINE_TABLE_RANGES,     /* co_linetable of 3.10 (PEP 626) */
	LINE_TABLE_LOCATIONS   /* co_linetable since 3.11 (Objects/locations.md) */
};

struct code_lines {
	enum line_table format;
	const uint8_t *bytes;
	size_t length;
	uint32_t first_line; /* co_firstlineno */
};

/* The line of an instruction, which is counted in code units of 2 bytes; 0: it has none. */
uint32_t line_of_instruction(const struct code_lines *table, uint32_t instruction);

#endif
