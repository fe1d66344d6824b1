// SPDX-License-Identifier: BSD-2-Clause
/* Debug information: functions, what was inlined in them, files and lines. */
#include "fuzz_image.h"

#include "elf/symbolize.h"

static void look_at(size_t index, const struct symbolized_place *places, size_t count, void *ctx)
{
	size_t *told = ctx;

	(void)index;
	(*told)++;
	if (!count || count > SYMBOLIZE_PLACES_MAX)
		abort();
	for (size_t i = 0; i < count; i++)
		if (strlen(places[i].function) + strlen(places[i].file) > 1 << 24)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = fuzz_image("dwarf", data, size);
	uint64_t vaddrs[64];
	size_t told = 0;

	if (!image)
		return 0;
	for (size_t i = 0; i < FUZZ_COUNT(vaddrs); i++)
		vaddrs[i] = FUZZ_TEXT_VADDR + 5 * i;
	if (symbolize(image, NULL, vaddrs, FUZZ_COUNT(vaddrs), look_at, &told) ||
	    told != FUZZ_COUNT(vaddrs))
		abort();
	image__free(image);
	return 0;
}
