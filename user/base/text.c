// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"

#include "base/grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
	if (text->failed)
		return;
	if (grow_array(&text->data, &text->capacity, text->length + count + 1, 1)) {
		text->failed = true;
		return;
	}
	memcpy(text->data + text->length, bytes, count);
	text->length += count;
	text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *part)
{
	text_add_bytes(text, part, strlen(part));
}

void text_printf(struct text *text, const char *fmt, ...)
{
	char small[256], *large = NULL;
	va_list ap;
	int length;

	va_start(ap, fmt);
	length = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (length >= 0 && (size_t)length < sizeof(small)) {
		text_add_bytes(text, small, (size_t)length);
		return;
	}
	va_start(ap, fmt);
	length = vasprintf(&large, fmt, ap);
	va_end(ap);
	if (length < 0) {
		text->failed = true;
		return;
	}
	text_add_bytes(text, large, (size_t)length);
	free(large);
}

const char *text_peek(const struct text *text)
{
	return text->length ? text->data : "";
}

char *text_take(struct text *text)
{
	char *data = NULL;

	if (!text->failed && !text->data)
		text_add(text, "");
	if (!text->failed) {
		data = text->data;
		text->data = NULL;
	}
	text_clear(text);
	return data;
}

void text_clear(struct text *text)
{
	free(text->data);
	*text = (struct text){0};
}
