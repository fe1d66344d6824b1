// SPDX-License-Identifier: BSD-2-Clause
#include "elf/image.h"

#include "image_damage.h"

#include <elf.h>
#include <errno.h>
#include <link.h>

TestSuite(image, .init = image_set_up, .fini = fixture_tear_down);

Test(image, functions)
{
	struct image *image = open_image("f.so", "");
	struct list list = functions_of(image);

	expect(&list, "seven", 7, SYMBOL_SYMTAB);
	expect(&list, "twin", 7, SYMBOL_SYMTAB);
	expect(&list, "hidden_one", 5, SYMBOL_SYMTAB);
	expect(&list, "sized_by_fde", 9, SYMBOL_SYMTAB);
	expect(&list, "sized_by_next", 4, SYMBOL_SYMTAB);
	expect(&list, "chosen", 2, SYMBOL_SYMTAB);
	cr_expect_eq(list.count, 7);
	cr_expect(find(&list, "chosen")->ifunc);
	cr_expect_not(find(&list, "seven")->ifunc);
	cr_expect(find(&list, "seven")->global);
	cr_expect_not(find(&list, "hidden_one")->global);
	cr_expect_eq(find(&list, "seven")->vaddr, TEXT_VADDR);
	cr_expect_eq(find(&list, "twin")->vaddr, TEXT_VADDR);
	cr_expect_eq(find(&list, "hidden_one")->vaddr, 0x7654007);
	for (size_t i = 1; i < list.count; i++)
		cr_expect_leq(list.symbols[i - 1].vaddr, list.symbols[i].vaddr);
	image__free(image);
}

static bool ends_in_n(const char *name, void *ctx)
{
	++*(size_t *)ctx;
	return name[strlen(name) - 1] == 'n';
}

/* Of those that are wanted all is known, also what takes a look at their neighbours. */
Test(image, functions_narrowed_by_name)
{
	struct image *image = open_image("f.so", "");
	size_t asked = 0;
	struct list list;

	image__narrow(image, ends_in_n, &asked);
	list = functions_of(image);
	expect(&list, "seven", 7, SYMBOL_SYMTAB);
	expect(&list, "twin", 7, SYMBOL_SYMTAB);
	expect(&list, "chosen", 2, SYMBOL_SYMTAB);
	cr_expect_eq(list.count, 3);
	cr_expect_geq(asked, 7);
	asked = 0;
	functions_of(image);
	cr_expect_eq(asked, 0, "asked once");
	image__free(image);
}

static bool is_sized_by_next(const char *name, void *ctx)
{
	(void)ctx;
	return !strcmp(name, "sized_by_next");
}

Test(image, narrowed_to_one_that_is_sized_by_the_next)
{
	struct image *image = open_image("f.so", "");
	struct list list;

	image__narrow(image, is_sized_by_next, NULL);
	list = functions_of(image);
	expect(&list, "sized_by_next", 4, SYMBOL_SYMTAB);
	cr_expect_eq(list.count, 1);
	image__free(image);
}

static int stop_at_second(const struct symbol *symbol, void *ctx)
{
	(void)symbol;
	return ++*(int *)ctx == 2 ? -EXDEV : 0;
}

Test(image, functions_stop_when_told)
{
	struct image *image = open_image("f.so", "");
	int count = 0;

	cr_expect_eq(image__each_function(image, stop_at_second, &count), -EXDEV);
	cr_expect_eq(count, 2);
	image__free(image);
}

Test(image, offsets_are_where_the_bytes_are)
{
	struct image *image = open_image("f.so", "");
	struct list list = functions_of(image);
	const struct symbol *seven = find(&list, "seven");
	uint8_t bytes[7];
	size_t available = 0;
	const uint8_t *code = image__code(image, seven->vaddr, &available);
	int fd = fixture_open("f.so");

	cr_assert_not_null(code);
	cr_assert_geq(available, 7);
	cr_assert_eq(pread(fd, bytes, 7, (off_t)seven->offset), 7);
	cr_expect_eq(memcmp(bytes, "\1\2\3\4\5\6\7", 7), 0);
	cr_expect_eq(memcmp(code, "\1\2\3\4\5\6\7", 7), 0);
	cr_expect_neq(seven->offset, seven->vaddr, "the case that the test is about");
	cr_expect_eq(image__offset(image, seven->vaddr + 3), (int64_t)seven->offset + 3);
	cr_expect_eq(image__vaddr(image, seven->offset + 3), (int64_t)seven->vaddr + 3);
	close(fd);
	image__free(image);
}

Test(image, addresses_outside)
{
	struct image *image = open_image("f.so", "");
	const uint8_t *code;
	size_t available;

	code = image__code(image, TEXT_VADDR, &available);
	cr_assert_not_null(code);
	cr_expect_not_null(image__code(image, TEXT_VADDR + available - 1, &available));
	cr_expect_null(image__code(image, TEXT_VADDR + 0x10000, &available));
	cr_expect_null(image__code(image, 0, &available), "not executable");
	cr_expect_not_null(image__data(image, 0, &available), "the ELF header is loaded");
	cr_expect_eq(image__offset(image, 0x4000000), -1);
	cr_expect_eq(image__offset(image, UINT64_MAX), -1);
	cr_expect_eq(image__vaddr(image, 1 << 30), -1);
	image__free(image);
}

