/* SPDX-License-Identifier: BSD-2-Clause */
/* UTF-8 from untrusted sources: stepping, repairing, and how wide it is on a terminal. */
#ifndef PERFX_BASE_UTF8_H
#define PERFX_BASE_UTF8_H

#include "base/text.h"

#include <stdint.h>

#define UTF8_INVALID UINT32_MAX

/* Takes one character and returns its bytes. One byte with *code = UTF8_INVALID where none begins
 * (overlong forms, surrogates and what is beyond U+10FFFF included); 0 at the end. */
size_t utf8_next(const char *text, uint32_t *code);

/* Adds text with U+FFFD for each byte that is no character: valid for JSON. */
void utf8_repair(struct text *into, const char *text);

/* Columns on a terminal: 2 for wide characters, 0 for combining ones. */
unsigned utf8_width(const char *text);
/* As much of the beginning as fits into `columns`: bytes. *width: its columns. */
size_t utf8_fit(const char *text, unsigned columns, unsigned *width);
/* Adds text, shortened in its middle to at most `columns` (≥ 1):
 *     at::_ops::convolu…backward::call */
void utf8_shorten(struct text *into, const char *text, unsigned columns);
/* The same at its end: "append (train.c:12) ← tr…" */
void utf8_cut(struct text *into, const char *text, unsigned columns);

#endif
