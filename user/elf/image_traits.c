// SPDX-License-Identifier: BSD-2-Clause
/*
 * What may unwind through a file's frames, or leave them by another stack. A wrong "no" can kill
 * the traced program (a return probe under an exception), a wrong "yes" only costs a cheaper way
 * of timing: in doubt, yes.
 */
#include "elf/image_internal.h"

#include "elf/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

static bool one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(name, *list) == 0)
			return true;
	return false;
}

/* In libc these are what others call; a file that calls them has more stacks than threads. */
static bool is_context_call(const char *name)
{
	static const char *const names[] = {"swapcontext", "makecontext", "setcontext", NULL};

	return one_of(name, names);
}

/* Boost.Context (folly and others bring copies), brpc, libco (both), libcoro, libaco, minicoro,
 * marl, tbox, libtask, QEMU, greenlet. Switches that carry no name are found by their code
 * (user/site). */
static bool is_coroutine_switch(const char *name)
{
	static const char *const names[] = {"jump_fcontext",
					    "ontop_fcontext",
					    "make_fcontext",
					    "bthread_jump_fcontext",
					    "co_switch",
					    "coctx_swap",
					    "coro_transfer",
					    "acosw",
					    "_mco_switch",
					    "mco_resume",
					    "marl_fiber_swap",
					    "tb_context_jump",
					    "taskswitch",
					    "qemu_coroutine_switch",
					    "slp_switch",
					    "_ZL10slp_switchv",
					    NULL};

	return one_of(name, names);
}

/* The legacy form, _ZN…17h<hash>E, is a valid C++ name too. */
static bool may_be_rust(const char *name)
{
	size_t length;

	if (name[1] == 'R')
		return true;
	length = strlen(name);
	return length > 24 && memcmp(name + length - 20, "17h", 3) == 0;
}

static bool is_rust_name(const char *name)
{
	char *text = may_be_rust(name) ? rust_demangle(name, 0) : NULL;

	free(text);
	return text != NULL;
}

static void look_at_symbol(struct image_traits *traits, const char *name, bool defined)
{
	bool used = !defined || !traits->dynamic; /* a static file holds only what is used */

	if (demangle_applies(name) && name[2] != 'L') { /* most of a big library: be quick */
		if (defined && !traits->is_rust && !traits->has_except_table)
			traits->is_rust = is_rust_name(name);
		return;
	}
	if (defined && strcmp(name, "__gxx_personality_v0") == 0)
		traits->needs_cxx = true;
	if (defined && strcmp(name, "rust_eh_personality") == 0)
		traits->is_rust = true;
	if (is_coroutine_switch(name) || (used && is_context_call(name)))
		traits->switches_stacks = true;
}

static void look_at_symbols(struct image *image)
{
	for (size_t t = 0; t < image->tables_count; t++) {
		const struct symbol_table *table = &image->tables[t];

		for (size_t n = 0; n < table->count; n++) {
			Elf64_Sym sym;

			memcpy(&sym, table->symbols + n * sizeof(sym), sizeof(sym));
			look_at_symbol(&image->traits, elf_strings__at(&table->names, sym.st_name),
				       sym.st_shndx != SHN_UNDEF);
		}
	}
}

static void look_at_sections(const struct elf_view *file, struct image_traits *traits)
{
	Elf64_Shdr shdr;

	for (size_t i = 1; elf_view__shdr(file, i, &shdr); i++) {
		const char *name = elf_strings__at(&file->section_names, shdr.sh_name);

		if (strncmp(name, ".gcc_except_table", 17) == 0)
			traits->has_except_table = true;
		if (strcmp(name, ".gopclntab") == 0 ||
		    strcmp(name, ".data.rel.ro.gopclntab") == 0 ||
		    strcmp(name, ".note.go.buildid") == 0)
			traits->is_go = true;
	}
	if (file->shnum < 2 || !file->section_names.size)
		traits->has_except_table = true; /* cannot tell */
}

/* .dynamic by program header, so that a file without sections is read as well. */
static void look_at_needed(const struct image *image, const Elf64_Phdr *phdr,
			   struct image_traits *traits)
{
	const uint8_t *bytes = elf_view__bytes(&image->file, phdr->p_offset, phdr->p_filesz);
	uint64_t strings = 0;
	Elf64_Dyn dyn;

	for (int pass = 0; bytes && pass < 2; pass++) {
		for (uint64_t at = 0; at + sizeof(dyn) <= phdr->p_filesz; at += sizeof(dyn)) {
			size_t room;
			const char *name;

			memcpy(&dyn, bytes + at, sizeof(dyn));
			if (dyn.d_tag == DT_NULL)
				break;
			if (pass == 0 && dyn.d_tag == DT_STRTAB)
				strings = dyn.d_un.d_ptr;
			if (pass == 0 || dyn.d_tag != DT_NEEDED)
				continue;
			name = (const char *)image__data(image, strings + dyn.d_un.d_val, &room);
			if (name && memchr(name, 0, room) &&
			    (strncmp(name, "libstdc++.", 10) == 0 ||
			     strncmp(name, "libc++", 6) == 0))
				traits->needs_cxx = true;
		}
	}
}

static void look_at_segments(const struct image *image, struct image_traits *traits)
{
	Elf64_Phdr phdr;

	for (size_t i = 0; elf_view__phdr(&image->file, i, &phdr); i++) {
		if (phdr.p_type == PT_INTERP || phdr.p_type == PT_DYNAMIC)
			traits->dynamic = true;
		if (phdr.p_type == PT_INTERP)
			traits->needs_loader = true;
		if (phdr.p_type == PT_DYNAMIC)
			look_at_needed(image, &phdr, traits);
	}
}

const struct image_traits *image__traits(struct image *image)
{
	if (image->traits_ready)
		return &image->traits;
	image->traits_ready = true;
	for (size_t t = 0; t < image->tables_count; t++)
		if (image->tables[t].origin != SYMBOL_DYNSYM)
			image->traits.has_symtab = true;
	look_at_segments(image, &image->traits);
	look_at_sections(&image->file, &image->traits);
	look_at_symbols(image);
	return &image->traits;
}

#define MENTIONS_MAX (64u << 20)

bool image__mentions(const struct image *image, const char *text)
{
	const struct elf_view *file = &image->file;
	const uint8_t *bytes = NULL;
	Elf64_Shdr section;
	size_t size;

	if (elf_view__section(file, ".rodata", &section, &bytes)) {
		size = section.sh_size;
	} else {
		bytes = file->bytes;
		size = file->size;
	}
	if (size > MENTIONS_MAX)
		size = MENTIONS_MAX;
	return bytes && memmem(bytes, size, text, strlen(text));
}
