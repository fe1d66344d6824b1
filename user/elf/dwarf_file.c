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

static Dwarf *open_dwarf(int fd, Elf **elf)
{
	elf_version(EV_CURRENT);
	*elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!*elf || !unpacks_to_bounded(*elf))
		return NULL;
	return dwarf_begin_elf(*elf, DWARF_C_READ, NULL);
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
	file->dwarf = open_dwarf(fd, &file->elf);
	if (file->dwarf && alt_fd >= 0)
		file->alt = open_dwarf(alt_fd, &file->alt_elf);
	if (!file->dwarf || (alt_fd >= 0 && !file->alt)) {
		dwarf_file__free(file);
		return NULL;
	}
	if (file->alt)
		dwarf_setalt(file->dwarf, file->alt);
	return file;
}

void dwarf_file__free(struct dwarf_file *file)
{
	if (!file)
		return;
	dwarf_end(file->dwarf);
	dwarf_end(file->alt);
	elf_end(file->elf);
	elf_end(file->alt_elf);
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

bool dwarf_file__is_code(const struct dwarf_file *file, uint64_t vaddr)
{
	size_t available;

	return image__code(file->image, vaddr, &available);
}
