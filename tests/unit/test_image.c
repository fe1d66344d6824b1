// SPDX-License-Identifier: BSD-2-Clause
#include "elf/elf_view.h"
#include "elf/image.h"
#include "image_damage.h"
#include "image_fixture.h"
#include "proc/maps.h"

#include <elf.h>
#include <errno.h>
#include <gnu/libc-version.h>
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

enum { OVERLAPPING = 20000, OVERLAPPING_BYTES = 4 << 20 };

/* f.so with a table of so many functions at one address, each of whose names is the end of the one
 * before, behind its last byte. */
static void overlap_names(void)
{
	char *names = malloc(OVERLAPPING_BYTES);
	Elf64_Sym *symbols = calloc(OVERLAPPING, sizeof(*symbols));
	FILE *file = fopen(fixture_path("f.so"), "r+");
	Elf64_Ehdr ehdr;
	Elf64_Shdr shdr;

	cr_assert(names && symbols && file);
	memset(names, 'a', OVERLAPPING_BYTES);
	names[0] = names[OVERLAPPING_BYTES - 1] = '\0';
	for (size_t i = 0; i < OVERLAPPING; i++)
		symbols[i] = (Elf64_Sym){.st_name = (Elf64_Word)(OVERLAPPING - i),
					 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					 .st_shndx = 1,
					 .st_value = TEXT_VADDR,
					 .st_size = 7};
	cr_assert_eq(fread(&ehdr, sizeof(ehdr), 1, file), 1);
	for (size_t i = 0; i < ehdr.e_shnum; i++) {
		long at = (long)(ehdr.e_shoff + i * sizeof(shdr)), end;
		bool is_names;

		fseek(file, at, SEEK_SET);
		cr_assert_eq(fread(&shdr, sizeof(shdr), 1, file), 1);
		is_names = shdr.sh_type == SHT_STRTAB && !shdr.sh_flags && i != ehdr.e_shstrndx;
		if (!is_names && shdr.sh_type != SHT_SYMTAB)
			continue;
		fseek(file, 0, SEEK_END);
		end = ftell(file);
		shdr.sh_offset = (Elf64_Off)end;
		shdr.sh_size = is_names ? OVERLAPPING_BYTES : OVERLAPPING * sizeof(*symbols);
		fwrite(is_names ? (void *)names : (void *)symbols, shdr.sh_size, 1, file);
		fseek(file, at, SEEK_SET);
		fwrite(&shdr, sizeof(shdr), 1, file);
	}
	cr_assert_eq(fclose(file), 0);
	free(names);
	free(symbols);
}

static int keep_first(const struct symbol *symbol, void *ctx)
{
	struct symbol *first = ctx;

	if (!first->name)
		*first = *symbol;
	return 0;
}

/* Memory of the pages of this program's file that are mapped to be read. */
static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	size_t kib, sum = 0;
	bool is_it = false;

	cr_assert(file);
	while (fgets(line, sizeof(line), file)) {
		if (strchr(line, '-') && strstr(line, " r--s "))
			is_it = strstr(line, "test_image") != NULL;
		else if (strchr(line, '-') && strstr(line, "p "))
			is_it = false;
		if (is_it && sscanf(line, "Rss: %zu kB", &kib) == 1)
			sum += kib << 10;
	}
	fclose(file);
	return sum;
}

/* A tracer keeps files mapped that are larger than what it may use. */
Test(image, pages_that_were_read_are_given_back)
{
	struct image *image;
	struct symbol before = {0}, after;
	uint64_t vaddr;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	image = image__open(fd, "test_image", "");
	cr_assert(image);
	cr_assert_not(image__each_function(image, keep_first, &before));
	vaddr = before.vaddr;
	cr_assert_not(image__function_at(image, vaddr, &before));
	cr_assert_gt(resident_bytes(), 0);
	image__release_pages(image);
	cr_expect_eq(resident_bytes(), 0);
	cr_assert_not(image__function_at(image, vaddr, &after));
	cr_expect_eq(after.vaddr, before.vaddr);
	cr_expect_str_eq(after.name, before.name);
	image__free(image);
	close(fd);
}

