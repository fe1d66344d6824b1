// SPDX-License-Identifier: BSD-2-Clause
#include "decode/pack.h"

#include <assert.h>
#include <string.h>

const struct perfx_record *pack_record(struct pack_buffer *buffer, enum perfx_kind kind,
				       const void *fixed, size_t fixed_size,
				       const char *const *strings, size_t strings_count)
{
	struct perfx_record *hdr = (struct perfx_record *)buffer->bytes;
	size_t used = fixed_size;

	assert(fixed_size + strings_count + 8 <= sizeof(buffer->bytes));
	memcpy(buffer->bytes, fixed, fixed_size);
	for (size_t i = 0; i < strings_count; i++) {
		const char *text = strings[i] ? strings[i] : "";
		/* room for the terminators of those that follow */
		size_t room = sizeof(buffer->bytes) - 8 - used - (strings_count - i);
		size_t length = strnlen(text, room);

		memcpy(buffer->bytes + used, text, length);
		buffer->bytes[used + length] = '\0';
		used += length + 1;
	}
	while (used % 8)
		buffer->bytes[used++] = '\0';
	hdr->size = (__u32)used;
	hdr->kind = (__u16)kind;
	hdr->fixed = (__u16)fixed_size;
	return hdr;
}
