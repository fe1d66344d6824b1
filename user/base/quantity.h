/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers with their units (units.h) at the end of a text. */
#ifndef PERFX_BASE_QUANTITY_H
#define PERFX_BASE_QUANTITY_H

#include "base/text.h"

#include <stdint.h>

void add_ns(struct text *text, uint64_t ns);
void add_bytes(struct text *text, uint64_t bytes);
void add_count(struct text *text, uint64_t count);
void add_percent(struct text *text, double share); /* 0.5: "50.0 %" */
void add_si(struct text *text, double value, const char *unit);

#define NARROW_SPACE "\xe2\x80\xaf" /* U+202F, no-break */

/* Adds a sentence (base/escape.h) in which no line ends between a number and its unit: "10.0 ms"
 * with U+202F in place of the space. Names of the traced program stay as they are. */
void add_joined(struct text *text, const char *sentence);

#endif