/* The C library: of no type, of no size, weak and of several names. */
static struct image *open_libc(void)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps__find(maps, (uintptr_t)gnu_get_libc_version);
	int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
	struct image *image = image__open(fd, mapping->path, "");

	cr_assert(image);
	maps__free(maps);
	return image;
}

enum { ASKED = 40, GROUPS = 100 };

/* What is asked of an image with a focus has the same answer as without, all over its code. */
Test(image, focus)
{
	struct image *whole = open_libc();
	uint64_t first, last, bytes, vaddrs[ASKED];
	size_t named = 0;

	cr_assert(image__exported(whole, "abort", &first, &bytes));
	cr_assert(image__exported(whole, "strdup", &last, &bytes));
	first = first < last ? first : last;
	for (size_t group = 0; group < GROUPS; group++) {
		struct image *image = open_libc();

		for (size_t i = 0; i < ASKED; i++)
			vaddrs[i] = first + (group + i * GROUPS) * 251;
		image__focus(image, vaddrs, ASKED);
		for (size_t i = 0; i < ASKED; i++) {
			struct symbol found, expected;
			int err = image__function_at(whole, vaddrs[i], &expected);

			cr_assert_eq(image__function_at(image, vaddrs[i], &found), err);
			if (err)
				continue;
			cr_assert_str_eq(found.name, expected.name);
			cr_assert_eq(found.vaddr, expected.vaddr);
			cr_assert_eq(found.size, expected.size);
			named++;
		}
		image__free(image);
	}
	/* without debug symbols a third is: exported functions */
	cr_expect_gt(named, ASKED * GROUPS / 4);
	image__free(whole);
}

/* To compare them would take minutes. */
Test(image, long_names_that_overlap, .timeout = 60)
{
	struct list list;
	struct image *image;

	overlap_names();
	image = open_image("f.so", "");
	list = functions_of(image);
	cr_expect_eq(list.count, 6); /* those of .dynsym */
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

TestSuite(image_export, .init = fixture_set_up, .fini = fixture_tear_down);

/* With one hash table, with the other, with both, and without sections to find either by. */
Test(image_export, only_what_others_may_call)
{
	static const char *const styles[] = {"gnu", "sysv", "both"};

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
		char flags[64];
		struct image *image;

		snprintf(flags, sizeof(flags), "-Wl,--hash-style=%s", styles[i]);
		image_build(flags);
		image = open_image("f.so", "");
		cr_expect(image__exports(image, "seven"), "%s", styles[i]);
		cr_expect(image__exports(image, "twin"), "%s", styles[i]);
		cr_expect(image__exports(image, "chosen"), "%s: IFUNC", styles[i]);
		cr_expect_not(image__exports(image, "hidden_one"), "%s: local", styles[i]);
		cr_expect_not(image__exports(image, "elsewhere"), "%s: undefined", styles[i]);
		cr_expect_not(image__exports(image, "thing"), "%s: data", styles[i]);
		cr_expect_not(image__exports(image, "seve"), "%s", styles[i]);
		cr_expect_not(image__exports(image, ""), "%s", styles[i]);
		image__free(image);
	}
}

/* Enough names for chains of several in a bucket. */
Test(image_export, many)
{
	FILE *out = fopen(fixture_path("many.c"), "w");
	struct image *image;
	char name[32];

	for (int i = 0; i < 3000; i++)
		fprintf(out, "void many_%d(void) {}\n", i);
	fclose(out);
	fixture_run("cc -shared -fPIC -nostdlib -o many.so many.c");
	image = open_image("many.so", "");
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "many_%d", i);
		cr_expect(image__exports(image, name), "%s", name);
		snprintf(name, sizeof(name), "few_%d", i);
		cr_expect_not(image__exports(image, name), "%s", name);
	}
	image__free(image);
}

Test(image_export, static_files_export_nothing)
{
	struct image *image;

	fixture_text("s.c", "int seven(void) { return 7; }\nvoid _start(void) {}\n");
	fixture_run("cc -static -nostdlib -o s s.c");
	image = open_image("s", "");
	cr_expect_not(image__exports(image, "seven"));
	image__free(image);
}

/* Every word of the table overwritten in turn: a wrong answer, never a crash or an endless chain.
 */
