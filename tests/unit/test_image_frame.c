// SPDX-License-Identifier: BSD-2-Clause
#include "image_fixture.h"

#include <elf.h>

TestSuite(image_frame, .init = image_set_up, .fini = fixture_tear_down);

static void expect_frames(struct image *image)
{
	uint64_t start = 0, size = 0, at = TEXT_VADDR;
	enum cfa_reg reg;
	int64_t offset;

	cr_assert_eq(image__fde(image, at + 6, &start, &size), 0);
	cr_expect_eq(start, at);
	cr_expect_eq(size, 7);
	cr_assert_eq(image__fde(image, at + 12, &start, &size), 0);
	cr_expect_eq(start, at + 12);
	cr_expect_eq(size, 9);
	cr_expect_eq(image__fde(image, at + 23, &start, &size), -ENOENT, "sized_by_next has none");
	cr_expect_eq(image__fde(image, at - 1, &start, &size), -ENOENT);
	cr_expect_eq(image__fde(image, at + 0x1000, &start, &size), -ENOENT);

	cr_assert_eq(image__cfa(image, at + 1, &reg, &offset), 0);
	cr_expect(reg == CFA_RSP && offset == 16);
	cr_assert_eq(image__cfa(image, at + 2, &reg, &offset), 0);
	cr_expect(reg == CFA_RSP && offset == 16);
	cr_assert_eq(image__cfa(image, at + 3, &reg, &offset), 0);
	cr_expect(reg == CFA_RBP && offset == 16);
	cr_assert_eq(image__cfa(image, at + 5, &reg, &offset), 0);
	cr_expect(reg == CFA_RSP && offset == 8);
	cr_expect_eq(image__cfa(image, at + 27, &reg, &offset), -ENOTSUP, "an expression");
	cr_expect_eq(image__cfa(image, at + 23, &reg, &offset), -ENOENT);
}

Test(image_frame, frames)
{
	struct image *image = open_image("f.so", "");

	expect_frames(image);
	image__free(image);
}

Test(image_frame, frames_without_search_table)
{
	struct image *image;
	struct list list;

	image_build("-Wl,--no-eh-frame-hdr");
	image = open_image("f.so", "");
	list = functions_of(image);
	expect(&list, "sized_by_fde", 9, SYMBOL_SYMTAB);
	expect_frames(image);
	image__free(image);
}

/* The program header says that the search table is where nothing is. */
Test(image_frame, search_table_nowhere)
{
	int fd;
	uint64_t start, size;
	struct image *image;
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	fd = open(fixture_path("f.so"), O_RDWR | O_CLOEXEC);
	cr_assert_eq(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	for (size_t i = 0; i < ehdr.e_phnum; i++) {
		off_t at = (off_t)(ehdr.e_phoff + i * sizeof(phdr));

		cr_assert_eq(pread(fd, &phdr, sizeof(phdr), at), sizeof(phdr));
		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		phdr.p_vaddr = 0x123456789;
		cr_assert_eq(pwrite(fd, &phdr, sizeof(phdr), at), sizeof(phdr));
	}
	close(fd);
	image = open_image("f.so", "");
	cr_expect_eq(image__fde(image, TEXT_VADDR + 6, &start, &size), 0, "by .eh_frame itself");
	cr_expect_eq(start, TEXT_VADDR);
	image__free(image);
}
