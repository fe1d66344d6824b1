/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * include/perfx.h against every compiler, linker and optimisation level of this machine: each mark
 * lies in the function that its name says, survives strip, costs nothing, and goes away with dead
 * code. The notes are read here by hand, from the ABI in the header, not by the product's reader.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perfx.h"

#define DATA "tests/unit/data/"

static char dir[] = "/tmp/perfx-h-XXXXXX";

static void make_dir(void)
{
	cr_assert_not_null(mkdtemp(dir));
}

static void drop_dir(void)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(perfx_h, .init = make_dir, .fini = drop_dir);

__attribute__((format(printf, 1, 2))) static int sh(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	return system(cmd);
}

static bool have(const char *tool)
{
	if (!sh("command -v %s >/dev/null 2>&1", tool))
		return true;
	fprintf(stderr, "test_perfx_h: no %s here: skipped\n", tool);
	return false;
}

struct mark {
	uint64_t vaddr;
	uint32_t flags;
	char name[200];
	char symbol[200]; /* of the function that covers vaddr; "" in a stripped file */
};

struct elf {
	int fd;
	Elf *elf;
};

static struct elf elf_open(const char *name)
{
	struct elf e;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	elf_version(EV_CURRENT);
	e.fd = open(path, O_RDONLY | O_CLOEXEC);
	e.elf = elf_begin(e.fd, ELF_C_READ, NULL);
	cr_assert_not_null(e.elf, "%s", path);
	return e;
}

static void elf_close(struct elf *e)
{
	elf_end(e->elf);
	close(e->fd);
}

static Elf_Scn *find_section(Elf *elf, const char *name, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	cr_assert_eq(elf_getshdrstrndx(elf, &strings), 0);
	while ((scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, shdr))
		if (!strcmp(elf_strptr(elf, strings, shdr->sh_name), name))
			return scn;
	return NULL;
}

/* The string at a vaddr of the loaded image. */
static void read_string(Elf *elf, uint64_t vaddr, char *out, size_t size)
{
	GElf_Phdr phdr;
	size_t phnum, file_size;
	const char *file = elf_rawfile(elf, &file_size);

	out[0] = '\0';
	cr_assert_eq(elf_getphdrnum(elf, &phnum), 0);
	for (size_t i = 0; i < phnum && gelf_getphdr(elf, (int)i, &phdr); i++)
		if (phdr.p_type == PT_LOAD && vaddr - phdr.p_vaddr < phdr.p_filesz)
			snprintf(out, size, "%s", file + phdr.p_offset + (vaddr - phdr.p_vaddr));
}

static void find_symbol(Elf *elf, uint64_t vaddr, char *out, size_t size)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = find_section(elf, ".symtab", &shdr);
	Elf_Data *data;
	GElf_Sym sym;

	out[0] = '\0';
	if (!scn)
		return;
	data = elf_getdata(scn, NULL);
	for (int i = 0; gelf_getsym(data, i, &sym); i++)
		if (GELF_ST_TYPE(sym.st_info) == STT_FUNC && vaddr - sym.st_value < sym.st_size)
			snprintf(out, size, "%s", elf_strptr(elf, shdr.sh_link, sym.st_name));
}

static size_t read_marks(const char *file, struct mark *annotations, size_t max)
{
	struct elf e = elf_open(file);
	size_t count = 0, offset = 0, next, name_at, desc_at;
	Elf_Data *data;
	GElf_Shdr shdr;
	GElf_Nhdr note;
	Elf_Scn *scn = find_section(e.elf, ".note.perfx", &shdr);

	cr_assert_not_null(scn, "%s has no notes", file);
	cr_assert_eq(shdr.sh_type, SHT_NOTE);
	cr_assert_eq(shdr.sh_flags & SHF_ALLOC, 0);
	data = elf_getdata(scn, NULL);
	while ((next = gelf_getnote(data, offset, &note, &name_at, &desc_at))) {
		const char *desc = (const char *)data->d_buf + desc_at;
		struct mark *annotation = &annotations[count++];
		uint64_t name;

		cr_assert_leq(count, max);
		cr_assert_str_eq((const char *)data->d_buf + name_at, PERFX_NOTE_OWNER);
		cr_assert_eq(note.n_type, PERFX_NOTE_TYPE);
		cr_assert_geq(note.n_descsz, 25);
		memcpy(&annotation->vaddr, desc, 8);
		memcpy(&name, desc + 8, 8);
		memcpy(&annotation->flags, desc + 16, 4);
		cr_assert(annotation->flags & PERFX_NOTE_NAME_VADDR);
		read_string(e.elf, name, annotation->name, sizeof(annotation->name));
		find_symbol(e.elf, annotation->vaddr, annotation->symbol,
			    sizeof(annotation->symbol));
		offset = next;
	}
	elf_close(&e);
	return count;
}

