// SPDX-License-Identifier: BSD-2-Clause
/*
 * A stub is "jmp *slot(%rip)", the slot has a relocation in DT_JMPREL, that names a symbol.
 * Nothing is built or kept: linkers write these relocations in the order of their slots, so a
 * binary search finds the one.
 */
#include "site/imports.h"

#include "site/insn.h"

#include <elf.h>
#include <string.h>

#define DYNAMIC_ENTRIES_MAX 256

struct dynamic {
	uint64_t relocations, relocations_bytes, symbols, strings;
};

static bool read_at(const struct image *image, uint64_t vaddr, void *to, size_t bytes)
{
	size_t available;
	const uint8_t *data = image__data(image, vaddr, &available);

	if (!data || available < bytes)
		return false;
	memcpy(to, data, bytes);
	return true;
}

/* The program headers are where the file's first bytes are loaded. */
static uint64_t dynamic_vaddr(const struct image *image)
{
	int64_t start = image__vaddr(image, 0);
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	if (start < 0 || !read_at(image, (uint64_t)start, &ehdr, sizeof(ehdr)))
		return 0;
	for (unsigned i = 0; i < ehdr.e_phnum; i++) {
		uint64_t at = (uint64_t)start + ehdr.e_phoff + i * sizeof(phdr);

		if (!read_at(image, at, &phdr, sizeof(phdr)))
			return 0;
		if (phdr.p_type == PT_DYNAMIC)
			return phdr.p_vaddr;
	}
	return 0;
}

static bool read_dynamic(const struct image *image, struct dynamic *dynamic)
{
	uint64_t at = dynamic_vaddr(image);

	*dynamic = (struct dynamic){0};
	for (unsigned i = 0; at && i < DYNAMIC_ENTRIES_MAX; i++) {
		Elf64_Dyn entry;

		if (!read_at(image, at + i * sizeof(entry), &entry, sizeof(entry)))
			return false;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_JMPREL)
			dynamic->relocations = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_PLTRELSZ)
			dynamic->relocations_bytes = entry.d_un.d_val;
		else if (entry.d_tag == DT_SYMTAB)
			dynamic->symbols = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_STRTAB)
			dynamic->strings = entry.d_un.d_ptr;
	}
	return dynamic->relocations && dynamic->symbols && dynamic->strings;
}

static bool find_relocation(const struct image *image, const struct dynamic *dynamic, uint64_t slot,
			    Elf64_Rela *found)
{
	uint64_t low = 0, high = dynamic->relocations_bytes / sizeof(*found);

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (!read_at(image, dynamic->relocations + middle * sizeof(*found), found,
			     sizeof(*found)))
			return false;
		if (found->r_offset == slot)
			return true;
		if (found->r_offset < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* The slot that a stub jumps through; 0: it is no stub. */
static uint64_t slot_of(const struct image *image, uint64_t stub)
{
	struct insn insn;
	size_t available;
	const uint8_t *code = image__code(image, stub, &available);

	if (!code || insn_decode(code, available, stub, &insn))
		return 0;
	if (insn.is_endbr &&
	    insn_decode(code + insn.length, available - insn.length, stub + insn.length, &insn))
		return 0;
	return insn.flow == FLOW_JMP_INDIRECT && insn.base == REG_RIP ? insn.target : 0;
}

const char *import_at(const struct image *image, uint64_t stub, uint64_t *vaddr)
{
	uint64_t slot = slot_of(image, stub);
	struct dynamic dynamic;
	Elf64_Rela relocation;
	Elf64_Sym symbol;
	const char *name;
	size_t available;

	if (!slot || !read_dynamic(image, &dynamic) ||
	    !find_relocation(image, &dynamic, slot, &relocation) ||
	    !read_at(image, dynamic.symbols + ELF64_R_SYM(relocation.r_info) * sizeof(symbol),
		     &symbol, sizeof(symbol)))
		return NULL;
	name = (const char *)image__data(image, dynamic.strings + symbol.st_name, &available);
	if (!name || strnlen(name, available) == available)
		return NULL;
	if (vaddr)
		*vaddr = symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
	return name;
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

bool import_never_returns(const char *name)
{
	static const char *const names[] = {"__stack_chk_fail",
					    "_Unwind_Resume",
					    "__cxa_throw",
					    "__cxa_rethrow",
					    "_ZSt9terminatev",
					    "abort",
					    "__assert_fail",
					    "__cxa_bad_cast",
					    "_exit",
					    "exit",
					    "longjmp",
					    NULL};

	/* std::__throw_length_error and its kin */
	return is_one_of(name, names) ||
	       (strncmp(name, "_ZSt", 4) == 0 && strstr(name, "__throw_"));
}

bool import_frees(const char *name)
{
	static const char *const names[] = {"free",
					    "_ZdlPv",
					    "_ZdlPvm",
					    "_ZdaPv",
					    "_ZdaPvm",
					    "_ZdlPvSt11align_val_t",
					    "_ZdlPvmSt11align_val_t",
					    NULL};

	return is_one_of(name, names);
}
