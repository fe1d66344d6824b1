/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of .eh_frame and .eh_frame_hdr (System V psABI, LSB Core "Exception Frames"): which FDE
 * (frame description entry) covers an address, and what it and its CIE (common information entry)
 * consist of. Shared by eh_frame.c and cfi.c, which runs the programs in them.
 */
#ifndef PERFX_ELF_EH_FRAME_H
#define PERFX_ELF_EH_FRAME_H

#include "elf/image.h"
#include "perfx_unwind.h"

#include <string.h>

/* Every read is checked: past the end it gives 0, and so do all that follow. */
struct eh_cursor {
	const uint8_t *at, *end;
	uint64_t vaddr; /* of *at: what pc-relative pointers count from */
	bool failed;	/* ran past the end, or met an encoding that it does not know */
	bool debug;	/* of .debug_frame: vaddr is an offset in that */
};

/* The bytes that it steps over; NULL: they are not there. */
static inline const uint8_t *eh_cursor__skip(struct eh_cursor *cursor, uint64_t size)
{
	const uint8_t *at = cursor->at;

	if (cursor->failed || size > (uint64_t)(cursor->end - at)) {
		cursor->failed = true;
		return NULL;
	}
	cursor->at += size;
	cursor->vaddr += size;
	return at;
}

/* Little endian, as all hosts are; zero-extended. */
static inline uint64_t eh_cursor__fixed(struct eh_cursor *cursor, size_t size)
{
	const uint8_t *at = eh_cursor__skip(cursor, size);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, size);
	return value;
}

/* Seven bits a byte; more than ten bytes are no number. */
static inline uint64_t eh_cursor__leb(struct eh_cursor *cursor, bool is_signed)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint64_t byte = eh_cursor__fixed(cursor, 1);

		value |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && byte & 0x40 && shift + 7 < 64)
			value |= UINT64_MAX << (shift + 7);
		return value;
	}
	cursor->failed = true;
	return 0;
}

static inline uint64_t eh_cursor__uleb(struct eh_cursor *cursor)
{
	return eh_cursor__leb(cursor, false);
}

static inline int64_t eh_cursor__sleb(struct eh_cursor *cursor)
{
	return (int64_t)eh_cursor__leb(cursor, true);
}

/* encoding: DW_EH_PE_*; data_base is what datarel counts from. */
uint64_t eh_cursor__pointer(struct eh_cursor *cursor, uint8_t encoding, uint64_t data_base);

struct eh_cie {
	uint64_t vaddr; /* where it starts; in .debug_frame an offset */
	bool read;	/* the rest has been read */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ret_addr_reg;
	uint8_t pointer_encoding; /* of an FDE's start */
	bool augmented;		  /* its FDEs have augmentation data */
	bool signal_frame;	  /* the caller was interrupted, and has called nothing */
	struct eh_cursor program; /* instructions that run before those of each FDE */
};

struct eh_fde {
	uint64_t start, end;
	struct eh_cie cie;
	struct eh_cursor program;
};

/* The FDEs of a file by their start, numbered from 0. */
size_t eh_frame__count(struct image *image);
uint64_t eh_frame__start(const struct image *image, size_t index);
/* The last one that starts at or before vaddr, which it need not cover; 0 when there is none. */
size_t eh_frame__search(const struct image *image, uint64_t vaddr);
/* *fde: of the same file, whose CIE is kept where it is the same; or 0. */
bool eh_frame__read(const struct image *image, size_t index, struct eh_fde *fde);
/* The one that covers vaddr. */
bool eh_frame__find(struct image *image, uint64_t vaddr, struct eh_fde *fde);

/*
 * The unwind table of a file as rows: from each address on, how the caller's frame is found. They
 * are read from .eh_frame. A traced process chooses what that section holds, and root reads it, so
 * the work is bounded.
 */
struct cfi_row {
	uint64_t vaddr; /* the rule holds from here to the next row */
	struct perfx_unwind_rule rule;
};

/* Not 0: stops. */
typedef int cfi_row_fn(const struct cfi_row *row, void *ctx);

/*
 * Rows of [from, to) in ascending order: the first is at `from`, each says something else than the
 * one before, and where no FDE covers the code the rule is PERFX_CFA_NONE: between functions, too,
 * where a few bytes align the next (a tenth of libtorch_cpu's rows). A page of 64 KiB costs some
 * 100 µs, libtorch_cpu (2.7 million rows) 0.2 s. Returns what fn returned when that was not 0;
 * -ENOENT when the file has no unwind table.
 */
int image__cfi_rows(struct image *image, uint64_t from, uint64_t to, cfi_row_fn *fn, void *ctx);

/* To look rules up by what they say. */
bool cfi_rule_equal(const struct perfx_unwind_rule *a, const struct perfx_unwind_rule *b);
uint64_t cfi_rule_hash(const struct perfx_unwind_rule *rule);

#endif
