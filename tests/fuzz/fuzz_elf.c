// SPDX-License-Identifier: BSD-2-Clause
/* ELF files: what a traced process maps, whatever its headers say. */
#include "fuzz_image.h"

static int look_at_symbol(const struct symbol *symbol, void *ctx)
{
	size_t available, *sum = ctx;
	const uint8_t *code = image__code((void *)sum[0], symbol->vaddr, &available);

	sum[1] += strlen(symbol->name) + (code ? code[0] + (size_t)code[available - 1] : 0);
	return 0;
}

static int look_at_place(uint64_t vaddr, void *ctx)
{
	*(uint64_t *)ctx += vaddr;
	return 0;
}

static int look_at_usdt(const struct usdt_probe *probe, void *ctx)
{
	*(size_t *)ctx += strlen(probe->provider) + strlen(probe->name) + strlen(probe->arguments);
	return 0;
}

static bool has_m(const char *name, void *ctx)
{
	(void)ctx;
	return strchr(name, 'm');
}

static void ask_at(struct image *image, uint64_t vaddr)
{
	struct symbol symbol;
	uint64_t start, size;
	enum cfa_reg reg;
	int64_t offset;

	image__function_at(image, vaddr, &symbol);
	image__fde(image, vaddr, &start, &size);
	image__cfa(image, vaddr, &reg, &offset);
	image__vaddr(image, vaddr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = fuzz_open(data, size);
	size_t sum[2] = {(size_t)image}, segment_size;
	int debug_fd, alt_fd;
	uint64_t vaddr, places = 0;

	if (!image)
		return 0;
	image__each_function(image, look_at_symbol, sum);
	image__each_annotation(image, look_at_symbol, sum);
	image__each_hint(image, look_at_place, &places);
	image__each_usdt(image, look_at_usdt, &sum[1]);
	image__traits(image);
	image__mentions(image, "perfx");
	image__exports(image, "malloc");
	image__debug_info(image, &debug_fd, &alt_fd);
	ask_at(image, image__entry_point(image));
	for (size_t i = 0; i < 4 && image__code_segment(image, i, &vaddr, &segment_size); i++)
		for (size_t at = 0; at < segment_size && at < 2048; at += 32)
			ask_at(image, vaddr + at);
	image__narrow(image, has_m, NULL);
	image__each_function(image, look_at_symbol, sum);
	image__free(image);
	return 0;
}
