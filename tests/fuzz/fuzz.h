/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fuzz targets share. Each fuzz_DOOR.c is one door by which bytes of strangers come in: a
 * libFuzzer target under ASan and UBSan (make fuzz). seeds.c writes what each begins with.
 */
#ifndef PERFX_TESTS_FUZZ_H
#define PERFX_TESTS_FUZZ_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define FUZZ_PATH 64 /* bytes */

/* A file of these bytes, and the path to open it by. The caller closes it. */
__attribute__((unused)) static int fuzz_file(const void *bytes, size_t size, char path[FUZZ_PATH])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	snprintf(path, FUZZ_PATH, "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}

/* The bytes as text, which ends at the first NUL. The caller frees. */
__attribute__((unused)) static char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	return text;
}

/* Where reports are written to. */
__attribute__((unused)) static FILE *fuzz_nowhere(void)
{
	static FILE *out;

	if (!out)
		out = fopen("/dev/null", "we");
	return out;
}

/* How an input of fuzz_xla.c begins. */
#define FUZZ_XLA_RANGES 16

struct fuzz_xla {
	uint64_t thunk;
	char operation[32];
	struct fuzz_xla_range {
		uint64_t address, bytes;
	} ranges[FUZZ_XLA_RANGES];
};

/* Of how many files an input of fuzz_mappings.c has the code. */
#define FUZZ_MAPPED_FILES 4

/*
 * Inputs that are sections of an ELF file, which fuzz_image.h puts around them: a struct fuzz_part
 * for each of a door's sections, then their bytes one after another; what is missing is empty.
 */
#define FUZZ_SECTIONS_MAX 12

struct fuzz_door {
	const char *name;
	struct fuzz_section {
		const char *name;
		uint32_t type;	/* SHT_; the section behind a symbol table has its strings */
		uint64_t flags; /* SHF_ALLOC: in a segment of its own */
	} sections[FUZZ_SECTIONS_MAX];
};

struct fuzz_part {
	uint32_t vaddr;
	uint32_t size; /* bytes */
};

__attribute__((unused)) static const struct fuzz_door fuzz_doors[] = {
	{"eh_frame",
	 {{".eh_frame", SHT_PROGBITS, SHF_ALLOC}, {".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC}}},
	{"dwarf",
	 {{".debug_info", SHT_PROGBITS, 0},
	  {".debug_abbrev", SHT_PROGBITS, 0},
	  {".debug_line", SHT_PROGBITS, 0},
	  {".debug_str", SHT_PROGBITS, 0},
	  {".debug_line_str", SHT_PROGBITS, 0},
	  {".debug_ranges", SHT_PROGBITS, 0},
	  {".debug_rnglists", SHT_PROGBITS, 0},
	  {".debug_aranges", SHT_PROGBITS, 0},
	  {".debug_addr", SHT_PROGBITS, 0},
	  {".debug_str_offsets", SHT_PROGBITS, 0}}},
	{"notes",
	 {{".note.perfx", SHT_NOTE, 0},
	  {".note.stapsdt", SHT_NOTE, 0},
	  {".note.gnu.build-id", SHT_NOTE, SHF_ALLOC},
	  {".stapsdt.base", SHT_PROGBITS, SHF_ALLOC},
	  {".rodata", SHT_PROGBITS, SHF_ALLOC},
	  {".probes", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE},
	  {".symtab", SHT_SYMTAB, 0},
	  {".strtab", SHT_STRTAB, 0}}},
	{"code",
	 {{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR},
	  {".rodata", SHT_PROGBITS, SHF_ALLOC},
	  {".eh_frame", SHT_PROGBITS, SHF_ALLOC}}},
};
#define FUZZ_DOORS FUZZ_COUNT(fuzz_doors)

__attribute__((unused)) static size_t fuzz_sections_count(const struct fuzz_door *door)
{
	size_t count = 0;

	while (count < FUZZ_SECTIONS_MAX && door->sections[count].name)
		count++;
	return count;
}

/* Before the sections of the door "code": what is asked of it. */
struct fuzz_question {
	uint8_t flags, argument_regs;
	uint16_t skip, size; /* bytes of .text: before the function, of it */
	uint16_t zero;
};

#endif
