/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared library whose every byte of code is known, and what a test asks of an image. */
#ifndef PERFX_TESTS_IMAGE_FIXTURE_H
#define PERFX_TESTS_IMAGE_FIXTURE_H

#include "elf/image.h"
#include "fixture.h"

#include <errno.h>

/* "Code" of known bytes: nobody runs it. SP and FP are DWARF register numbers. */
__attribute__((unused)) static const char image_source[] =
	".text\n"
	".globl seven, twin\n .type seven, %function\n .type twin, %function\n"
	"seven: twin: .cfi_startproc\n"
	"	.byte 1\n .cfi_def_cfa SP, 16\n"
	"	.byte 2, 3\n .cfi_def_cfa FP, 16\n"
	"	.byte 4, 5\n .cfi_def_cfa SP, 8\n"
	"	.byte 6, 7\n .cfi_endproc\n"
	"	.size seven, 7\n .size twin, 7\n"
	".type hidden_one, %function\n"
	"hidden_one: .cfi_startproc\n .fill 5, 1, 0x15\n .cfi_endproc\n .size hidden_one, 5\n"
	/* assembler without .size: nine bytes in an FDE, four without */
	".globl sized_by_fde, sized_by_next, last_one\n"
	".type sized_by_fde, %function\n .type sized_by_next, %function\n"
	".type last_one, %function\n"
	"sized_by_fde: .cfi_startproc\n .fill 9, 1, 0x19\n .cfi_endproc\n .fill 2, 1, 0\n"
	"sized_by_next: .fill 4, 1, 0x14\n"
	"last_one: .cfi_startproc\n .cfi_escape 0x0f, 2, 0x77, 8\n .fill 3, 1, 0x13\n"
	"	.cfi_endproc\n .size last_one, 3\n"
	".globl chosen\n .type chosen, %gnu_indirect_function\n"
	"chosen: .fill 2, 1, 0x12\n .size chosen, 2\n"
	".globl elsewhere\n .type elsewhere, %function\n"
	".data\n .quad elsewhere\n .globl thing\n .type thing, %object\n thing: .quad 1\n .size "
	"thing, 8\n"
	/* in .data, though it says it is a function */
	".globl no_code\n .type no_code, %function\n no_code: .quad 1\n .size no_code, 8\n"
	".section .note.GNU-stack, \"\", %progbits\n";

#if defined(__aarch64__)
#define REGISTERS "-DSP=31 -DFP=29"
#else
#define REGISTERS "-DSP=7 -DFP=6"
#endif

#define TEXT_VADDR 0x7654000

/* The code lies elsewhere in the file than in memory, as in jaxlib. */
__attribute__((unused)) static void image_build(const char *flags)
{
	fixture_text("f.S", image_source);
	fixture_run("cc -shared -nostdlib " REGISTERS " -Wl,-Ttext=%#x %s -o f.so f.S", TEXT_VADDR,
		    flags);
}

__attribute__((unused)) static void image_set_up(void)
{
	fixture_set_up();
	image_build("-Wl,--build-id=sha1");
}

__attribute__((unused)) static struct image *open_image(const char *name, const char *root)
{
	int fd = fixture_open(name);
	struct image *image = image__open(fd, fixture_path(name), root);

	cr_assert_not_null(image, "%s: %s", name, strerror(errno));
	close(fd);
	return image;
}

struct list {
	struct symbol symbols[512];
	size_t count;
};

__attribute__((unused)) static int collect(const struct symbol *symbol, void *ctx)
{
	struct list *list = ctx;

	if (list->count < 512)
		list->symbols[list->count++] = *symbol;
	return 0;
}

__attribute__((unused)) static struct list functions_of(struct image *image)
{
	struct list list = {.count = 0};

	cr_assert_eq(image__each_function(image, collect, &list), 0);
	return list;
}

__attribute__((unused)) static const struct symbol *find(const struct list *list, const char *name)
{
	const struct symbol *found = NULL;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->symbols[i].name, name) != 0)
			continue;
		cr_assert_null(found, "%s comes twice", name);
		found = &list->symbols[i];
	}
	return found;
}

__attribute__((unused)) static void expect(const struct list *list, const char *name, uint64_t size,
					   enum symbol_origin origin)
{
	const struct symbol *symbol = find(list, name);

	cr_assert_not_null(symbol, "no %s", name);
	cr_expect_eq(symbol->size, size, "%s: size %lu", name, (unsigned long)symbol->size);
	cr_expect_eq(symbol->origin, origin, "%s: origin %d", name, symbol->origin);
}

#endif
