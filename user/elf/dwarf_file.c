// SPDX-License-Identifier: BSD-2-Clause
#include "elf/dwarf.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

/* ".zdebug_*", what binutils wrote before 2.26: "ZLIB" and the size, big endian. */
static uint64_t old_unpacked_bytes(Elf_Scn *section)
{
	Elf_Data *data = elf_rawdata(section, NULL);
	uint64_t size;

	if (!data || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0)
		return 0;
	memcpy(&size, (const char *)data->d_buf + 4, sizeof(size));
	return __builtin_bswap64(size);
}

/* libdw unpacks every debug section as soon as it opens a file. */
static bool unpacks_to_bounded(Elf *elf)
{
	Elf_Scn *section = NULL;
	uint64_t left = SYMBOLIZE_UNPACKED_MAX, size;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *name;
		GElf_Shdr shdr;
		GElf_Chdr chdr;

		if (!gelf_getshdr(section, &shdr))
			continue;
		name = elf_strptr(elf, names, shdr.sh_name);
		size = 0;
		if ((shdr.sh_flags & SHF_COMPRESSED) && gelf_getchdr(section, &chdr))
			size = chdr.ch_size;
		else if (name && strncmp(name, ".zdebug", 7) == 0)
			size = old_unpacked_bytes(section);
		if (size > left)
			return false;
		left -= size;
	}
	return true;
}

/* Those that libdw has read, and unpacked, when it opened the file. False: it would read on behind
 * the end of a section of strings. */
static bool find_sections(struct dwarf_part *part)
{
	Elf_Scn *section = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (elf_getshdrstrndx(part->elf, &names))
		return false;
	while ((section = elf_nextscn(part->elf, section)) &&
	       part->sections_count < sizeof(part->sections) / sizeof(part->sections[0])) {
		const char *name = gelf_getshdr(section, &shdr)
					   ? elf_strptr(part->elf, names, shdr.sh_name)
					   : NULL;
		Elf_Data *data = NULL;

		if (name && (!strncmp(name, ".debug_", 7) || !strncmp(name, ".zdebug_", 8)))
			data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf || !data->d_size)
			continue;
		part->sections[part->sections_count].bytes = data->d_buf;
		part->sections[part->sections_count++].size = data->d_size;
		if (strstr(name, "_str") && !strstr(name, "_str_") &&
		    ((const char *)data->d_buf)[data->d_size - 1])
			return false;
	}
	return true;
}

static bool open_dwarf(struct dwarf_part *part, int fd)
{
	elf_version(EV_CURRENT);
	part->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!part->elf || !unpacks_to_bounded(part->elf))
		return false;
	part->dwarf = dwarf_begin_elf(part->elf, DWARF_C_READ, NULL);
	return part->dwarf && find_sections(part);
}

static void close_dwarf(struct dwarf_part *part)
{
	dwarf_end(part->dwarf);
	elf_end(part->elf);
}

struct dwarf_file *dwarf_file__open(struct image *image)
{
	struct dwarf_file *file;
	int fd, alt_fd;

	if (image__debug_info(image, &fd, &alt_fd))
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->image = image;
	file->entries_left = SYMBOLIZE_ENTRIES_MAX;
	if (!open_dwarf(&file->own, fd) || (alt_fd >= 0 && !open_dwarf(&file->alt, alt_fd))) {
		dwarf_file__free(file);
		return NULL;
	}
	if (file->alt.dwarf)
		dwarf_setalt(file->own.dwarf, file->alt.dwarf);
	return file;
}

void dwarf_file__free(struct dwarf_file *file)
{
	if (!file)
		return;
	close_dwarf(&file->own);
	close_dwarf(&file->alt);
	map64_clear(&file->names);
	free(file->name_list);
	pool_clear(&file->pool);
	free(file);
}

bool dwarf_file__spend(struct dwarf_file *file)
{
	if (!file->entries_left)
		return false;
	file->entries_left--;
	return true;
}

static const char *text_in(const struct dwarf_part *part, const char *text)
{
	for (size_t i = 0; i < part->sections_count; i++) {
		const char *end = part->sections[i].bytes + part->sections[i].size;

		if (text >= part->sections[i].bytes && text < end)
			return memchr(text, 0, (size_t)(end - text)) ? text : NULL;
	}
	return NULL;
}

const char *dwarf_file__text(const struct dwarf_file *file, Dwarf_Attribute *attribute)
{
	const char *text = dwarf_formstring(attribute), *ended = NULL;

	if (text)
		ended = text_in(&file->own, text);
	return text && !ended ? text_in(&file->alt, text) : ended;
}

bool dwarf_file__is_code(const struct dwarf_file *file, uint64_t vaddr)
{
	size_t available;

	return image__code(file->image, vaddr, &available);
}
