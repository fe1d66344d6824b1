// SPDX-License-Identifier: BSD-2-Clause
#include "elf/eh_frame.h"
#include "base/grow.h"
#include "base/order.h"
#include "elf/image_internal.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

static uint64_t read_value(struct eh_cursor *cursor, uint8_t format)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return eh_cursor__fixed(cursor, 8);
	case DW_EH_PE_udata4:
		return eh_cursor__fixed(cursor, 4);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int64_t)(int32_t)eh_cursor__fixed(cursor, 4);
	case DW_EH_PE_udata2:
		return eh_cursor__fixed(cursor, 2);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int64_t)(int16_t)eh_cursor__fixed(cursor, 2);
	case DW_EH_PE_uleb128:
		return eh_cursor__uleb(cursor);
	case DW_EH_PE_sleb128:
		return (uint64_t)eh_cursor__sleb(cursor);
	default:
		cursor->failed = true;
		return 0;
	}
}

uint64_t eh_cursor__pointer(struct eh_cursor *cursor, uint8_t encoding, uint64_t data_base)
{
	uint64_t here = cursor->vaddr, value;

	if (encoding == DW_EH_PE_omit)
		return 0;
	value = read_value(cursor, encoding & 0x0f);
	switch (encoding & 0xf0) { /* DW_EH_PE_indirect would need the process's memory */
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return here + value;
	case DW_EH_PE_datarel:
		return data_base + value;
	default:
		cursor->failed = true;
		return 0;
	}
}

enum eh_kind { EH_END = 0, EH_CIE, EH_FDE };
struct eh_record {
	enum eh_kind kind;
	struct eh_cursor body; /* behind the CIE pointer, to the end of the record */
	uint64_t cie_vaddr;    /* FDE: where its CIE starts */
};

/* Reads the head of a record and moves the cursor behind the record. In .debug_frame a CIE has an
 * id of its own, and where it starts is counted from the section's start. */
static struct eh_record read_record(struct eh_cursor *cursor)
{
	struct eh_record record = {.kind = EH_END};
	uint64_t size, id, id_vaddr;

	size = eh_cursor__fixed(cursor, 4);
	if (size == UINT32_MAX)
		size = eh_cursor__fixed(cursor, 8);
	if (cursor->failed || size < 4 || size > (uint64_t)(cursor->end - cursor->at))
		return record;
	record.body = *cursor;
	record.body.end = cursor->at + size;
	eh_cursor__skip(cursor, size);
	id_vaddr = record.body.vaddr;
	id = eh_cursor__fixed(&record.body, 4); /* four bytes in .eh_frame, 64-bit lengths too */
	record.kind = id != (cursor->debug ? UINT32_MAX : 0) ? EH_FDE : EH_CIE;
	record.cie_vaddr = cursor->debug ? id : id_vaddr - id;
	return record;
}

static struct eh_cursor cursor_at(const struct image *image, uint64_t vaddr, bool debug)
{
	struct eh_cursor cursor = {.vaddr = vaddr, .debug = debug};
	size_t available;

	if (debug) {
		available = vaddr < image->debug_frame_bytes ? image->debug_frame_bytes - vaddr : 0;
		cursor.at = available ? image->debug_frame + vaddr : NULL;
	} else {
		cursor.at = image__data(image, vaddr, &available);
	}
	cursor.end = cursor.at ? cursor.at + available : NULL;
	cursor.failed = !cursor.at;
	return cursor;
}

#define AUGMENTATION_BYTES_MAX 8 /* "zPLRSBG" and its NUL: each letter once */

/* Letters and their data; what is left of the data is stepped over. */
static bool read_augmentation(struct eh_cursor *body, const char *letters, struct eh_cie *cie)
{
	uint64_t size = eh_cursor__uleb(body);
	struct eh_cursor data = *body;

	if (!eh_cursor__skip(body, size))
		return false;
	data.end = body->at;
	for (; *letters && !data.failed; letters++) {
		switch (*letters) {
		case 'R':
			cie->pointer_encoding = (uint8_t)eh_cursor__fixed(&data, 1);
			break;
		case 'L': /* functions with landing pads */
			eh_cursor__skip(&data, 1);
			break;
		case 'P':
			read_value(&data, eh_cursor__fixed(&data, 1) & 0x0f);
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* arm64: signed return addresses */
		case 'G': /* arm64: memory tagging */
			break;
		default: /* unknown letters may carry data: what follows cannot be read */
			return false;
		}
	}
	return !data.failed;
}

