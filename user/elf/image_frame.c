// SPDX-License-Identifier: BSD-2-Clause
/*
 * The unwind table as a map of functions and of frames. It survives stripping, and it knows
 * assembler and cold parts that symbols do not. Which function covers an address is looked up in
 * .eh_frame_hdr's sorted table in place (libtorch_cpu: 350,000 entries, nothing to build); a file
 * without that table gets one of our own. The rules of a frame are left to libdw.
 */
#include "elf/image_internal.h"

#include "elf/eh_frame.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	size_t room = 0;

	while (!at.failed && at.at < at.end) {
		struct eh_record record = eh_cursor__record(&at);
		struct fde_range range, *grown;

		if (record.kind == EH_END)
			break;
		if (record.kind != EH_FDE || !fde_range(image, &record, &range))
			continue;
		if (image->ranges_count == room) {
			room = room ? 2 * room : 256;
			grown = realloc(image->ranges, room * sizeof(*grown));
			if (!grown)
				break;
			image->ranges = grown;
		}
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
