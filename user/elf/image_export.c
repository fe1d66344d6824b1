// SPDX-License-Identifier: BSD-2-Clause
/*
 * Does a file export a function of a name? Asked of every file that a process maps, so neither
 * sorted nor searched: .gnu.hash answers with a few reads. Its layout (four words, a Bloom filter
 * of 64-bit words, buckets, one hash a symbol with its lowest bit set at a chain's end) is the
 * linkers' own: binutils, bfd/elflink.c; glibc, elf/dl-lookup.c.
 */
#include "elf/image_internal.h"

#include <string.h>

struct gnu_hash {
	uint32_t buckets_count, symbols_first, bloom_count, bloom_shift;
};

struct exports {
	const struct symbol_table *table;
	struct gnu_hash header;
	const uint8_t *buckets, *chains;
	size_t chains_count;
};

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static uint32_t word_at(const uint8_t *words, size_t index)
{
	uint32_t word;

	memcpy(&word, words + index * sizeof(word), sizeof(word));
	return word;
}

static const struct symbol_table *dynsym_of(const struct image *image)
{
	for (size_t t = 0; t < image->tables_count; t++)
		if (image->tables[t].origin == SYMBOL_DYNSYM)
			return &image->tables[t];
	return NULL;
}

static bool find_hash(const struct image *image, struct exports *exports)
{
	uint64_t fixed;
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (!elf_view__section_of_type(&image->file, SHT_GNU_HASH, &shdr) ||
	    shdr.sh_size < sizeof(exports->header))
		return false;
	bytes = elf_view__bytes(&image->file, shdr.sh_offset, shdr.sh_size);
	if (!bytes)
		return false;
	memcpy(&exports->header, bytes, sizeof(exports->header));
	fixed = sizeof(exports->header) + 8 * (uint64_t)exports->header.bloom_count +
		4 * (uint64_t)exports->header.buckets_count;
	if (!exports->header.buckets_count || fixed > shdr.sh_size)
		return false;
	exports->buckets =
		bytes + sizeof(exports->header) + 8 * (size_t)exports->header.bloom_count;
	exports->chains = bytes + fixed;
	exports->chains_count = (shdr.sh_size - fixed) / 4;
	return true;
}

static bool is_the_function(const struct symbol_table *table, size_t number, const char *name)
{
	Elf64_Sym sym;
	unsigned type;

	if (number >= table->count)
		return false;
	memcpy(&sym, table->symbols + number * sizeof(sym), sizeof(sym));
	type = ELF64_ST_TYPE(sym.st_info);
	return (type == STT_FUNC || type == STT_GNU_IFUNC) && sym.st_shndx != SHN_UNDEF &&
	       !strcmp(elf_strings__at(&table->names, sym.st_name), name);
}

static bool in_chain(const struct exports *exports, const char *name)
{
	uint32_t hash = hash_of(name), first = exports->header.symbols_first;
	uint32_t number = word_at(exports->buckets, hash % exports->header.buckets_count);

	for (; number >= first && number - first < exports->chains_count; number++) {
		uint32_t entry = word_at(exports->chains, number - first);

		if ((entry | 1) == (hash | 1) && is_the_function(exports->table, number, name))
			return true;
		if (entry & 1)
			break;
	}
	return false;
}

bool image__exports(const struct image *image, const char *name)
{
	struct exports exports = {.table = dynsym_of(image)};

	if (!exports.table)
		return false;
	if (find_hash(image, &exports))
		return in_chain(&exports, name);
	for (size_t n = 0; n < exports.table->count; n++)
		if (is_the_function(exports.table, n, name))
			return true;
	return false;
}
