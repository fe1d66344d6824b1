// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of Go's functions in a program without a symbol table ("-ldflags -s -w"): the runtime needs
 * them for its own stack traces, so they are in .gopclntab. Layout since Go 1.18 (runtime/symtab.go
 * and internal/abi/symtab.go):
 *
 *	u32 magic, u8 zero[2], u8 quantum, u8 pointer size
 *	u64 functions, files, text, names, units, file names, pc data, table
 *
 * The last five are offsets in the section. The table has a pair (u32 start, u32 place) for each
 * function, by ascending start, and the end of the last one; start is relative to text, and at the
 * place, relative to the table, are u32 start again and i32 name. Since Go 1.26 text is 0 and only
 * in the runtime's own description of the module, in .go.module: its first word is the address of
 * .gopclntab, its word 22 is text. Where neither has it (an older program that is loaded anywhere),
 * the functions stay without names.
 */
#include "elf/image_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC_1_18 = 0xfffffff0, MAGIC_1_20 = 0xfffffff1 };
/* The largest programs have some 500,000; each takes 24 bytes here. */
enum { FUNCTIONS_MAX = 1 << 20 };
enum { MODULE_TABLE_WORD = 0, MODULE_TEXT_WORD = 22 };

struct go_header {
	uint32_t magic;
	uint8_t zero[2], quantum, pointer_bytes;
	uint64_t functions_count, files_count, text, names, units, file_names, pc_data, table;
};

struct go_function {
	uint32_t start, place;
};

static uint64_t module_text(const struct image *image, uint64_t table_vaddr)
{
	uint64_t words[MODULE_TEXT_WORD + 1];
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (!elf_view__section(&image->file, ".go.module", &shdr, &bytes) ||
	    shdr.sh_size < sizeof(words))
		return 0;
	memcpy(words, bytes, sizeof(words));
	return words[MODULE_TABLE_WORD] == table_vaddr ? words[MODULE_TEXT_WORD] : 0;
}

static bool read_header(const uint8_t *bytes, uint64_t size, struct go_header *header)
{
	if (size < sizeof(*header))
		return false;
	memcpy(header, bytes, sizeof(*header));
	return (header->magic == MAGIC_1_18 || header->magic == MAGIC_1_20) &&
	       header->pointer_bytes == 8 && header->names < size && header->units <= size &&
	       header->names < header->units && header->table < size &&
	       header->functions_count < (size - header->table) / sizeof(struct go_function);
}

static Elf64_Sym *read_functions(const uint8_t *table, uint64_t size, uint64_t text, size_t count)
{
	Elf64_Sym *symbols = calloc(count, sizeof(*symbols));
	struct go_function pair[2];
	uint32_t words[2];

	for (size_t n = 0; symbols && n < count; n++) {
		memcpy(pair, table + n * sizeof(*pair), sizeof(pair));
		if (pair[1].start <= pair[0].start)
			continue;
		words[0] = words[1] = 0; /* no function's name is at 0: the table is damaged */
		if (size >= sizeof(words) && pair[0].place <= size - sizeof(words))
			memcpy(words, table + pair[0].place, sizeof(words));
		symbols[n] = (Elf64_Sym){.st_name = words[0] == pair[0].start ? words[1] : 0,
					 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
					 .st_shndx = SHN_ABS,
					 .st_value = text + pair[0].start,
					 .st_size = pair[1].start - pair[0].start};
	}
	return symbols;
}

void image__add_go(struct image *image)
{
	struct symbol_table table = {.view = &image->file, .origin = SYMBOL_SYMTAB};
	struct go_header header;
	const uint8_t *bytes, *last;
	Elf64_Shdr shdr;
	uint64_t text;

	if ((!elf_view__section(&image->file, ".gopclntab", &shdr, &bytes) &&
	     !elf_view__section(&image->file, ".data.rel.ro.gopclntab", &shdr, &bytes)) ||
	    !read_header(bytes, shdr.sh_size, &header))
		return;
	text = header.text ?: module_text(image, shdr.sh_addr);
	last = memrchr(bytes + header.names, 0, header.units - header.names);
	if (!text || !last || !header.functions_count || header.functions_count > FUNCTIONS_MAX)
		return;
	table.names.text = (const char *)bytes + header.names;
	table.names.size = (size_t)(last - (bytes + header.names)) + 1;
	table.count = header.functions_count;
	image->go_symbols = read_functions(bytes + header.table, shdr.sh_size - header.table, text,
					   table.count);
	table.symbols = (const uint8_t *)image->go_symbols;
	if (table.symbols)
		image->tables[image->tables_count++] = table;
}
