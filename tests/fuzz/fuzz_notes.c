// SPDX-License-Identifier: BSD-2-Clause
/* Notes: annotated functions, places that tell operations, USDT probes, build ids. */
#include "fuzz_image.h"

static int look_at_annotation(const struct symbol *symbol, void *ctx)
{
	size_t available;

	if (symbol->vaddr && !image__code(ctx, symbol->vaddr, &available))
		abort();
	return strlen(symbol->name) == 0;
}

static int look_at_hint(uint64_t vaddr, void *ctx)
{
	size_t available;
	const uint8_t *code = image__code(ctx, vaddr, &available);

	if (!code || *code != 0x90)
		abort();
	return 0;
}

static int look_at_usdt(const struct usdt_probe *probe, void *ctx)
{
	size_t available;

	if (!image__code(ctx, probe->vaddr, &available) || probe->semaphore_vaddr % 2)
		abort();
	return strlen(probe->provider) + strlen(probe->name) + strlen(probe->arguments) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = fuzz_image("notes", data, size);

	if (!image)
		return 0;
	if (image__each_annotation(image, look_at_annotation, image) ||
	    image__each_hint(image, look_at_hint, image) ||
	    image__each_usdt(image, look_at_usdt, image))
		abort();
	if (strlen(image__build_id(image)) % 2)
		abort();
	image__free(image);
	return 0;
}
