// SPDX-License-Identifier: BSD-2-Clause
#include "base/grow.h"
#include "elf/image_internal.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Part one: the bytes of .eh_frame and .eh_frame_hdr (System V psABI, LSB Core "Exception Frames"),
 * just enough to find which function an address belongs to. Every read is checked.
 */
struct eh_cursor {
	const uint8_t *at, *end;
	uint64_t vaddr; /* of *at: what pc-relative pointers count from */
	bool failed;	/* ran past the end, or met an encoding that it does not know */
};

static void eh_cursor__skip(struct eh_cursor *cursor, uint64_t size)
{
	if (!cursor->at) { /* nowhere */
		cursor->failed = true;
		return;
	}
	if (size > (uint64_t)(cursor->end - cursor->at)) {
		cursor->failed = true;
		size = (uint64_t)(cursor->end - cursor->at);
	}
	cursor->at += size;
	cursor->vaddr += size;
}

/* Little endian, zero-extended. */
static uint64_t eh_cursor__fixed(struct eh_cursor *cursor, size_t size)
{
	const uint8_t *at = cursor->at;
	uint64_t value = 0;

	eh_cursor__skip(cursor, size);
	if (cursor->failed)
		return 0;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

static uint64_t read_leb(struct eh_cursor *cursor, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = eh_cursor__fixed(cursor, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= UINT64_MAX << shift;
	return value;
}

static uint64_t eh_cursor__uleb(struct eh_cursor *cursor)
{
	return read_leb(cursor, false);
}

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
		return read_leb(cursor, false);
	case DW_EH_PE_sleb128:
		return read_leb(cursor, true);
	default:
		cursor->failed = true;
		return 0;
	}
}

/* encoding: DW_EH_PE_*; data_base is what datarel counts from. */
static uint64_t eh_cursor__pointer(struct eh_cursor *cursor, uint8_t encoding, uint64_t data_base)
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

/* Reads the head of a record and moves the cursor behind the record. */
static struct eh_record eh_cursor__record(struct eh_cursor *cursor)
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
	record.kind = id ? EH_FDE : EH_CIE;
	record.cie_vaddr = id_vaddr - id;
	return record;
}

struct eh_cie {
	uint8_t pointer_encoding; /* of an FDE's start */
	bool has_lsda;		  /* augmentation 'L': functions with landing pads */
};

static const char *read_string(struct eh_cursor *cursor)
{
	const uint8_t *end = memchr(cursor->at, 0, (size_t)(cursor->end - cursor->at));
	const char *text = (const char *)cursor->at;

	if (!end) {
		cursor->failed = true;
		return "";
	}
	eh_cursor__skip(cursor, (uint64_t)(end - cursor->at) + 1);
	return text;
}

static bool read_augmentation(struct eh_cursor *body, const char *letters, struct eh_cie *cie)
{
	for (; *letters && !body->failed; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->pointer_encoding = (uint8_t)eh_cursor__fixed(body, 1);
			break;
		case 'L':
			eh_cursor__skip(body, 1);
			cie->has_lsda = true;
			break;
		case 'P':
			encoding = (uint8_t)eh_cursor__fixed(body, 1);
			read_value(body, encoding & 0x0f);
			break;
		case 'S': /* signal frame */
		case 'B': /* arm64: signed return addresses */
		case 'G': /* arm64: memory tagging */
			break;
		default: /* unknown letters may carry data: what follows cannot be read */
			return false;
		}
	}
	return !body->failed;
}

static bool eh_cie_parse(struct eh_cursor body, struct eh_cie *cie)
{
	const char *augmentation;
	uint64_t version;

	*cie = (struct eh_cie){.pointer_encoding = DW_EH_PE_absptr};
	version = eh_cursor__fixed(&body, 1);
	if (version != 1 && version != 3)
		return false;
	augmentation = read_string(&body);
	eh_cursor__uleb(&body); /* code alignment */
	eh_cursor__uleb(&body); /* data alignment */
	if (version == 1)
		eh_cursor__skip(&body, 1); /* return address column */
	else
		eh_cursor__uleb(&body);
	if (body.failed || !*augmentation)
		return !body.failed;
	if (*augmentation != 'z')
		return false;
	eh_cursor__uleb(&body);
	return read_augmentation(&body, augmentation + 1, cie);
}

/*
 * Part two: the unwind table as a map of functions and of frames. It survives stripping, and it
 * knows assembler and cold parts that symbols do not. Which function covers an address is looked up
 * in .eh_frame_hdr's sorted table in place (libtorch_cpu: 350,000 entries, nothing to build); a
 * file without that table gets one of our own. The rules of a frame are left to libdw.
 */

static struct eh_cursor cursor_at(const struct image *image, uint64_t vaddr)
{
	struct eh_cursor cursor = {.vaddr = vaddr};
	size_t available;

	cursor.at = image__data(image, vaddr, &available);
	cursor.end = cursor.at ? cursor.at + available : NULL;
	cursor.failed = !cursor.at;
	return cursor;
}

