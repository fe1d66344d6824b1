/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ELF file around sections of which the fuzzer has the content: what it damages are the tables
 * in them, and not the headers by which they are found (fuzz_elf.c does those).
 *
 * Unless one of the sections is code, there is a page of nops at FUZZ_TEXT_VADDR.
 */
#ifndef PERFX_TESTS_FUZZ_IMAGE_H
#define PERFX_TESTS_FUZZ_IMAGE_H

#include "fuzz.h"

#include "elf/elf_view.h"
#include "elf/image.h"

#include <stdbool.h>

#define FUZZ_TEXT_VADDR 0x1200
#define FUZZ_TEXT_BYTES 0x1000

/* The linker puts these in the place of those that image.c calls (Makefile): ASan does not know
 * where a mapped file ends, so its bytes, and the zero behind them, are moved to the heap. */
static bool fuzz_mapped;
int __real_elf_view__map(struct elf_view *view, int fd);
void __real_elf_view__unmap(struct elf_view *view);
int __wrap_elf_view__map(struct elf_view *view, int fd);
void __wrap_elf_view__unmap(struct elf_view *view);
void __wrap_elf_view__release_pages(const struct elf_view *view);

int __wrap_elf_view__map(struct elf_view *view, int fd)
{
	int err = __real_elf_view__map(view, fd);
	struct elf_view mapped = *view;
	uint8_t *bytes;

	fuzz_mapped = true;
	if (err)
		return err;
	bytes = calloc(1, view->size + 1);
	if (!bytes)
		abort();
	view->bytes = memcpy(bytes, view->bytes, view->size);
	if (view->section_names.text)
		view->section_names.text =
			(char *)bytes + (view->section_names.text - (const char *)mapped.bytes);
	__real_elf_view__unmap(&mapped);
	return 0;
}

/* The kernel would give other pages in place of those of the heap. */
void __wrap_elf_view__release_pages(const struct elf_view *view)
{
	(void)view;
}

void __wrap_elf_view__unmap(struct elf_view *view)
{
	free((void *)view->bytes);
	*view = (struct elf_view){0};
}

/* NULL: not taken for an ELF file. */
static struct image *fuzz_open(const void *bytes, size_t size)
{
	char path[FUZZ_PATH];
	int fd = fuzz_file(bytes, size, path);
	struct image *image = image__open(fd, path, "/nowhere");

	close(fd);
	if (image && !fuzz_mapped)
		abort();
	return image;
}

struct fuzz_elf {
	uint8_t *bytes;
	size_t size;
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[32];
	Elf64_Shdr shdrs[32];
};

static void fuzz_elf_append(struct fuzz_elf *elf, const void *bytes, size_t size)
{
	elf->bytes = realloc(elf->bytes, elf->size + size + 1);
	if (!elf->bytes)
		abort();
	memcpy(elf->bytes + elf->size, bytes, size);
	elf->size += size;
}

static void fuzz_elf_add_segment(struct fuzz_elf *elf, uint32_t type, const Elf64_Shdr *shdr)
{
	elf->phdrs[elf->ehdr.e_phnum++] =
		(Elf64_Phdr){.p_type = type,
			     .p_flags = PF_R | (shdr->sh_flags & SHF_EXECINSTR ? PF_X : 0),
			     .p_offset = shdr->sh_offset,
			     .p_vaddr = shdr->sh_addr,
			     .p_filesz = shdr->sh_size,
			     .p_memsz = shdr->sh_size,
			     .p_align = 1};
}

static void fuzz_elf_add(struct fuzz_elf *elf, const struct fuzz_section *section, uint64_t vaddr,
			 const void *bytes, size_t size)
{
	Elf64_Shdr *shdr = &elf->shdrs[elf->ehdr.e_shnum++];

	*shdr = (Elf64_Shdr){.sh_type = section->type,
			     .sh_flags = section->flags,
			     .sh_addr = vaddr,
			     .sh_offset = elf->size,
			     .sh_size = size,
			     .sh_addralign = section->type == SHT_NOTE ? 4 : 1};
	if (section->type == SHT_SYMTAB || section->type == SHT_DYNSYM) {
		shdr->sh_link = elf->ehdr.e_shnum;
		shdr->sh_entsize = sizeof(Elf64_Sym);
	}
	fuzz_elf_append(elf, bytes, size);
	if (section->flags & SHF_ALLOC)
		fuzz_elf_add_segment(elf, PT_LOAD, shdr);
	if (!strcmp(section->name, ".eh_frame_hdr") && size)
		fuzz_elf_add_segment(elf, PT_GNU_EH_FRAME, shdr);
}

