// SPDX-License-Identifier: BSD-2-Clause
/*
 * Opening a file and finding one's way in it. Symbols, notes, frames, traits and separate debug
 * files are in image_*.c.
 */
#include "elf/image.h"

#include "elf/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool add_segment(struct image *image, const Elf64_Phdr *phdr)
{
	struct segment segment = {.vaddr = phdr->p_vaddr,
				  .offset = phdr->p_offset,
				  .size = phdr->p_filesz,
				  .executable = phdr->p_flags & PF_X};
	struct segment *grown;
	uint64_t end;

	if (phdr->p_type != PT_LOAD || segment.offset >= image->file.size || !segment.size)
		return true;
	if (segment.size > image->file.size - segment.offset)
		segment.size = image->file.size - segment.offset;
	if (__builtin_add_overflow(segment.vaddr, segment.size, &end))
		return true;
	grown = realloc(image->segments, (image->segments_count + 1) * sizeof(*grown));
	if (!grown)
		return false;
	image->segments = grown;
	image->segments[image->segments_count++] = segment;
	return true;
}

static int read_segments(struct image *image)
{
	Elf64_Phdr phdr;

	for (size_t i = 0; elf_view__phdr(&image->file, i, &phdr); i++)
		if (!add_segment(image, &phdr))
			return -ENOMEM;
	return image->segments_count ? 0 : -ENOEXEC;
}

static int image_load(struct image *image, int fd, const char *path, const char *root)
{
	int err;

	image->path = strdup(path ? path : "");
	image->root = strdup(root ? root : "");
	if (!image->path || !image->root)
		return -ENOMEM;
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (image->fd < 0)
		return -errno;
	err = elf_view__map(&image->file, image->fd);
	if (err)
		return err;
	err = read_segments(image);
	if (err)
		return err;
	elf_view__build_id(&image->file, image->build_id, sizeof(image->build_id));
	image__add_table(image, &image->file, SHT_SYMTAB, SYMBOL_SYMTAB);
	if (!image->tables_count && image__open_debug(image))
		image__add_table(image, &image->debug, SHT_SYMTAB, SYMBOL_DEBUG);
	image__add_table(image, &image->file, SHT_DYNSYM, SYMBOL_DYNSYM);
	return 0;
}

struct image *image__open(int fd, const char *path, const char *root)
{
	struct image *image = calloc(1, sizeof(*image));
	int err;

	if (!image)
		return NULL;
	image->fd = image->debug_fd = image->alt_fd = -1;
	err = image_load(image, fd, path, root);
	if (err) {
		image__free(image);
		errno = -err;
		return NULL;
	}
	return image;
}

uint64_t image__entry_point(const struct image *image)
{
	return image->file.ehdr.e_entry;
}

void image__free(struct image *image)
{
	if (!image)
		return;
	image__forget_annotations(image);
	image__forget_frames(image);
	image__forget_symbols(image);
	image__close_debug(image);
	elf_view__unmap(&image->file);
	free(image->segments);
	free(image->path);
	free(image->root);
	if (image->fd >= 0)
		close(image->fd);
	free(image);
}

const struct segment *image__segment(const struct image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->segments_count; i++) {
		const struct segment *segment = &image->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->size)
			return segment;
	}
	return NULL;
}

const uint8_t *image__data(const struct image *image, uint64_t vaddr, size_t *available)
{
	const struct segment *segment = image__segment(image, vaddr);

	if (!segment)
		return NULL;
	*available = segment->size - (vaddr - segment->vaddr);
	return image->file.bytes + segment->offset + (vaddr - segment->vaddr);
}

const uint8_t *image__code(const struct image *image, uint64_t vaddr, size_t *available)
{
	const struct segment *segment = image__segment(image, vaddr);

	return segment && segment->executable ? image__data(image, vaddr, available) : NULL;
}

const uint8_t *image__code_segment(const struct image *image, size_t index, uint64_t *vaddr,
				   size_t *size)
{
	for (size_t i = 0; i < image->segments_count; i++) {
		const struct segment *segment = &image->segments[i];

		if (!segment->executable || index--)
			continue;
		*vaddr = segment->vaddr;
		return image__data(image, segment->vaddr, size);
	}
	return NULL;
}

int64_t image__offset(const struct image *image, uint64_t vaddr)
{
	const struct segment *segment = image__segment(image, vaddr);

	return segment ? (int64_t)(segment->offset + (vaddr - segment->vaddr)) : -1;
}

/* Neighbouring segments often share a page of the file; code is what addresses seen in a process
 * are asked for, so the executable one wins. */
int64_t image__vaddr(const struct image *image, uint64_t offset)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < image->segments_count; i++) {
		const struct segment *segment = &image->segments[i];

		if (offset < segment->offset || offset - segment->offset >= segment->size)
			continue;
		if (!found || (segment->executable && !found->executable))
			found = segment;
	}
	return found ? (int64_t)(found->vaddr + (offset - found->offset)) : -1;
}

const char *image__build_id(const struct image *image)
{
	return image->build_id;
}

static bool build_id_in(const uint8_t *bytes, size_t size, size_t align, char *hex, size_t hex_size)
{
	struct elf_note note;
	size_t position = 0;

	while (elf_note__next(bytes, size, align, &position, &note)) {
		if (!elf_note__is(&note, "GNU", NT_GNU_BUILD_ID) || !note.desc_size ||
		    2 * note.desc_size >= hex_size)
			continue;
		for (size_t i = 0; i < note.desc_size; i++)
			snprintf(hex + 2 * i, 3, "%02x", note.desc[i]);
		return true;
	}
	return false;
}

void elf_view__build_id(const struct elf_view *view, char *hex, size_t hex_size)
{
	const uint8_t *bytes;
	Elf64_Phdr phdr;
	Elf64_Shdr shdr;

	hex[0] = '\0';
	/* sections first: the segments of a separate debug file point at nothing */
	for (size_t i = 1; elf_view__shdr(view, i, &shdr); i++) {
		bytes = elf_view__bytes(view, shdr.sh_offset, shdr.sh_size);
		if (shdr.sh_type == SHT_NOTE && bytes &&
		    build_id_in(bytes, shdr.sh_size, shdr.sh_addralign, hex, hex_size))
			return;
	}
	for (size_t i = 0; !view->shnum && elf_view__phdr(view, i, &phdr); i++) {
		bytes = elf_view__bytes(view, phdr.p_offset, phdr.p_filesz);
		if (phdr.p_type == PT_NOTE && bytes &&
		    build_id_in(bytes, phdr.p_filesz, phdr.p_align, hex, hex_size))
			return;
	}
}