Test(image, stripped)
{
	struct image *image;
	struct list list;

	fixture_run("strip f.so");
	image = open_image("f.so", "");
	list = functions_of(image);
	expect(&list, "seven", 7, SYMBOL_DYNSYM);
	expect(&list, "sized_by_fde", 9, SYMBOL_DYNSYM);
	cr_expect_null(find(&list, "hidden_one"));
	cr_expect_not(image__traits(image)->has_symtab);
	image__free(image);
}

Test(image, versions_are_cut_off)
{
	struct image *image;
	struct list list;
	size_t old_and_new = 0;

	fixture_text("v.S",
		     ".text\n .globl one, two\n .type one, %function\n .type two, %function\n"
		     "one: .byte 1\n .size one, 1\n two: .byte 2\n .size two, 1\n"
		     ".symver one, both@V1\n .symver two, both@@V2\n"
		     ".section .note.GNU-stack, \"\", %progbits\n");
	fixture_text("v.map", "V1 { };\nV2 { } V1;\n");
	fixture_run("cc -shared -nostdlib -Wl,--version-script=v.map -o v.so v.S");
	image = open_image("v.so", "");
	list = functions_of(image);
	for (size_t i = 0; i < list.count; i++) {
		cr_expect_null(strchr(list.symbols[i].name, '@'), "%s", list.symbols[i].name);
		old_and_new += strcmp(list.symbols[i].name, "both") == 0;
	}
	cr_expect_eq(old_and_new, 2, "one at each address, each once");
	image__free(image);
}

/* --- what it refuses ------------------------------------------------------------------------ */

static void expect_refused(const char *name, int wanted)
{
	int fd = fixture_open(name);

	errno = 0;
	cr_expect_null(image__open(fd, fixture_path(name), ""), "%s", name);
	cr_expect_eq(errno, wanted, "%s: %s", name, strerror(errno));
	close(fd);
}

Test(image, refuses)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, 1}};

	fixture_text("text", "#!/bin/sh\necho this is a script, and long enough for a header\n");
	fixture_text("empty", "");
	expect_refused("text", ENOEXEC);
	expect_refused("empty", ENOEXEC);
	fixture_write("elf32", &header, sizeof(Elf32_Ehdr));
	expect_refused("elf32", ENOTSUP);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_machine = EM_S390;
	header.e_type = ET_DYN;
	fixture_write("s390", &header, sizeof(header));
	expect_refused("s390", ENOTSUP);
	fixture_run("cc -c " REGISTERS " -o f.o f.S && head -c 40 f.so > short && "
		    "head -c 64 f.so > header && mkdir dir");
	expect_refused("f.o", ENOEXEC);
	expect_refused("short", ENOEXEC);
	expect_refused("header", ENOEXEC);
	expect_refused("dir", ENOEXEC);
	cr_expect_null(image__open(-1, "nothing", ""));
	cr_expect_eq(errno, EBADF);
	image__free(NULL);
}

/* --- a program that runs: this one ---------------------------------------------------------- */

static int first_base(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	*(uint64_t *)ctx = info->dlpi_addr;
	return 1;
}

Test(image, agrees_with_the_loader)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct image *image = image__open(fd, "/proc/self/exe", "");
	uint64_t base, start, size;
	const uint8_t *code;
	size_t available;

	close(fd);
	cr_assert_not_null(image);
	dl_iterate_phdr(first_base, &base);
	cr_assert_eq(image__fde(image, (uint64_t)&image__open - base, &start, &size), 0);
	cr_expect_eq(start + base, (uint64_t)&image__open);
	code = image__code(image, start, &available);
	cr_assert_not_null(code);
	cr_assert_geq(available, size);
	cr_expect_eq(memcmp(code, (const void *)&image__open, size), 0);
	image__free(image);
}

/* --- damaged files -------------------------------------------------------------------------- */

Test(image, survives_damage, .timeout = 120)
{
	image_damage("f.so", 4000);
	fixture_run("strip f.so");
	image_damage("f.so", 2000);
}

/* A package is upgraded, a linker writes the file anew: also between two looks, from anywhere on,
 * and to its last byte; other images are not touched by that. */
Test(image, survives_a_file_that_is_cut_while_it_is_read)
{
	static const uint8_t filler[256] = {[0 ... 255] = 0xff};
	int good = fixture_open("f.so");
	struct image *other = open_image("f.so", "");
	ssize_t size = lseek(good, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)size);

	cr_assert_eq(pread(good, bytes, (size_t)size, 0), size);
	for (off_t end = 0; end < size; end += 509) {
		int fd = memfd_create("cut", MFD_CLOEXEC);
		struct image *image;

		cr_assert_eq(write(fd, bytes, (size_t)size), size);
		image = image__open(fd, "/cut", "");
		cr_assert_not_null(image);
		if (end % 2)
			use_all(image);
		cr_assert_eq(ftruncate(fd, end), 0);
		use_all(image);
		/* and is written anew: no string ends any more */
		for (off_t at = end; at < size; at += (off_t)sizeof(filler))
			cr_assert_gt(pwrite(fd, filler, sizeof(filler), at), 0);
		use_all(image);
		image__free(image);
		close(fd);
	}
	use_all(other);
	cr_expect_eq(image__traits(other)->dynamic, true);
	image__free(other);
	free(bytes);
	close(good);
}
