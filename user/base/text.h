/* SPDX-License-Identifier: BSD-2-Clause */
/* A string under construction. A failure sticks: check once, when the string is taken. All-zero is
 * empty. */
#ifndef PERFX_BASE_TEXT_H
#define PERFX_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
	char *data;
	size_t length, capacity;
	bool failed;
};

void text_add(struct text *text, const char *part);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_printf(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What there is, for reading on; "" when empty. */
const char *text_peek(const struct text *text);
/* The string, the caller's to free, and the text is empty again. NULL: memory was out. */
char *text_take(struct text *text);
void text_clear(struct text *text);

#endif