/* The symbol contains the "mark_…" word of the name, or the name contains the symbol. */
static void check_place(const struct mark *annotation, const char *what)
{
	const char *word = strstr(annotation->name, "mark_");
	char token[64] = "main";

	if (word)
		sscanf(word, "%63[a-z_]", token);
	cr_expect(strstr(annotation->symbol, token), "%s: \"%s\" marks a place in \"%s\"", what,
		  annotation->name, annotation->symbol);
}

static void check_build(const char *compile, const char *const *expected)
{
	struct mark annotations[64], stripped[64];
	size_t count, alive = 0;

	cr_assert_eq(sh("%s -Iinclude -Wall -Wextra -Werror -pedantic -o %s/a", compile, dir), 0,
		     "%s", compile);
	count = read_marks("a", annotations, 64);
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(annotations[i].name, "nobody calls this"))
			continue;
		alive++;
		check_place(&annotations[i], compile);
	}
	cr_expect_geq(alive, 1);
	for (; *expected; expected++) {
		bool found = false;

		for (size_t i = 0; i < count; i++)
			found |= strstr(annotations[i].name, *expected) != NULL;
		cr_expect(found, "%s: no mark named %s", compile, *expected);
	}
	cr_assert_eq(sh("strip %s/a", dir), 0);
	cr_expect_eq(read_marks("a", stripped, 64), count, "%s: strip", compile);
	for (size_t i = 0; i < count; i++) {
		cr_expect_eq(stripped[i].vaddr, annotations[i].vaddr);
		cr_expect_str_eq(stripped[i].name, annotations[i].name);
	}
}

static const char *const c_names[] = {"mark_static", "mark_once", "mark_global",
				      "mark_named 100% {a|b} \"q\" \\n", NULL};
static const char *const cxx_names[] = {"mark_class::mark_class",
					"mark_class::~mark_class",
					"mark_method",
					"mark_template",
					"mark_member",
					"mark_inline",
					"mark_hidden",
					"mark_lambda",
					"mark_throw",
					NULL};

static const char *const ways[] = {
	"-O0",
	"-O1 -no-pie",
	"-O2 -fPIE -pie",
	"-Os -fPIE -pie",
	"-O3 -static",
	"-O2 -fPIC -shared",
	"-O0 -fPIC -shared",
	"-O2 -flto",
	"-O2 -fcf-protection=full -ffunction-sections -Wl,--gc-sections"};

static void check_compiler(const char *cc, const char *std, const char *source,
			   const char *const *names)
{
	if (!have(cc))
		return;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char cmd[256];

		snprintf(cmd, sizeof(cmd), "%s -std=%s %s " DATA "%s", cc, std, ways[i], source);
		check_build(cmd, names);
	}
}

Test(perfx_h, gcc)
{
	check_compiler("gcc", "c11", "track.c", c_names);
}

Test(perfx_h, clang)
{
	check_compiler("clang", "c11", "track.c", c_names);
}

Test(perfx_h, gxx)
{
	check_compiler("g++", "c++11", "track.cc", cxx_names);
}

Test(perfx_h, clangxx)
{
	check_compiler("clang++", "c++11", "track.cc", cxx_names);
}

/* A dead function and its mark go together, and the names of the living stay. */
static void check_dead(const char *linker)
{
	struct mark annotations[16];
	size_t count;

	cr_assert_eq(sh("cc -O2 -ffunction-sections -fdata-sections -Wl,--gc-sections %s -Iinclude "
			"-o %s/a " DATA "track.c",
			linker, dir),
		     0);
	count = read_marks("a", annotations, 16);
	for (size_t i = 0; i < count; i++) {
		cr_expect_str_neq(annotations[i].name, "nobody calls this");
		check_place(&annotations[i], linker);
	}
	cr_expect_eq(count, 4);
}

Test(perfx_h, dead_code_is_collected)
{
	check_dead("");
	if (have("ld.lld"))
		check_dead("-fuse-ld=lld");
}

static uint64_t section_size(const char *file, const char *name)
{
	struct elf e = elf_open(file);
	GElf_Shdr shdr;
	uint64_t size = find_section(e.elf, name, &shdr) ? shdr.sh_size : 0;

	elf_close(&e);
	return size;
}

/* With GCC the code is that of a function with noinline, byte for byte in size; nothing writable
 * and nothing to relocate at load is added, whatever the compiler. */
