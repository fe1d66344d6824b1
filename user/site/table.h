/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where does an indirect jump get its target from? The tables that gcc and clang make of a
 * switch, or a pointer.
 */
#ifndef PERFX_SITE_TABLE_H
#define PERFX_SITE_TABLE_H

#include "site/body.h"

struct jump_table {
	uint64_t vaddr;
	uint64_t base;	  /* what relative entries are added to: mostly the table itself */
	bool is_relative; /* 32-bit entries; else 64-bit addresses */
	bool is_bounded;  /* entries_max comes from the range check before the jump */
	uint32_t entries_max;
};

enum jump_source {
	JUMP_TABLE = 1,
	JUMP_POINTER, /* a function pointer: argument, vtable, GOT */
	JUMP_UNCLEAR
};

enum jump_source table_find(const struct body *body, int32_t jump, struct jump_table *table);

/* False: the file has no bytes there. */
bool table_entry(const struct image *image, const struct jump_table *table, uint32_t index,
		 uint64_t *target);

#endif
