// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tree of a compilation unit: which functions have code at given addresses, and what was
 * inlined there. dwarf_getscopes does that for one address by a walk over the whole unit; here one
 * walk serves all addresses of a unit. Trees are untrusted: depth and number of entries are
 * bounded, and libdw sees to it that a sibling lies behind its elder.
 */
#include "elf/dwarf.h"

#include <dwarf.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

struct walk {
	struct dwarf_file *file;
	const uint64_t *vaddrs;
	size_t count, left;
	Dwarf_Die *functions;
	bool *found;
	/* Functions inside functions (GNU C, Ada, the bodies of OpenMP's parallel regions) and
	 * inside types (Rust), where compilers seldom put any: looked for when some are missing. */
	bool everywhere;
};

size_t lower_bound(const uint64_t *values, size_t count, uint64_t value)
{
	size_t low = 0;

	while (low < count) {
		size_t middle = low + (count - low) / 2;

		if (values[middle] < value)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

static void match_function(struct walk *walk, Dwarf_Die *function)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(function, offset, &base, &start, &end)) > 0) {
		size_t i = lower_bound(walk->vaddrs, walk->count, start);

		if (!dwarf_file__is_code(walk->file, start))
			i = walk->count;
		for (; i < walk->count && walk->vaddrs[i] < end; i++) {
			if (!dwarf_file__spend(walk->file))
				return;
			if (walk->found[i])
				continue;
			walk->found[i] = true;
			walk->functions[i] = *function;
			walk->left--;
		}
		if (!dwarf_file__spend(walk->file))
			return;
	}
}

static bool may_hold_functions(const struct walk *walk, int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return walk->everywhere;
	}
	return false;
}

static void walk_children(struct walk *walk, Dwarf_Die *parent, int depth)
{
	Dwarf_Die child;

	if (depth > DEPTH_MAX || dwarf_child(parent, &child) != 0)
		return;
	do {
		int tag = dwarf_tag(&child);

		if (tag == DW_TAG_subprogram)
			match_function(walk, &child);
		if (walk->left && may_hold_functions(walk, tag))
			walk_children(walk, &child, depth + 1);
	} while (walk->left && dwarf_file__spend(walk->file) &&
		 dwarf_siblingof(&child, &child) == 0);
}

void dwarf_file__functions(struct dwarf_file *file, Dwarf_Die *unit, const uint64_t *vaddrs,
			   size_t count, Dwarf_Die *functions, bool *found)
{
	struct walk walk = {.file = file,
			    .vaddrs = vaddrs,
			    .count = count,
			    .left = count,
			    .functions = functions,
			    .found = found};

	memset(found, 0, count * sizeof(*found));
	walk_children(&walk, unit, 0);
	walk.everywhere = true;
	if (walk.left)
		walk_children(&walk, unit, 0);
}

/* The child at the address that is inlined, or a block with such a thing in it. */
static bool inner(struct dwarf_file *file, Dwarf_Die *scope, uint64_t vaddr, Dwarf_Die *child)
{
	if (dwarf_child(scope, child) != 0)
		return false;
	do {
		int tag = dwarf_tag(child);

		if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
		    dwarf_haspc(child, vaddr) == 1)
			return true;
	} while (dwarf_file__spend(file) && dwarf_siblingof(child, child) == 0);
	return false;
}

size_t dwarf_file__inlined(struct dwarf_file *file, Dwarf_Die *function, uint64_t vaddr,
			   Dwarf_Die *inlined, size_t room)
{
	Dwarf_Die scope = *function, child;
	size_t count = 0;

	while (inner(file, &scope, vaddr, &child)) {
		scope = child;
		if (dwarf_tag(&child) != DW_TAG_inlined_subroutine)
			continue;
		if (count == room) /* the outermost goes */
			memmove(inlined, inlined + 1, --count * sizeof(*inlined));
		inlined[count++] = child;
	}
	return count;
}