static bool read_cie(struct eh_cursor body, struct eh_cie *cie)
{
	uint64_t version = eh_cursor__fixed(&body, 1);
	char letters[AUGMENTATION_BYTES_MAX];
	size_t count = 0;

	*cie = (struct eh_cie){.pointer_encoding = DW_EH_PE_absptr};
	if (version != 1 && version != 3 && version != 4)
		return false;
	while (count < sizeof(letters) && (letters[count] = (char)eh_cursor__fixed(&body, 1)))
		count++;
	if (count == sizeof(letters) || (count && letters[0] != 'z'))
		return false;
	if (version == 4 && (eh_cursor__fixed(&body, 1) != 8 || eh_cursor__fixed(&body, 1)))
		return false; /* other addresses, segments */
	cie->code_align = eh_cursor__uleb(&body);
	cie->data_align = eh_cursor__sleb(&body);
	cie->ret_addr_reg = version == 1 ? eh_cursor__fixed(&body, 1) : eh_cursor__uleb(&body);
	cie->augmented = count > 0;
	if (cie->augmented && !read_augmentation(&body, letters + 1, cie))
		return false;
	cie->program = body;
	return !body.failed;
}

/* Nearly all functions of a file have the same one. */
static bool read_cie_of(const struct image *image, const struct eh_record *record,
			struct eh_cie *cie)
{
	struct eh_cursor at;
	struct eh_record found;

	if (cie->read && cie->vaddr == record->cie_vaddr &&
	    cie->program.debug == record->body.debug)
		return true;
	cie->read = false;
	at = cursor_at(image, record->cie_vaddr, record->body.debug);
	if (at.failed)
		return false;
	found = read_record(&at);
	if (found.kind != EH_CIE || !read_cie(found.body, cie))
		return false;
	cie->vaddr = record->cie_vaddr;
	cie->read = true;
	return true;
}

static bool read_fde(const struct image *image, const struct eh_record *record, struct eh_fde *fde)
{
	struct eh_cursor body = record->body;

	if (record->kind != EH_FDE || !read_cie_of(image, record, &fde->cie))
		return false;
	fde->start = eh_cursor__pointer(&body, fde->cie.pointer_encoding, 0);
	fde->end = fde->start + eh_cursor__pointer(&body, fde->cie.pointer_encoding & 0x0f, 0);
	if (fde->cie.augmented)
		eh_cursor__skip(&body, eh_cursor__uleb(&body));
	fde->program = body;
	return !body.failed && fde->end > fde->start;
}

/*
 * Which function covers an address is looked up in .eh_frame_hdr's sorted table in place
 * (libtorch_cpu: 350,000 entries, nothing to build); a file without that table gets one of our own.
 * It survives stripping, and it knows assembler and cold parts that symbols do not.
 */

ORDER(compare_places, struct fde_place, ASCENDING(a->start, b->start))

/* Reads all of the records from a vaddr on; their end is a zero length, or the segment's end. */
static void collect_fdes(struct image *image, uint64_t vaddr, bool debug)
{
	struct eh_cursor at = cursor_at(image, vaddr, debug);
	struct eh_record record = {0};
	struct eh_fde fde = {0};

	for (; !at.failed && at.at < at.end; vaddr = at.vaddr) {
		record = read_record(&at);
		if (record.kind == EH_END)
			break;
		if (!read_fde(image, &record, &fde))
			continue;
		if (LIST_ADD(image->fdes, (struct fde_place){fde.start, vaddr, debug}))
			break;
	}
	SORT_ITEMS(image->fdes, image->fdes_count, compare_places);
}

/* Where .eh_frame starts; 0: no such thing. Fills image->eh_table when there is a usable one. */
static uint64_t read_header(struct image *image, uint64_t header)
{
	enum { SORTED_PAIRS = DW_EH_PE_datarel | DW_EH_PE_sdata4 }; /* all linkers write this one */
	struct eh_cursor at = cursor_at(image, header, false);
	uint64_t version, frame, count;
	uint8_t encodings[3];

	version = eh_cursor__fixed(&at, 1);
	for (size_t i = 0; i < 3; i++)
		encodings[i] = (uint8_t)eh_cursor__fixed(&at, 1);
	frame = eh_cursor__pointer(&at, encodings[0], header);
	if (at.failed || version != 1)
		return 0;
	if (encodings[1] == DW_EH_PE_omit || encodings[2] != SORTED_PAIRS)
		return frame;
	count = eh_cursor__pointer(&at, encodings[1], header);
	if (at.failed || count > (uint64_t)(at.end - at.at) / 8)
		return frame;
	image->eh_table.entries = at.at;
	image->eh_table.count = count;
	image->eh_table.base = header;
	return frame;
}

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2 /* since glibc 2.37 */
#endif
/* Larger ones are taken for damaged: 10,000 functions have 600 kB. */
#define DEBUG_FRAME_BYTES_MAX (256u << 20)

