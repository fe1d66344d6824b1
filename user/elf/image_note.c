// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks that authors left in their functions (include/perfx.h). A note gives a place inside the
 * function; which function that is, is found here, for a label cannot know. Layout of a note of
 * owner "perfx", type 1, in .note.perfx, everything little endian and 4-aligned:
 *
 *	u64 mark   vaddr inside the function; 0: the linker threw the function away
 *	u64 name   vaddr of the name (flag NAME_VADDR), or 0
 *	u32 flags, u32 zero
 *	char[]     the name otherwise
 *
 * and of type 2, where operations are given:
 *
 *	u64 place  vaddr of the nop; 0: as above
 *	u32 flags, u32 zero
 *
 * A mark copied by the compiler (both constructors of a class, cloned code) gives equal notes.
 */
#include "base/grow.h"
#include "base/order.h"
#include "elf/demangle.h"
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE_TYPE = 1, NOTE_FIXED_BYTES = 24, NAME_MAX_BYTES = 16 * 1024 };
enum { HINT_TYPE = 2, HINT_BYTES = 16 };
/* Each note is compared with all before it: a file made of notes must not take hours. */
enum { ANNOTATIONS_MAX = 1 << 15 };

/* As in include/perfx.h. Bits that are not known say nothing that matters here. */
enum note_flag { NOTE_PRETTY = 1, NOTE_NAME_VADDR = 4 };

/* A cold part is entered by a jump from the middle of its function, with the frame already built.
 * Symbols say so; without them, the unwind table does, except for functions without a frame. */
static bool starts_a_function(struct image *image, uint64_t vaddr)
{
#if defined(__aarch64__)
	enum { ENTRY_CFA_OFFSET = 0 };
#else
	enum { ENTRY_CFA_OFFSET = 8 }; /* the return address */
#endif
	enum cfa_reg reg;
	int64_t offset;

	if (image__cfa(image, vaddr, &reg, &offset) != 0)
		return true;
	return reg == CFA_RSP && offset == ENTRY_CFA_OFFSET;
}

static void locate(struct image *image, uint64_t annotation_vaddr, struct symbol *symbol)
{
	struct symbol covering;
	uint64_t start, size;

	if (image__covering(image, annotation_vaddr, &covering) == 0) {
		if (covering.cold)
			return;
		start = covering.vaddr;
		size = covering.size;
	} else if (image__fde(image, annotation_vaddr, &start, &size) != 0 ||
		   !starts_a_function(image, start)) {
		return;
	}
	if (!image__segment(image, start) || !image__segment(image, start)->executable)
		return;
	symbol->vaddr = start;
	symbol->size = size;
	symbol->offset = (uint64_t)image__offset(image, start);
}

static int add_annotation(struct image *image, const struct elf_note *note)
{
	const char *text = (const char *)note->desc + NOTE_FIXED_BYTES;
	size_t room = note->desc_size - NOTE_FIXED_BYTES;
	struct symbol symbol = {.origin = SYMBOL_NOTE};
	uint64_t vaddr, name_vaddr;
	uint32_t flags;
	char *name;

	memcpy(&vaddr, note->desc, 8);
	memcpy(&name_vaddr, note->desc + 8, 8);
	memcpy(&flags, note->desc + 16, 4);
	if (vaddr && flags & NOTE_NAME_VADDR)
		text = (const char *)image__data(image, name_vaddr, &room);
	if (!vaddr || !text || !room || !text[0] || !memchr(text, 0, min_u64(room, NAME_MAX_BYTES)))
		return 0;
	symbol.name = name = flags & NOTE_PRETTY ? demangle_pretty(text) : strdup(text);
	if (!name)
		return -ENOMEM;
	locate(image, vaddr, &symbol);
	FOR_EACH (known, image->annotations) {
		if (known->vaddr == symbol.vaddr && !strcmp(known->name, name)) {
			free(name);
			return 0;
		}
	}
	if (!LIST_ADD(image->annotations, symbol))
		return 0;
	free(name);
	return -ENOMEM;
}

static bool notes_of(const struct image *image, Elf64_Shdr *shdr, const uint8_t **bytes)
{
	return elf_view__section(&image->file, ".note.perfx", shdr, bytes) ||
	       elf_view__section(&image->debug, ".note.perfx", shdr, bytes);
}

