// SPDX-License-Identifier: BSD-2-Clause
/* Unwind tables: which function covers an address, and where its frame is. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = fuzz_image("eh_frame", data, size);
	uint64_t start, length;
	enum cfa_reg reg;
	int64_t offset;

	if (!image)
		return 0;
	for (uint64_t at = FUZZ_TEXT_VADDR; at < FUZZ_TEXT_VADDR + 0x400; at += 7) {
		if (!image__fde(image, at, &start, &length) && at - start >= length)
			abort();
		image__cfa(image, at, &reg, &offset);
	}
	image__free(image);
	return 0;
}
