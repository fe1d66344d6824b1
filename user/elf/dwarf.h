/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this module share; included by them alone. */
#ifndef PERFX_ELF_DWARF_H
#define PERFX_ELF_DWARF_H

#include "base/grow.h"
#include "base/map64.h"
#include "elf/symbolize.h"

#include <elfutils/libdw.h>
#include <stdbool.h>

/* The DWARF of one file. */
struct dwarf_file {
	const struct image *image;
	struct dwarf_part {
		Elf *elf;
		Dwarf *dwarf;
		struct {
			const char *bytes;
			size_t size;
		} sections[32]; /* .debug_* */
		size_t sections_count;
	} own, alt;	       /* alt: what dwz moved to a common file, or nothing */
	uint64_t entries_left; /* of SYMBOLIZE_ENTRIES_MAX */
	unsigned local_steps;  /* of dwarf_file__name in itself */
	struct map64 names;    /* entry → index in name_list */
	const char **name_list;
	size_t name_count, name_room;
	struct pool pool;
};

/* NULL: no DWARF, or none that can be used. */
struct dwarf_file *dwarf_file__open(struct image *image);
void dwarf_file__free(struct dwarf_file *file);
/* Takes one from the budget; false when it is used up. */
bool dwarf_file__spend(struct dwarf_file *file);

/* An attribute's text, which libdw gives without looking for its end. NULL: it has none. */
const char *dwarf_file__text(const struct dwarf_file *file, Dwarf_Attribute *attribute);

/* Is it an address of code? The ranges of functions that the linker has dropped start at 0, or so.
 */
bool dwarf_file__is_code(const struct dwarf_file *file, uint64_t vaddr);

/* dwarf_name.c: a function's qualified name; "" unknown. Lives as long as the file. */
const char *dwarf_file__name(struct dwarf_file *file, Dwarf_Die *function);

/* dwarf_tree.c: finds the functions of a unit that cover addresses: functions[i] for each of the
 * ascending vaddrs[i], found[i] whether there is one. */
void dwarf_file__functions(struct dwarf_file *file, Dwarf_Die *unit, const uint64_t *vaddrs,
			   size_t count, Dwarf_Die *functions, bool *found);
/* What is inlined in a function at an address, outermost first. Returns the count. */
size_t dwarf_file__inlined(struct dwarf_file *file, Dwarf_Die *function, uint64_t vaddr,
			   Dwarf_Die *inlined, size_t room);

/* The index of the first of the ascending values that is not below. */
size_t lower_bound(const uint64_t *values, size_t count, uint64_t value);

#endif
