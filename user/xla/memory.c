// SPDX-License-Identifier: BSD-2-Clause
#include "xla/memory.h"

#include <string.h>

bool xla_read_words(const struct xla_memory *memory, uint64_t address, size_t count,
		    struct xla_words *words)
{
	words->address = address;
	words->count = 0;
	if (address % 8 || count > XLA_WORDS_MAX)
		return false;
	/* an object may end with its page: then what is on this page */
	for (size_t tried = count; tried; tried = words->count ? 0 : tried / 2) {
		if (memory->read(memory->ctx, address, words->at, tried * 8))
			words->count = tried;
	}
	memset(words->at + words->count, 0, (XLA_WORDS_MAX - words->count) * 8);
	return words->count;
}

static bool read_word(const struct xla_memory *memory, uint64_t address, uint64_t *word)
{
	return address % 8 == 0 && memory->read(memory->ctx, address, word, sizeof(*word));
}

/* The name ends somewhere in a file's read-only data: read in pieces, for the next page may not be
 * there. */
static bool read_text(const struct xla_memory *memory, uint64_t address, char *text, size_t size)
{
	size_t length = 0;

	while (length + 8 <= size) {
		if (!memory->read(memory->ctx, address + length, text + length, 8))
			return false;
		if (memchr(text + length, '\0', 8))
			return true;
		length += 8;
	}
	return false;
}

bool xla_class_of(const struct xla_memory *memory, uint64_t object, char name[XLA_CLASS_MAX])
{
	uint64_t vtable, type, text;

	if (!read_word(memory, object, &vtable) || !vtable ||
	    !read_word(memory, vtable - 8, &type) || !type || !read_word(memory, type + 8, &text) ||
	    !read_text(memory, text, name, XLA_CLASS_MAX))
		return false;
	if (*name == 'N')
		memmove(name, name + 1, strlen(name));
	return (*name >= '1' && *name <= '9') || *name == 'S';
}

bool xla_string_is(const struct xla_memory *memory, uint64_t string, const char *text)
{
	size_t length = strlen(text);
	uint64_t head[2];
	char found[128];

	return length <= sizeof(found) && memory->read(memory->ctx, string, head, sizeof(head)) &&
	       head[1] == length && memory->read(memory->ctx, head[0], found, length) &&
	       !memcmp(found, text, length);
}