Test(image_export, damaged_table)
{
	unsigned char bytes[65536];
	size_t size;
	FILE *in;

	image_build("-Wl,--hash-style=gnu");
	fixture_run("objcopy -O binary --only-section=.gnu.hash f.so table");
	in = fopen(fixture_path("table"), "r");
	size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	cr_assert_gt(size, 16);
	for (size_t at = 0; at + 4 <= size; at += 4) {
		static const unsigned values[] = {0, 1, 0x7fffffff, 0xffffffff};

		for (size_t v = 0; v < 4; v++) {
			unsigned char changed[sizeof(bytes)];
			struct image *image;

			memcpy(changed, bytes, size);
			memcpy(changed + at, &values[v], 4);
			fixture_write("new", changed, size);
			fixture_run("cp f.so g.so && objcopy --update-section .gnu.hash=new g.so");
			image = open_image("g.so", "");
			image__exports(image, "seven");
			cr_expect_not(image__exports(image, "elsewhere"));
			image__free(image);
		}
	}
}

TestSuite(image_traits, .init = fixture_set_up, .fini = fixture_tear_down);

static struct image_traits traits_of(const char *name)
{
	struct image *image = open_image(name, "");
	struct image_traits traits = *image__traits(image);

	cr_expect_eq(memcmp(&traits, image__traits(image), sizeof(traits)), 0, "asked twice");
	image__free(image);
	return traits;
}

static struct image_traits build(const char *code, const char *flags)
{
	fixture_text("t.c", code);
	fixture_run("cc -w %s -o t t.c", flags);
	return traits_of("t");
}

Test(image_traits, plain_c)
{
	struct image_traits traits = build("int f(void) { return 1; }", "-shared");

	cr_expect(traits.dynamic);
	cr_expect_not(traits.needs_loader);
	cr_expect(traits.has_symtab);
	cr_expect_not(traits.has_except_table);
	cr_expect_not(traits.needs_cxx);
	cr_expect_not(traits.is_rust);
	cr_expect_not(traits.is_go);
	cr_expect_not(traits.switches_stacks);
	fixture_run("strip t");
	cr_expect_not(traits_of("t").has_symtab);
}

Test(image_traits, static_program)
{
	struct image_traits traits =
		build("void _start(void) { for (;;); }", "-static -nostdlib -no-pie");

	cr_expect_not(traits.dynamic);
	cr_expect_not(traits.switches_stacks);
}

static const char landing_pad[] = "void g(int *); void h(void);\n"
				  "void f(void) { __attribute__((cleanup(g))) int i; h(); }";

/* C that exceptions of others may cross. */
Test(image_traits, landing_pads)
{
	cr_expect(build(landing_pad, "-shared -fPIC -fexceptions").has_except_table);
	cr_expect_not(build(landing_pad, "-shared -fPIC").has_except_table);
	cr_expect_not(build(landing_pad, "-shared -fPIC -fexceptions").needs_cxx);
}

Test(image_traits, cxx_runtime)
{
	fixture_text("empty.c", "");
	fixture_run("cc -shared -Wl,-soname,libstdc++.so.6 -o libfake.so empty.c && "
		    "cc -shared -Wl,--no-as-needed -o u.so empty.c ./libfake.so");
	cr_expect(traits_of("u.so").needs_cxx);
	cr_expect_not(traits_of("libfake.so").needs_cxx);
	cr_expect(build("void __gxx_personality_v0(void) {}", "-shared").needs_cxx);
	cr_expect_not(build("void __gxx_personality_v0(void); void f(void) "
			    "{ __gxx_personality_v0(); }",
			    "-shared -fPIC")
			      .needs_cxx,
		      "used only");
}

Test(image_traits, soname)
{
	struct image *image;

	fixture_text("empty.c", "");
	fixture_run("cc -shared -Wl,-soname,libf.so.1 -o libf.so.1.0.0 empty.c && "
		    "cc -shared -o plugin.so empty.c");
	image = open_image("libf.so.1.0.0", "");
	cr_expect_str_eq(image__soname(image), "libf.so.1");
	image__free(image);
	image = open_image("plugin.so", "");
	cr_expect_str_eq(image__soname(image), "");
	image__free(image);
}