Test(perfx_h, costs_nothing)
{
	static const char *const sections[] = {".text",
					       ".data",
					       ".bss",
					       ".data.rel.ro",
					       ".data.rel.ro.local",
					       ".rela.data.rel.ro.local"};
	static const char *const levels[] = {"-O1", "-O2", "-O3", "-Os", "-O2 -fcf-protection"};

	for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
		if (!have("gcc"))
			return;
		cr_assert_eq(
			sh("gcc %s -fPIC -Iinclude -c -o %s/a " DATA "track.c", levels[l], dir), 0);
		cr_assert_eq(
			sh("gcc %s -fPIC -DWITHOUT -c -o %s/b " DATA "track.c", levels[l], dir), 0);
		for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
			cr_expect_eq(section_size("a", sections[i]), section_size("b", sections[i]),
				     "%s %s", levels[l], sections[i]);
	}
	if (!have("clang"))
		return;
	cr_assert_eq(sh("clang -O2 -fPIC -Iinclude -c -o %s/a " DATA "track.c", dir), 0);
	for (size_t i = 1; i < sizeof(sections) / sizeof(sections[0]); i++)
		cr_expect_eq(section_size("a", sections[i]), 0, "%s", sections[i]);
}

/* The other architecture, as far as it goes without its C library: assemble, link, read. */
Test(perfx_h, arm64)
{
	struct mark annotations[16];

	if (!have("aarch64-linux-gnu-gcc"))
		return;
	for (int pic = 0; pic < 2; pic++) {
		cr_assert_eq(sh("aarch64-linux-gnu-gcc -O2 -Werror -pedantic -ffreestanding "
				"-nostdlib %s "
				"-Iinclude "
				"-o %s/a " DATA "track.c",
				pic ? "-fPIC -shared" : "-static -Wl,-e,main", dir),
			     0);
		cr_assert_eq(read_marks("a", annotations, 16), 5);
		for (int i = 0; i < 5; i++)
			if (strcmp(annotations[i].name, "nobody calls this"))
				check_place(&annotations[i], "arm64");
	}
}

static const char flops_source[] =
	"#include \"perfx.h\"\n"
	"static inline __attribute__((always_inline)) void told(unsigned n) { perfx_flops(2ull * "
	"n); }\n"
	"static void dead(void) { perfx_flops(7); }\n"
	"int main(int argc, char **argv)\n"
	"{ (void)argv; told((unsigned)argc); told(3); perfx_flops(5); if (0) dead();\n"
	"  return 0; }\n";

/* Notes of type 2 whose place is a nop; those of code that is gone have place 0. */
static size_t hints_of(const char *name)
{
	struct elf e = elf_open(name);
	Elf_Scn *section = NULL;
	size_t count = 0, strings;

	cr_assert_eq(elf_getshdrstrndx(e.elf, &strings), 0);
	while ((section = elf_nextscn(e.elf, section))) {
		GElf_Shdr shdr;
		GElf_Nhdr note;
		size_t offset = 0, next, at_name, at_desc;
		Elf_Data *data;

		gelf_getshdr(section, &shdr);
		if (strcmp(elf_strptr(e.elf, strings, shdr.sh_name), ".note.perfx") != 0)
			continue;
		cr_expect_eq(shdr.sh_flags & SHF_ALLOC, 0);
		data = elf_getdata(section, NULL);
		while ((next = gelf_getnote(data, offset, &note, &at_name, &at_desc)) > 0) {
			uint64_t place;

			memcpy(&place, (char *)data->d_buf + at_desc, sizeof(place));
			cr_expect_eq(note.n_type, PERFX_NOTE_TYPE_FLOPS);
			cr_expect_eq(note.n_descsz, 16);
			count += place != 0;
			offset = next;
		}
	}
	elf_end(e.elf);
	close(e.fd);
	return count;
}

Test(perfx_h, flops)
{
	static const char *const compilers[] = {"gcc", "gcc -x c++", "clang", "clang -x c++"};
	static const char *const options[] = {"-O0", "-O2", "-O3 -flto -fPIE -pie",
					      "-Os -ffunction-sections -Wl,--gc-sections"};
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/flops.c", dir);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(flops_source, file);
	fclose(file);
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!have(i < 2 ? "gcc" : "clang"))
			continue;
		for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
			cr_assert_eq(
				sh("%s %s -Wall -Wextra -Wpedantic -Werror -Iinclude -o %s/flops "
				   "%s",
				   compilers[i], options[j], dir, path),
				0);
			/* two copies of the inline one and its own; without optimisation the dead
			 * one */
			cr_expect(j ? hints_of("flops") == 3 : hints_of("flops") >= 3, "%s %s: %zu",
				  compilers[i], options[j], hints_of("flops"));
			cr_expect_eq(sh("strip %s/flops && %s/flops", dir, dir), 0);
		}
	}
}
