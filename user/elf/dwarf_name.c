// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of functions that have no symbol, for they were inlined. Most entries say their mangled
 * name; those with internal linkage (static, in an anonymous namespace, members of local classes)
 * have just the last part of it, and the rest is in the names of the entries around them.
 */
#include "elf/dwarf.h"

#include "base/text.h"
#include "elf/demangle.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

/* An entry may be an instance of an abstract one, and that the definition of a declaration. */
enum { ORIGIN_STEPS = 16 };

/* The entry that stands in its scope. */
static Dwarf_Die origin_of(const Dwarf_Die *function)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Die die = *function, next;
	Dwarf_Attribute attribute;

	for (int step = 0; step < ORIGIN_STEPS; step++) {
		if (!dwarf_attr(&die, links[0], &attribute) &&
		    !dwarf_attr(&die, links[1], &attribute))
			break;
		if (!dwarf_formref_die(&attribute, &next))
			break;
		die = next;
	}
	return die;
}

static const char *string_of(const struct dwarf_file *file, Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_file__text(file, dwarf_attr_integrate(die, name, &attribute));
}

/* In C there are no scopes to look for. */
static bool has_scopes(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
		return false;
	}
	return true;
}

/* How a function's name may need that of the function it is local to, and so on. */
enum { LOCAL_STEPS = 8 };

static void add_scope(struct dwarf_file *file, struct text *text, Dwarf_Die *scope,
		      const char *unnamed_type)
{
	const char *name = string_of(file, scope, DW_AT_name);

	switch (dwarf_tag(scope)) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		text_add(text, name ? name : "(anonymous namespace)");
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		text_add(text, name ? name : unnamed_type);
		break;
	case DW_TAG_subprogram:
		/* it may lie outside of its own scope */
		text_clear(text);
		if (file->local_steps < LOCAL_STEPS)
			text_add(text, dwarf_file__name(file, scope));
		break;
	default:
		return;
	}
	text_add(text, "::");
}

/* The child that target is in, or is: children lie one behind the other, each in front of its own
 * children. */
static bool child_towards(struct dwarf_file *file, Dwarf_Die *scope, const Dwarf_Die *target,
			  Dwarf_Die *towards)
{
	Dwarf_Die child;
	bool found = false;

	if (dwarf_child(scope, &child) != 0)
		return false;
	do {
		if (child.addr > target->addr)
			break;
		*towards = child;
		found = true;
	} while (dwarf_file__spend(file) && dwarf_siblingof(&child, &child) == 0);
	return found;
}

static void add_scopes(struct dwarf_file *file, struct text *text, Dwarf_Die *target,
		       const char *name)
{
	bool call = strncmp(name, "operator()", 10) == 0;
	Dwarf_Die scope, towards;

	if (!dwarf_diecu(target, &scope, NULL, NULL) || !has_scopes(&scope))
		return;
	while (child_towards(file, &scope, target, &towards) && towards.addr != target->addr) {
		add_scope(file, text, &towards, call ? "{lambda}" : "{unnamed type}");
		scope = towards;
	}
}

static char *make_name(struct dwarf_file *file, Dwarf_Die *origin, Dwarf_Die *function)
{
	const char *name = string_of(file, function, DW_AT_linkage_name);
	struct text text = {0};

	if (!name)
		name = string_of(file, function, DW_AT_MIPS_linkage_name);
	if (name)
		return demangle(name);
	name = string_of(file, function, DW_AT_name);
	if (!name)
		return NULL;
	file->local_steps++;
	add_scopes(file, &text, origin, name);
	file->local_steps--;
	text_add(&text, name);
	return text_take(&text);
}

const char *dwarf_file__name(struct dwarf_file *file, Dwarf_Die *function)
{
	Dwarf_Die origin = origin_of(function);
	uint64_t key = (uintptr_t)origin.addr;
	uint32_t index = map64_get(&file->names, key);
	const char *kept;
	char *name;

	if (index != MAP64_NONE)
		return file->name_list[index];
	name = make_name(file, &origin, function);
	kept = name ? pool_add(&file->pool, name) : "";
	free(name);
	if (!kept || grow_array(&file->name_list, &file->name_room, file->name_count + 1,
				sizeof(*file->name_list)))
		return "";
	if (map64_put(&file->names, key, (uint32_t)file->name_count) == 0)
		file->name_list[file->name_count++] = kept;
	return kept;
}