static bool fde_range(const struct image *image, struct eh_record *fde, struct fde_range *range)
{
	struct eh_cursor at = cursor_at(image, fde->cie_vaddr);
	struct eh_record record;
	struct eh_cie cie;

	if (at.failed)
		return false;
	record = eh_cursor__record(&at);
	if (record.kind != EH_CIE || !eh_cie_parse(record.body, &cie))
		return false;
	range->start = eh_cursor__pointer(&fde->body, cie.pointer_encoding, 0);
	range->size = eh_cursor__pointer(&fde->body, cie.pointer_encoding & 0x0f, 0);
	return !fde->body.failed && range->size && range->start + range->size > range->start;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct fde_range *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

/* Reads all of .eh_frame from a vaddr on; its end is a zero length, or the segment's end. */
static void collect_ranges(struct image *image, uint64_t vaddr)
{
	struct eh_cursor at = cursor_at(image, vaddr);

	while (!at.failed && at.at < at.end) {
		struct eh_record record = eh_cursor__record(&at);
		struct fde_range range;

		if (record.kind == EH_END)
			break;
		if (record.kind != EH_FDE || !fde_range(image, &record, &range))
			continue;
		if (grow_array(&image->ranges, &image->ranges_capacity, image->ranges_count + 1,
			       sizeof(*image->ranges)))
			break;
		image->ranges[image->ranges_count++] = range;
	}
	if (image->ranges_count)
		qsort(image->ranges, image->ranges_count, sizeof(*image->ranges), compare_ranges);
}

static uint64_t header_vaddr(const struct image *image)
{
	const uint8_t *bytes;
	Elf64_Phdr phdr;
	Elf64_Shdr shdr;

	for (size_t i = 0; elf_view__phdr(&image->file, i, &phdr); i++)
		if (phdr.p_type == PT_GNU_EH_FRAME)
			return phdr.p_vaddr;
	if (elf_view__section(&image->file, ".eh_frame_hdr", &shdr, &bytes))
		return shdr.sh_addr;
	return 0;
}

/* Where .eh_frame starts; 0: no such thing. Fills image->eh_table when there is a usable one. */
static uint64_t read_header(struct image *image, uint64_t header)
{
	enum { SORTED_PAIRS = DW_EH_PE_datarel | DW_EH_PE_sdata4 }; /* all linkers write this one */
	struct eh_cursor at = cursor_at(image, header);
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

static void prepare_frames(struct image *image)
{
	uint64_t header, frame = 0;
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (image->frames_ready)
		return;
	image->frames_ready = true;
	header = header_vaddr(image);
	if (header)
		frame = read_header(image, header);
	if (!frame && elf_view__section(&image->file, ".eh_frame", &shdr, &bytes))
		frame = shdr.sh_addr;
	if (frame && !image->eh_table.count)
		collect_ranges(image, frame);
}

static uint64_t table_value(const struct image *image, size_t index, size_t column)
{
	int32_t value;

	memcpy(&value, image->eh_table.entries + 8 * index + 4 * column, sizeof(value));
	return image->eh_table.base + (uint64_t)(int64_t)value;
}

/* The last entry that starts at or before vaddr, or -1. */
static ssize_t table_search(const struct image *image, uint64_t vaddr)
{
	size_t low = 0, high = image->eh_table.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table_value(image, middle, 0) <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return (ssize_t)low - 1;
}

static bool range_from_table(const struct image *image, uint64_t vaddr, struct fde_range *range)
{
	ssize_t index = table_search(image, vaddr);
	struct eh_record record;
	struct eh_cursor at;

	if (index < 0)
		return false;
	at = cursor_at(image, table_value(image, (size_t)index, 1));
	if (at.failed)
		return false;
	record = eh_cursor__record(&at);
	return record.kind == EH_FDE && fde_range(image, &record, range);
}

static bool range_from_list(const struct image *image, uint64_t vaddr, struct fde_range *range)
{
	size_t low = 0, high = image->ranges_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->ranges[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	*range = image->ranges[low - 1];
	return true;
}

int image__fde(struct image *image, uint64_t vaddr, uint64_t *start, uint64_t *size)
{
	struct fde_range range;
	bool found;

	prepare_frames(image);
	found = image->eh_table.count ? range_from_table(image, vaddr, &range)
				      : range_from_list(image, vaddr, &range);
	if (!found || vaddr < range.start || vaddr - range.start >= range.size)
		return -ENOENT;
	*start = range.start;
	*size = range.size;
	return 0;
}

static struct Dwarf_CFI_s *libdw_frames(struct image *image)
{
	if (image->cfi_tried)
		return image->cfi;
	image->cfi_tried = true;
	elf_version(EV_CURRENT);
	image->elf = elf_begin(image->fd, ELF_C_READ, NULL);
	image->cfi = image->elf ? dwarf_getcfi_elf(image->elf) : NULL;
	return image->cfi;
}

static int cfa_register(uint64_t dwarf_number, enum cfa_reg *reg)
{
#if defined(__aarch64__)
	enum { STACK = 31, FRAME = 29 };
#else
	enum { STACK = 7, FRAME = 6 };
#endif
	if (dwarf_number != STACK && dwarf_number != FRAME)
		return -ENOTSUP;
	*reg = dwarf_number == STACK ? CFA_RSP : CFA_RBP;
	return 0;
}

static int cfa_rule(Dwarf_Frame *frame, enum cfa_reg *reg, int64_t *cfa_offset)
{
	Dwarf_Op *ops;
	size_t count;

	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0)
		return -ENOENT;
	if (count != 1 || ops->atom != DW_OP_bregx)
		return -ENOTSUP; /* a procedure linkage table, say: an expression */
	*cfa_offset = (int64_t)ops->number2;
	return cfa_register(ops->number, reg);
}

int image__cfa(struct image *image, uint64_t vaddr, enum cfa_reg *reg, int64_t *cfa_offset)
{
	struct Dwarf_CFI_s *cfi = libdw_frames(image);
	Dwarf_Frame *frame;
	int err;

	if (!cfi || dwarf_cfi_addrframe(cfi, vaddr, &frame) != 0)
		return -ENOENT;
	err = cfa_rule(frame, reg, cfa_offset);
	free(frame);
	return err;
}

void image__forget_frames(struct image *image)
{
	if (image->cfi)
		dwarf_cfi_end(image->cfi);
	if (image->elf)
		elf_end(image->elf);
	free(image->ranges);
}