static void fuzz_elf_name(struct fuzz_elf *elf, size_t index, size_t names, const char *name)
{
	elf->shdrs[index].sh_name = (uint32_t)(elf->size - names);
	fuzz_elf_append(elf, name, strlen(name) + 1);
}

/* The names of the sections, the headers, and what the first one says of them. */
static void fuzz_elf_finish(struct fuzz_elf *elf, const struct fuzz_section *sections, size_t count)
{
	static const struct fuzz_section names = {".shstrtab", SHT_STRTAB, 0};
	size_t first = elf->size;

	fuzz_elf_append(elf, "", 1);
	for (size_t i = 0; i < count; i++)
		fuzz_elf_name(elf, i + 1, first, sections[i].name);
	elf->ehdr.e_shstrndx = elf->ehdr.e_shnum;
	fuzz_elf_add(elf, &names, 0, "", 0);
	elf->shdrs[elf->ehdr.e_shstrndx].sh_offset = first;
	elf->shdrs[elf->ehdr.e_shstrndx].sh_size = elf->size - first;
	elf->ehdr.e_phoff = elf->size;
	fuzz_elf_append(elf, elf->phdrs, elf->ehdr.e_phnum * sizeof(elf->phdrs[0]));
	elf->ehdr.e_shoff = elf->size;
	fuzz_elf_append(elf, elf->shdrs, elf->ehdr.e_shnum * sizeof(elf->shdrs[0]));
	memcpy(elf->bytes, &elf->ehdr, sizeof(elf->ehdr));
}

static void fuzz_elf_begin(struct fuzz_elf *elf)
{
	*elf = (struct fuzz_elf){.ehdr = {.e_type = ET_DYN,
					  .e_machine = EM_X86_64,
					  .e_version = EV_CURRENT,
					  .e_entry = FUZZ_TEXT_VADDR,
					  .e_ehsize = sizeof(Elf64_Ehdr),
					  .e_phentsize = sizeof(Elf64_Phdr),
					  .e_shentsize = sizeof(Elf64_Shdr),
					  .e_shnum = 1}};
	memcpy(elf->ehdr.e_ident, ELFMAG, SELFMAG);
	elf->ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	elf->ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	elf->ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	fuzz_elf_append(elf, &elf->ehdr, sizeof(elf->ehdr));
}

/* The next part of an input, and what is left of it. */
static struct fuzz_part fuzz_take(const struct fuzz_part *parts, size_t index, size_t left)
{
	struct fuzz_part part = parts[index];

	part.size = part.size < left ? part.size : (uint32_t)left;
	return part;
}

static const struct fuzz_door *fuzz_door_named(const char *name)
{
	for (size_t i = 0; i < FUZZ_DOORS; i++)
		if (!strcmp(fuzz_doors[i].name, name))
			return &fuzz_doors[i];
	abort();
}

/* NULL: the input is no such thing. */
__attribute__((unused)) static struct image *fuzz_image(const char *name, const uint8_t *data,
							size_t size)
{
	const struct fuzz_door *door = fuzz_door_named(name);
	size_t count = fuzz_sections_count(door);
	static const struct fuzz_section text = {".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR};
	struct fuzz_part parts[FUZZ_SECTIONS_MAX];
	uint8_t nops[FUZZ_TEXT_BYTES];
	struct fuzz_elf elf;
	struct image *image;
	bool has_code = false;

	if (size < count * sizeof(parts[0]))
		return NULL;
	memcpy(parts, data, count * sizeof(parts[0]));
	data += count * sizeof(parts[0]);
	size -= count * sizeof(parts[0]);
	fuzz_elf_begin(&elf);
	for (size_t i = 0; i < count; i++) {
		struct fuzz_part part = fuzz_take(parts, i, size);

		fuzz_elf_add(&elf, &door->sections[i], part.vaddr, data, part.size);
		has_code |= door->sections[i].flags & SHF_EXECINSTR;
		data += part.size;
		size -= part.size;
	}
	if (!has_code) {
		memset(nops, 0x90, sizeof(nops));
		fuzz_elf_add(&elf, &text, FUZZ_TEXT_VADDR, nops, sizeof(nops));
	}
	fuzz_elf_finish(&elf, door->sections, count);
	image = fuzz_open(elf.bytes, elf.size);
	free(elf.bytes);
	return image;
}

#endif