Test(image_traits, rust)
{
	cr_expect(build("void rust_eh_personality(void) {}", "-shared").is_rust);
	cr_expect(build("void _ZN4core3fmt5write17h0123456789abcdefE(void) {}", "-shared").is_rust);
	cr_expect(build("void _RNvC6_123foo3bar(void) {}", "-shared").is_rust);
	cr_expect_not(build("void _Rotate(void) {}", "-shared").is_rust);
	cr_expect_not(build("void _ZN4core3fmt5writeEv(void) {}", "-shared").is_rust);
}

Test(image_traits, go)
{
	cr_expect(build("__attribute__((section(\".gopclntab\"))) int t = 1;", "-shared").is_go);
	cr_expect(
		build("asm(\".section .note.go.buildid, \\\"a\\\", %note\\n .long 0\");", "-shared")
			.is_go);
}

/* .gopclntab as Go 1.27 writes it, with two functions at text and text + 7; since Go 1.26 text is
 * in .go.module alone. */
static void build_go(const char *magic, const char *header_text, const char *module_text)
{
	char source[2048];

	snprintf(source, sizeof(source),
		 ".text\n.globl _start\n_start: .fill 12, 1, 1\n"
		 ".section .gopclntab, \"a\"\n"
		 "pclntab: .long %s\n .byte 0, 0, 1, 8\n .quad 2, 0, %s, names - pclntab, "
		 "units - pclntab, units - pclntab, units - pclntab, table - pclntab\n"
		 "names: .byte 0\n first: .asciz \"main.(*Net).Forward\"\n"
		 "second: .asciz \"main.main\"\n units: .balign 8\n"
		 "table: .long 0, f1 - table, 7, f2 - table, 12\n"
		 "f1: .long 0, first - names, 0\n f2: .long 7, second - names, 0\n"
		 ".section .go.module, \"aw\"\n .quad pclntab\n .fill 21, 8, 0\n .quad %s\n",
		 magic, header_text, module_text);
	fixture_text("go.S", source);
	fixture_run("cc -static -nostdlib -s -Wl,-Ttext=%#x -o go go.S", TEXT_VADDR);
}

static void expect_go(bool named)
{
	struct image *image = open_image("go", "");
	struct list list = functions_of(image);
	struct symbol symbol;

	cr_expect_eq(list.count, named ? 2 : 0);
	if (named) {
		expect(&list, "main.(*Net).Forward", 7, SYMBOL_SYMTAB);
		expect(&list, "main.main", 5, SYMBOL_SYMTAB);
		cr_expect_eq(image__function_at(image, TEXT_VADDR + 8, &symbol), 0);
		cr_expect_str_eq(symbol.name, "main.main");
	}
	image__free(image);
}

Test(image, go_without_symbols)
{
	build_go("0xfffffff0", "_start", "0");
	expect_go(true);
	build_go("0xfffffff1", "_start", "0");
	expect_go(true);
	build_go("0xfffffff1", "0", "_start");
	expect_go(true);
	build_go("0xfffffff1", "0", "0");
	expect_go(false);
	build_go("0xfffffffa", "_start", "0");
	expect_go(false);
}

Test(image_traits, stacks)
{
	cr_expect(build("void swapcontext(void); void f(void) { swapcontext(); }", "-shared -fPIC")
			  .switches_stacks);
	/* libc defines it and does not use it */
	cr_expect_not(build("void swapcontext(void) {}", "-shared").switches_stacks);
	/* in a static program what is there is used */
	cr_expect(build("void swapcontext(void) {} void _start(void) { swapcontext(); }",
			"-static -nostdlib")
			  .switches_stacks);
	cr_expect(build("void jump_fcontext(void) {}", "-shared").switches_stacks);
	cr_expect(build("void _ZL10slp_switchv(void) {}", "-shared").switches_stacks);
}

/* Nothing says that there are no landing pads: the careful answer. */
Test(image_traits, without_section_headers)
{
	char zeros[24] = {0};

	cr_expect_not(build("int f(void) { return 1; }", "-shared").has_except_table);
	fixture_write("zeros", zeros, sizeof(zeros));
	/* e_shoff at 40, e_shnum and e_shstrndx at 60 */
	fixture_run("dd if=zeros of=t bs=1 count=8 seek=40 conv=notrunc status=none && "
		    "dd if=zeros of=t bs=1 count=4 seek=60 conv=notrunc status=none");
	cr_expect(traits_of("t").has_except_table);
	cr_expect(traits_of("t").dynamic);
}

