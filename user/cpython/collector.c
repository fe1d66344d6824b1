// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/collector.h"

#include <string.h>

#define CALL	   0xe8 /* opcode of a direct call: a 32-bit distance follows */
#define CALL_BYTES 5

struct collector collector_find(struct image *image)
{
	struct collector found = {0};
	struct symbol symbol;
	uint64_t vaddr, bytes;
	const uint8_t *code;
	size_t available;

	if (!image__exported(image, "PyGC_Collect", &vaddr, &bytes))
		return found;
	code = image__code(image, vaddr, &available);
	if (bytes > available)
		bytes = available;
	for (uint64_t at = 0; code && at + CALL_BYTES <= bytes; at++) {
		uint64_t called;
		int32_t distance;

		if (code[at] != CALL)
			continue;
		memcpy(&distance, code + at + 1, sizeof(distance));
		called = vaddr + at + CALL_BYTES + (uint64_t)distance;
		/* bytes that look like a call but are none lead to no function's start */
		if (!image__fde(image, called, &found.vaddr, &found.bytes) &&
		    found.vaddr == called && image__function_at(image, called, &symbol))
			return found;
	}
	return (struct collector){0};
}