int image__each_annotation(struct image *image, int (*fn)(const struct symbol *symbol, void *ctx),
			   void *ctx)
{
	const uint8_t *bytes;
	struct elf_note note;
	size_t position = 0;
	Elf64_Shdr shdr;
	int err = 0;

	if (!image->annotations_ready && notes_of(image, &shdr, &bytes))
		while (!err && image->annotations_count < ANNOTATIONS_MAX &&
		       elf_note__next(bytes, shdr.sh_size, shdr.sh_addralign, &position, &note))
			if (elf_note__is(&note, "perfx", NOTE_TYPE) &&
			    note.desc_size >= NOTE_FIXED_BYTES)
				err = add_annotation(image, &note);
	image->annotations_ready = !err;
	if (err)
		image__forget_annotations(image);
	for (size_t i = 0; !err && i < image->annotations_count; i++)
		err = fn(&image->annotations[i], ctx);
	return err;
}

void image__forget_annotations(struct image *image)
{
	for (size_t i = 0; i < image->annotations_count; i++)
		free((char *)image->annotations[i].name);
	free(image->annotations);
	image->annotations = NULL;
	image->annotations_count = image->annotations_capacity = 0;
}

/* A damaged note must not lead a probe into the middle of an instruction. */
static bool is_nop(const struct image *image, uint64_t vaddr)
{
#if defined(__aarch64__)
	static const uint8_t nop[] = {0x1f, 0x20, 0x03, 0xd5};
#else
	static const uint8_t nop[] = {0x90};
#endif
	size_t available;
	const uint8_t *code = image__code(image, vaddr, &available);

	return code && available >= sizeof(nop) && !memcmp(code, nop, sizeof(nop));
}

int image__each_hint(struct image *image, int (*fn)(uint64_t vaddr, void *ctx), void *ctx)
{
	const uint8_t *bytes;
	struct elf_note note;
	size_t position = 0, hints = 0;
	Elf64_Shdr shdr;
	uint64_t vaddr;
	int err = 0;

	if (!notes_of(image, &shdr, &bytes))
		return 0;
	while (!err && hints < ANNOTATIONS_MAX &&
	       elf_note__next(bytes, shdr.sh_size, shdr.sh_addralign, &position, &note)) {
		if (!elf_note__is(&note, "perfx", HINT_TYPE) || note.desc_size < HINT_BYTES)
			continue;
		memcpy(&vaddr, note.desc, sizeof(vaddr));
		if (!vaddr || !is_nop(image, vaddr))
			continue;
		hints++;
		err = fn(vaddr, ctx);
	}
	return err;
}

/*
 * USDT probes: .note.stapsdt, as SystemTap's <sys/sdt.h>, libbpf's usdt.h and include/perfx.h write
 * it. One note for each place, so a probe has as many notes as the source uses it and the compiler
 * copied that. Owner "stapsdt", type 3:
 *
 *	u64 location    vaddr of the nop
 *	u64 base        vaddr of section .stapsdt.base as it was linked
 *	u64 semaphore   vaddr of a u16 that counts tracers, or 0
 *	char[]          provider, name, arguments: three strings, each NUL-terminated
 *
 * prelink moves a file's segments but leaves the addresses in notes, which are not loaded: the base
 * section's address now, less the one in the note, is how far they were moved.
 */

enum { USDT_TYPE = 3, USDT_FIXED_BYTES = 24 };

/* The string at *at, and moves *at behind it; NULL when it does not end in the note. */
static const char *next_string(const struct elf_note *note, size_t *at)
{
	const char *text = (const char *)note->desc + *at;
	const char *end = memchr(text, 0, note->desc_size - *at);

	if (!end)
		return NULL;
	*at += (size_t)(end - text) + 1;
	return text;
}

/* False: it is outside the executable code, or has a semaphore that the kernel could not raise. */
static bool relocate(const struct image *image, struct usdt_probe *probe, uint64_t base)
{
	const struct segment *segment;
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (base && elf_view__section(&image->file, ".stapsdt.base", &shdr, &bytes)) {
		probe->vaddr += shdr.sh_addr - base;
		if (probe->semaphore_vaddr)
			probe->semaphore_vaddr += shdr.sh_addr - base;
	}
	segment = image__segment(image, probe->vaddr);
	if (!segment || !segment->executable)
		return false;
	probe->offset = (uint64_t)image__offset(image, probe->vaddr);
	if (!probe->semaphore_vaddr)
		return true;
	segment = image__segment(image, probe->semaphore_vaddr);
	if (!segment || segment->executable || probe->semaphore_vaddr % 2) /* it must be aligned */
		return false;
	probe->semaphore_offset = (uint64_t)image__offset(image, probe->semaphore_vaddr);
	return true;
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
	probe->provider = next_string(note, &at);
	probe->name = probe->provider ? next_string(note, &at) : NULL;
	/* the first releases of sdt.h wrote no arguments */
	probe->arguments = probe->name ? next_string(note, &at) : NULL;
	if (!probe->arguments)
		probe->arguments = "";
	return probe->name && probe->provider[0] && probe->name[0] && probe->vaddr &&
	       relocate(image, probe, base);
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
