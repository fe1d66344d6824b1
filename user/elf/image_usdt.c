// SPDX-License-Identifier: BSD-2-Clause
/*
 * USDT probes: .note.stapsdt, as SystemTap's <sys/sdt.h>, libbpf's usdt.h and include/perfx.h write
 * it. One note for each place, so a probe has as many notes as the source uses it and the compiler
 * copied that. Owner "stapsdt", type 3:
 *
 *	u64 location    vaddr of the nop
 *	u64 base        vaddr of section .stapsdt.base as it was linked
 *	u64 semaphore   vaddr of a u16 that counts who looks, or 0
 *	char[]          provider, name, arguments: three strings, each NUL-terminated
 *
 * prelink moves a file's segments but not what a note says, for it is not loaded: where the base
 * section is now tells by how much.
 */
#include "elf/image_internal.h"

#include <string.h>

enum { USDT_TYPE = 3, USDT_FIXED_BYTES = 24 };

/* The string at *at, which then is behind it; NULL when it does not end in the note. */
static const char *take_string(const struct elf_note *note, size_t *at)
{
	const char *text = (const char *)note->desc + *at;
	const char *end = memchr(text, 0, note->desc_size - *at);

	if (!end)
		return NULL;
	*at += (size_t)(end - text) + 1;
	return text;
}

/* How far the file was moved since it was linked. */
static uint64_t moved_by(const struct image *image, uint64_t base)
{
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (!base || !elf_view__section(&image->file, ".stapsdt.base", &shdr, &bytes))
		return 0;
	return shdr.sh_addr - base;
}

/* Where the kernel is to count in the file; it wants the u16 aligned. */
static bool place_semaphore(const struct image *image, struct usdt_probe *probe)
{
	const struct segment *segment = image__segment(image, probe->semaphore_vaddr);

	if (!probe->semaphore_vaddr)
		return true;
	if (!segment || segment->executable || probe->semaphore_vaddr % 2)
		return false;
	probe->semaphore_offset = (uint64_t)image__offset(image, probe->semaphore_vaddr);
	return true;
}

static bool place(const struct image *image, struct usdt_probe *probe, uint64_t base)
{
	uint64_t moved = moved_by(image, base);
	const struct segment *segment;

	probe->vaddr += moved;
	if (probe->semaphore_vaddr)
		probe->semaphore_vaddr += moved;
	segment = image__segment(image, probe->vaddr);
	if (!segment || !segment->executable)
		return false;
	probe->offset = (uint64_t)image__offset(image, probe->vaddr);
	return place_semaphore(image, probe);
}

static bool read_probe(const struct image *image, const struct elf_note *note,
		       struct usdt_probe *probe)
{
	size_t at = USDT_FIXED_BYTES;
	uint64_t base;

	memset(probe, 0, sizeof(*probe));
	if (!elf_note__is(note, "stapsdt", USDT_TYPE) || note->desc_size < USDT_FIXED_BYTES)
		return false;
	memcpy(&probe->vaddr, note->desc, 8);
	memcpy(&base, note->desc + 8, 8);
	memcpy(&probe->semaphore_vaddr, note->desc + 16, 8);
	probe->provider = take_string(note, &at);
	probe->name = probe->provider ? take_string(note, &at) : NULL;
	/* the first releases of sdt.h wrote no arguments */
	probe->arguments = probe->name ? take_string(note, &at) : NULL;
	if (!probe->arguments)
		probe->arguments = "";
	return probe->name && probe->provider[0] && probe->name[0] && probe->vaddr &&
	       place(image, probe, base);
}

int image__each_usdt(struct image *image, int (*fn)(const struct usdt_probe *probe, void *ctx),
		     void *ctx)
{
	const uint8_t *bytes;
	struct usdt_probe probe;
	struct elf_note note;
	size_t position = 0;
	Elf64_Shdr shdr;
	int err = 0;

	if (!elf_view__section(&image->file, ".note.stapsdt", &shdr, &bytes) &&
	    !elf_view__section(&image->debug, ".note.stapsdt", &shdr, &bytes))
		return 0;
	while (!err && elf_note__next(bytes, shdr.sh_size, shdr.sh_addralign, &position, &note))
		if (read_probe(image, &note, &probe))
			err = fn(&probe, ctx);
	return err;
}
