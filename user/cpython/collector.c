// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/collector.h"

#include <string.h>

#define CALL	   0xe8 /* opcode of a direct call: a 32-bit distance follows */
#define CALL_BYTES 5

/* Bytes that look like a call but are none do not lead to the start of a function. */
static bool is_nameless_function(struct image *image, uint64_t vaddr, struct collector *found)
{
	struct symbol symbol;

	return !image__fde(image, vaddr, &found->vaddr, &found->bytes) && found->vaddr == vaddr &&
	       image__function_at(image, vaddr, &symbol);
}

struct collector collector_find(struct image *image)
{
	struct collector found = {0};
	uint64_t vaddr, bytes;
	const uint8_t *code;
	size_t available;

	if (!image__exported(image, "PyGC_Collect", &vaddr, &bytes))
		return found;
	code = image__code(image, vaddr, &available);
	if (bytes > available)
		bytes = available;
	for (uint64_t at = 0; code && at + CALL_BYTES <= bytes; at++) {
		int32_t distance;

		if (code[at] != CALL)
			continue;
		memcpy(&distance, code + at + 1, sizeof(distance));
		if (is_nameless_function(image, vaddr + at + CALL_BYTES + (uint64_t)distance,
					 &found))
			return found;
	}
	return (struct collector){0};
}
