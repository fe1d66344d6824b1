/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of .eh_frame and .eh_frame_hdr (System V psABI, LSB Core "Exception Frames"): just
 * enough to find which function an address belongs to. Every read is checked.
 */
#ifndef PERFX_ELF_EH_FRAME_H
#define PERFX_ELF_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eh_cursor {
	const uint8_t *at, *end;
	uint64_t vaddr; /* of *at: what pc-relative pointers count from */
	bool failed;	/* ran past the end, or met an encoding that it does not know */
};

uint64_t eh_cursor__fixed(struct eh_cursor *cursor, size_t size); /* little endian, zero-extended */
uint64_t eh_cursor__uleb(struct eh_cursor *cursor);
void eh_cursor__skip(struct eh_cursor *cursor, uint64_t size);
/* DW_EH_PE_*; data_base is what datarel counts from. */
uint64_t eh_cursor__pointer(struct eh_cursor *cursor, uint8_t encoding, uint64_t data_base);

enum eh_kind { EH_END = 0, EH_CIE, EH_FDE };
struct eh_record {
	enum eh_kind kind;
	struct eh_cursor body; /* behind the CIE pointer, to the end of the record */
	uint64_t cie_vaddr;    /* FDE: where its CIE starts */
};
/* Reads a record's head and moves the cursor behind the record. */
struct eh_record eh_cursor__record(struct eh_cursor *cursor);

struct eh_cie {
	uint8_t pointer_encoding; /* of an FDE's start */
	bool has_lsda;		  /* augmentation 'L': functions with landing pads */
};
bool eh_cie_parse(struct eh_cursor body, struct eh_cie *cie);

#endif