/* Go writes no .eh_frame, and keeps no frame pointer in functions of assembler. */
static void read_debug_frame(struct image *image)
{
	const uint8_t *bytes;
	uLongf unpacked = 0;
	Elf64_Shdr shdr;
	Elf64_Chdr chdr;

	if (!elf_view__section(&image->file, ".debug_frame", &shdr, &bytes))
		return;
	if (!(shdr.sh_flags & SHF_COMPRESSED)) {
		image->debug_frame = bytes;
		image->debug_frame_bytes = shdr.sh_size;
		return;
	}
	if (shdr.sh_size < sizeof(chdr))
		return;
	memcpy(&chdr, bytes, sizeof(chdr));
	bytes += sizeof(chdr);
	shdr.sh_size -= sizeof(chdr);
	if (!chdr.ch_size || chdr.ch_size > DEBUG_FRAME_BYTES_MAX)
		return;
	image->debug_frame_unpacked = malloc(chdr.ch_size);
	if (!image->debug_frame_unpacked)
		return;
	if (chdr.ch_type == ELFCOMPRESS_ZSTD) {
		unpacked = ZSTD_decompress(image->debug_frame_unpacked, chdr.ch_size, bytes,
					   shdr.sh_size);
	} else if (chdr.ch_type == ELFCOMPRESS_ZLIB) {
		unpacked = chdr.ch_size;
		if (uncompress(image->debug_frame_unpacked, &unpacked, bytes, shdr.sh_size) != Z_OK)
			return;
	}
	if (unpacked != chdr.ch_size)
		return;
	image->debug_frame = image->debug_frame_unpacked;
	image->debug_frame_bytes = chdr.ch_size;
}

static void prepare_frames(struct image *image)
{
	uint64_t header = 0, frame = 0;
	const uint8_t *bytes;
	Elf64_Phdr phdr;
	Elf64_Shdr shdr;
	bool go;

	if (image->frames_ready)
		return;
	image->frames_ready = true;
	for (size_t i = 0; !header && elf_view__phdr(&image->file, i, &phdr); i++)
		if (phdr.p_type == PT_GNU_EH_FRAME)
			header = phdr.p_vaddr;
	if (!header && elf_view__section(&image->file, ".eh_frame_hdr", &shdr, &bytes))
		header = shdr.sh_addr;
	if (header)
		frame = read_header(image, header);
	if (!frame && elf_view__section(&image->file, ".eh_frame", &shdr, &bytes) && shdr.sh_size)
		frame = shdr.sh_addr;
	go = elf_view__section(&image->file, ".gopclntab", &shdr, &bytes) ||
	     elf_view__section(&image->file, ".data.rel.ro.gopclntab", &shdr, &bytes);
	if (go)
		image->eh_table.count = 0; /* of the C parts alone */
	if (frame && !image->eh_table.count)
		collect_fdes(image, frame, false);
	if (go || !eh_frame__count(image))
		read_debug_frame(image);
	if (image->debug_frame)
		collect_fdes(image, 0, true);
}

size_t eh_frame__count(struct image *image)
{
	prepare_frames(image);
	return image->eh_table.count ? image->eh_table.count : image->fdes_count;
}

static uint64_t table_value(const struct image *image, size_t index, size_t column)
{
	int32_t value;

	memcpy(&value, image->eh_table.entries + 8 * index + 4 * column, sizeof(value));
	return image->eh_table.base + (uint64_t)(int64_t)value;
}

uint64_t eh_frame__start(const struct image *image, size_t index)
{
	return image->eh_table.count ? table_value(image, index, 0) : image->fdes[index].start;
}

size_t eh_frame__search(const struct image *image, uint64_t vaddr)
{
	size_t count = image->eh_table.count ?: image->fdes_count;
	size_t behind = PARTITION_POINT(i, count, eh_frame__start(image, i) <= vaddr);

	return behind ? behind - 1 : 0;
}

bool eh_frame__read(const struct image *image, size_t index, struct eh_fde *fde)
{
	const struct fde_place *place = image->eh_table.count ? NULL : &image->fdes[index];
	struct eh_cursor at = cursor_at(image, place ? place->vaddr : table_value(image, index, 1),
					place && place->debug);
	struct eh_record record = read_record(&at);

	return read_fde(image, &record, fde);
}

bool eh_frame__find(struct image *image, uint64_t vaddr, struct eh_fde *fde)
{
	return eh_frame__count(image) &&
	       eh_frame__read(image, eh_frame__search(image, vaddr), fde) && vaddr >= fde->start &&
	       vaddr < fde->end;
}

int image__fde(struct image *image, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	struct eh_fde fde = {0};

	if (!eh_frame__find(image, vaddr, &fde))
		return -ENOENT;
	*start = fde.start;
	*size = fde.end - fde.start;
	return 0;
}

void image__forget_frames(struct image *image)
{
	free(image->fdes);
	free(image->debug_frame_unpacked);
}
