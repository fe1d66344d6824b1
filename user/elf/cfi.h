/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unwind table of a file as rows: from each address on, how the caller's frame is found. Read
 * from .eh_frame, which traced processes map and root reads: work is bounded, whatever it holds.
 */
#ifndef PERFX_ELF_CFI_H
#define PERFX_ELF_CFI_H

#include "elf/image.h"
#include "perfx_unwind.h"

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
