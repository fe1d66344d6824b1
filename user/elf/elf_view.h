/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mapped ELF file (64-bit, little endian) whose every offset is untrusted, and which may change
 * or be cut meanwhile. elf_view__bytes is the only door to the mapping; headers and
 * symbols are copied out of it, for a damaged file may have them at odd addresses.
 */
#ifndef PERFX_ELF_ELF_VIEW_H
#define PERFX_ELF_ELF_VIEW_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_view {
	const uint8_t *bytes;
	size_t size;
	Elf64_Ehdr ehdr;
	size_t phnum, shnum;
	struct elf_strings {
		const char *text; /* ends in a NUL byte at text[size - 1] */
		size_t size;
	} section_names;
};

/* Maps the file. -ENOEXEC: not ELF, or damaged; -ENOTSUP: 32-bit, big endian, another machine. */
int elf_view__map(struct elf_view *view, int fd);
void elf_view__unmap(struct elf_view *view);
/* Gives back the memory of the pages that have been read. They stay in the page cache, from where
 * they come again when they are read again. */
void elf_view__release_pages(const struct elf_view *view);
/* The same for some bytes of it. */
void elf_view__release(const uint8_t *bytes, size_t size);

/* NULL unless all of [offset, offset + size) lies in the file. */
const uint8_t *elf_view__bytes(const struct elf_view *view, uint64_t offset, uint64_t size);
bool elf_view__phdr(const struct elf_view *view, size_t index, Elf64_Phdr *phdr);
bool elf_view__shdr(const struct elf_view *view, size_t index, Elf64_Shdr *shdr);
/* The section of that name, with its bytes in the file; false when there is none. */
bool elf_view__section(const struct elf_view *view, const char *name, Elf64_Shdr *shdr,
		       const uint8_t **bytes);
/* The first section of that type. */
bool elf_view__section_of_type(const struct elf_view *view, uint32_t type, Elf64_Shdr *shdr);
/* The string table with that section number; size 0 when it is none. */
struct elf_strings elf_view__strings(const struct elf_view *view, size_t index);
/* "" when the offset is outside. */
const char *elf_strings__at(const struct elf_strings *strings, uint64_t offset);

/* Walks the notes in [bytes, bytes + size). */
struct elf_note {
	uint32_t type;
	const char *name; /* not necessarily terminated */
	size_t name_size;
	const uint8_t *desc;
	size_t desc_size;
};
bool elf_note__next(const uint8_t *bytes, size_t size, size_t align, size_t *position,
		    struct elf_note *note);
bool elf_note__is(const struct elf_note *note, const char *name, uint32_t type);

#endif
