// SPDX-License-Identifier: BSD-2-Clause
#include "elf/eh_frame.h"

#include <dwarf.h>
#include <string.h>

void eh_cursor__skip(struct eh_cursor *cursor, uint64_t size)
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

uint64_t eh_cursor__fixed(struct eh_cursor *cursor, size_t size)
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

uint64_t eh_cursor__uleb(struct eh_cursor *cursor)
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

struct eh_record eh_cursor__record(struct eh_cursor *cursor)
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

bool eh_cie_parse(struct eh_cursor body, struct eh_cie *cie)
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