/* Functions of assembler that says neither type nor size, between some that do. */
static const char bare_source[] =
	".text\n .globl sized\n .type sized, %function\n"
	"sized: .fill 4, 1, 1\n inner_label: .fill 4, 1, 1\n .size sized, 8\n"
	"bare: .fill 6, 1, 2\n"
	"next: .fill 2, 1, 3\n"
	/* a function without a name */
	".cfi_startproc\n .fill 16, 1, 4\n .cfi_endproc\n"
	"in_table: .cfi_startproc\n .fill 4, 1, 5\n loop_label: .fill 4, 1, 5\n .cfi_endproc\n"
	".type untold, %function\n untold: .fill 2, 1, 6\n"
	"last: .fill 3, 1, 7\n at_the_end:\n"
	".section other, \"ax\", %progbits\n .fill 100, 1, 8\n"
	".data\n data_label: .quad 1\n"
	".section .note.GNU-stack, \"\", %progbits\n";

Test(image, functions_of_no_type_or_size)
{
	struct symbol symbol;
	struct image *image;
	struct list list;

	fixture_text("bare.S", bare_source);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=%#x -o bare.so bare.S", TEXT_VADDR);
	image = open_image("bare.so", "");
	list = functions_of(image);
	expect(&list, "sized", 8, SYMBOL_SYMTAB);
	expect(&list, "bare", 6, SYMBOL_SYMTAB);
	expect(&list, "next", 2, SYMBOL_SYMTAB);
	expect(&list, "in_table", 8, SYMBOL_SYMTAB);
	expect(&list, "untold", 2, SYMBOL_SYMTAB);
	expect(&list, "last", 3, SYMBOL_SYMTAB);
	cr_expect_eq(list.count, 6);
	cr_expect_eq(image__function_at(image, TEXT_VADDR + 6, &symbol), 0);
	cr_expect_str_eq(symbol.name, "sized");
	cr_expect_eq(image__function_at(image, TEXT_VADDR + 13, &symbol), 0);
	cr_expect_str_eq(symbol.name, "bare");
	cr_expect_eq(image__function_at(image, TEXT_VADDR + 20, &symbol), -ENOENT,
		     "the nameless one is not %s", symbol.name);
	cr_expect_eq(image__function_at(image, find(&list, "last")->vaddr + 20, &symbol), -ENOENT,
		     "another section is not %s", symbol.name);
	image__free(image);
}

TestSuite(image_debug, .init = image_set_up, .fini = fixture_tear_down);

static void split_debug(void)
{
	fixture_run("objcopy --only-keep-debug f.so f.debug && strip f.so && "
		    "objcopy --add-gnu-debuglink=f.debug f.so");
}

static void expect_debug_symbols(const char *name, const char *root, bool wanted)
{
	struct image *image = open_image(name, root);
	struct list list = functions_of(image);

	if (wanted) {
		expect(&list, "hidden_one", 5, SYMBOL_DEBUG);
		expect(&list, "seven", 7, SYMBOL_DEBUG);
		expect(&list, "sized_by_fde", 9, SYMBOL_DEBUG);
		cr_expect_eq(find(&list, "seven")->vaddr, TEXT_VADDR);
		cr_expect_eq(list.count, 7);
	} else {
		cr_expect_null(find(&list, "hidden_one"));
	}
	cr_expect_eq(image__traits(image)->has_symtab, wanted);
	image__free(image);
}

Test(image_debug, debuglink_beside)
{
	split_debug();
	expect_debug_symbols("f.so", "", true);
}

Test(image_debug, debuglink_in_dot_debug)
{
	split_debug();
	fixture_run("mkdir .debug && mv f.debug .debug/");
	expect_debug_symbols("f.so", "", true);
}

Test(image_debug, debuglink_of_another_build)
{
	split_debug();
	fixture_run("echo >> f.debug");
	expect_debug_symbols("f.so", "", false);
}

