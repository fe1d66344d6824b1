// SPDX-License-Identifier: BSD-2-Clause
/* Unwind tables: which function covers an address, where its frame is, and all of it as rows. */
#include "fuzz_image.h"

#include "elf/eh_frame.h"

#define CODE_BYTES 0x400

/* Rows begin where they shall, ascend, stay inside, and each says something new. */
static int check_row(const struct cfi_row *row, void *ctx)
{
	struct cfi_row *last = ctx;

	if (last->vaddr ? row->vaddr <= last->vaddr || cfi_rule_equal(&row->rule, &last->rule)
			: row->vaddr != FUZZ_TEXT_VADDR)
		abort();
	if (row->vaddr >= FUZZ_TEXT_VADDR + CODE_BYTES)
		abort();
	*last = *row;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = fuzz_image("eh_frame", data, size);
	struct cfi_row last = {0};
	uint64_t start, length;
	enum cfa_reg reg;
	int64_t offset;

	if (!image)
		return 0;
	for (uint64_t at = FUZZ_TEXT_VADDR; at < FUZZ_TEXT_VADDR + CODE_BYTES; at += 7) {
		if (!image__fde(image, at, &start, &length) && at - start >= length)
			abort();
		image__cfa(image, at, &reg, &offset);
	}
	image__cfi_rows(image, FUZZ_TEXT_VADDR, FUZZ_TEXT_VADDR + CODE_BYTES, check_row, &last);
	image__free(image);
	return 0;
}