/* Strips f.so and gives it what a shell command writes as its .gnu_debugdata. */
static void add_mini(const char *command)
{
	fixture_run("objcopy --only-keep-debug f.so f.debug && strip f.so && %s > f.xz && "
		    "objcopy --add-section .gnu_debugdata=f.xz f.so",
		    command);
}

Test(image_debug, mini)
{
	struct symbol symbol;
	struct image *image;
	struct list list;

	add_mini("xz -9 -c f.debug");
	image = open_image("f.so", "");
	cr_expect_eq(image__function_at(image, TEXT_VADDR + 8, &symbol), 0);
	cr_expect_str_eq(symbol.name, "hidden_one");
	list = functions_of(image);
	expect(&list, "hidden_one", 5, SYMBOL_DEBUG);
	expect(&list, "seven", 7, SYMBOL_DYNSYM);
	cr_expect_eq(list.count, 7);
	cr_expect(image__traits(image)->has_symtab);
	image__free(image);
}

/* One MiB more zeros than are unpacked, a file that is cut, and none at all. */
Test(image_debug, mini_that_is_none, .timeout = 60)
{
	static const char *const commands[] = {"head -c 129M /dev/zero | xz -1 -c",
					       "xz -c f.debug | head -c 200", "echo none"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		image_build("");
		add_mini(commands[i]);
		expect_debug_symbols("f.so", "", false);
	}
}

/* With a root, "/" means that root: a container's own /usr/lib/debug. */
Test(image_debug, debuglink_under_root)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	split_debug();
	fixture_run("mkdir -p root/usr/lib/debug%s && mv f.debug root/usr/lib/debug%s/",
		    fixture_dir, fixture_dir);
	expect_debug_symbols("f.so", root, true);
	expect_debug_symbols("f.so", "", false);
}

Test(image_debug, debug_by_build_id)
{
	struct image *image = open_image("f.so", "");
	char root[128], id[80];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	snprintf(id, sizeof(id), "%s", image__build_id(image));
	image__free(image);
	cr_assert_eq(strlen(id), 40);
	fixture_run("objcopy --only-keep-debug f.so f.debug && strip f.so && "
		    "mkdir -p root/usr/lib/debug/.build-id/%.2s && "
		    "mv f.debug root/usr/lib/debug/.build-id/%.2s/%s.debug",
		    id, id, id + 2);
	expect_debug_symbols("f.so", root, true);
	/* somebody else's file under our build-id */
	fixture_run("cc -shared -nostdlib " REGISTERS " -Wl,--build-id=0x1234 -o other.so f.S && "
		    "cp other.so root/usr/lib/debug/.build-id/%.2s/%s.debug",
		    id, id + 2);
	expect_debug_symbols("f.so", root, false);
}

Test(image_debug, links_cannot_leave_the_root)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	split_debug();
	fixture_run("mkdir -p root%s && ln -s %s/f.debug root%s/f.debug", fixture_dir, fixture_dir,
		    fixture_dir);
	/* the link leads to itself when "/" is the root, and to the real file when it is not */
	expect_debug_symbols("f.so", root, false);
}

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

/* Of this process: each file that it maps code of, by a symbol whose address the linker knows. */
Test(image, mapped)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps__find(maps, (uintptr_t)dlsym(RTLD_DEFAULT, "getppid"));
	const struct mapping *data;
	uint64_t bias, bytes = 0;
	struct image *image;

	cr_assert(mapping && mapping->executable);
	image = mapped_image_open(getpid(), mapping, &bias);
	cr_assert(image);
	cr_expect_eq(mapped_symbol(image, bias, "getppid", &bytes),
		     (uintptr_t)dlsym(RTLD_DEFAULT, "getppid"));
	cr_expect_gt(bytes, 0);
	cr_expect_eq(mapped_symbol(image, bias, "stdout", NULL),
		     (uintptr_t)dlsym(dlopen("libc.so.6", RTLD_NOW), "stdout"));
	cr_expect_eq(mapped_symbol(image, bias, "no such symbol", NULL), 0);
	image__free(image);
	data = maps__find(maps, (uintptr_t)dlsym(dlopen("libc.so.6", RTLD_NOW), "stdout"));
	cr_assert(data && !data->executable);
	cr_expect_null(mapped_image_open(getpid(), data, &bias));
	maps__free(maps);
}
