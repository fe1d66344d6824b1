// SPDX-License-Identifier: BSD-2-Clause
/*
 * Function symbols of all tables as one list sorted by address. A wheel's library has half a
 * million of them in 60 MB of names, so nothing is copied: a key of 16 bytes a symbol, and the
 * rest is read from the mapped file when it is asked for. Sorting also brings together the same
 * function of .symtab and .dynsym, the symbol after a symbol and the one that covers an address.
 */
#include "target/image_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void image__add_table(struct image *image, const struct elf_view *view, uint32_t section_type,
		      enum symbol_origin origin)
{
	struct symbol_table table = {.origin = origin};
	Elf64_Shdr shdr;

	if (!elf_view__section_of_type(view, section_type, &shdr))
		return;
	table.symbols = elf_view__bytes(view, shdr.sh_offset, shdr.sh_size);
	table.count = shdr.sh_size / sizeof(Elf64_Sym);
	table.names = elf_view__strings(view, shdr.sh_link);
	if (table.symbols && table.count && table.count <= UINT32_MAX && table.names.size)
		image->tables[image->tables_count++] = table;
}

static Elf64_Sym symbol_at(const struct symbol_table *table, size_t number)
{
	Elf64_Sym sym;

	memcpy(&sym, table->symbols + number * sizeof(sym), sizeof(sym));
	return sym;
}

static bool is_function(const struct image *image, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	const struct segment *segment;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF ||
	    !sym->st_name)
		return false;
	segment = image__segment(image, sym->st_value);
	return segment && segment->executable;
}

static const char *key_name(const struct image *image, const struct symbol_key *key)
{
	const struct symbol_table *table = &image->tables[key->table];
	Elf64_Sym sym = symbol_at(table, key->number);

	return elf_strings__at(&table->names, sym.st_name);
}

/* .symtab says foo@@VERSION where .dynsym says foo. */
static size_t plain_length(const char *name)
{
	const char *at = name[0] ? strchr(name + 1, '@') : NULL;

	return at ? (size_t)(at - name) : strlen(name);
}

static int compare_names(const char *a, const char *b)
{
	size_t a_size, b_size;
	int order;

	if (a == b)
		return 0;
	a_size = plain_length(a);
	b_size = plain_length(b);
	order = memcmp(a, b, a_size < b_size ? a_size : b_size);
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_keys(const void *left, const void *right, void *ctx)
{
	const struct symbol_key *a = left, *b = right;
	int order;

	if (a->vaddr != b->vaddr)
		return a->vaddr < b->vaddr ? -1 : 1;
	order = compare_names(key_name(ctx, a), key_name(ctx, b));
	if (order)
		return order;
	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static size_t for_each_function(const struct image *image, struct symbol_key *keys)
{
	size_t count = 0;

	for (uint32_t t = 0; t < image->tables_count; t++) {
		const struct symbol_table *table = &image->tables[t];

		for (size_t n = 0; n < table->count; n++) {
			Elf64_Sym sym = symbol_at(table, n);

			if (!is_function(image, &sym))
				continue;
			if (keys)
				keys[count] = (struct symbol_key){sym.st_value, t, (uint32_t)n};
			count++;
		}
	}
	return count;
}

/* Each (name, vaddr) once; the first table's entry stays. */
static size_t drop_duplicates(const struct image *image, struct symbol_key *keys, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && keys[kept - 1].vaddr == keys[i].vaddr &&
		    compare_names(key_name(image, &keys[kept - 1]), key_name(image, &keys[i])) == 0)
			continue;
		keys[kept++] = keys[i];
	}
	return kept;
}

/* Names are about to be read all over: let a cold disk start early. */
static void will_need(const void *start, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)start & ~(page - 1);

	madvise((void *)begin, size + ((uintptr_t)start - begin), MADV_WILLNEED);
}

int image__index_symbols(struct image *image)
{
	size_t count;

	if (image->keys)
		return 0;
	for (size_t t = 0; t < image->tables_count; t++)
		will_need(image->tables[t].names.text, image->tables[t].names.size);
	count = for_each_function(image, NULL);
	image->keys = malloc((count + 1) * sizeof(*image->keys));
	if (!image->keys)
		return -ENOMEM;
	for_each_function(image, image->keys);
	qsort_r(image->keys, count, sizeof(*image->keys), compare_keys, image);
	image->keys_count = drop_duplicates(image, image->keys, count);
	return 0;
}

struct plain_name {
	const char *full; /* in the mapped file: the tree's key */
	char *plain;
};

static int compare_plain(const void *left, const void *right)
{
	const struct plain_name *a = left, *b = right;

	return (a->full > b->full) - (a->full < b->full);
}

static void free_plain(void *node)
{
	struct plain_name *name = node;

	free(name->plain);
	free(name);
}

/* The name without @VERSION, kept with the image. NULL: out of memory. */
static const char *cut_version(struct image *image, const char *full, size_t length)
{
	struct plain_name probe = {.full = full}, *name;
	struct plain_name **found = tfind(&probe, &image->plain_names, compare_plain);

	if (found)
		return (*found)->plain;
	name = malloc(sizeof(*name));
	if (!name)
		return NULL;
	*name = (struct plain_name){full, strndup(full, length)};
	if (!name->plain || !tsearch(name, &image->plain_names, compare_plain)) {
		free_plain(name);
		return NULL;
	}
	return name->plain;
}

void image__forget_symbols(struct image *image)
{
	tdestroy(image->plain_names, free_plain);
	free(image->keys);
}

static uint64_t next_vaddr(const struct image *image, const struct symbol_key *key)
{
	const struct symbol_key *end = image->keys + image->keys_count;
	uint64_t vaddr = key->vaddr;

	while (key < end && key->vaddr == vaddr)
		key++;
	return key < end ? key->vaddr : UINT64_MAX;
}

/* Code written in assembler often has no size. */
static uint64_t guess_size(struct image *image, const struct symbol_key *key)
{
	uint64_t start, size, next;

	if (image__fde(image, key->vaddr, &start, &size) == 0)
		return start + size - key->vaddr;
	next = next_vaddr(image, key);
	return next == UINT64_MAX ? 0 : next - key->vaddr;
}

/* gcc: "f.cold", "f.part.0.cold"; older: "f.cold.12". */
static bool is_cold(const char *name, size_t length)
{
	while (length && name[length - 1] >= '0' && name[length - 1] <= '9')
		length--;
	length -= length && name[length - 1] == '.';
	return length > 5 && memcmp(name + length - 5, ".cold", 5) == 0;
}

static int fill_symbol(struct image *image, const struct symbol_key *key, struct symbol *symbol)
{
	const struct symbol_table *table = &image->tables[key->table];
	const struct segment *segment = image__segment(image, key->vaddr);
	Elf64_Sym sym = symbol_at(table, key->number);
	const char *name = elf_strings__at(&table->names, sym.st_name);
	uint64_t room = segment->size - (key->vaddr - segment->vaddr);
	size_t length = plain_length(name);

	*symbol = (struct symbol){.name = name,
				  .vaddr = key->vaddr,
				  .size = sym.st_size ? sym.st_size : guess_size(image, key),
				  .offset = segment->offset + (key->vaddr - segment->vaddr),
				  .origin = table->origin,
				  .ifunc = ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC,
				  .global = ELF64_ST_BIND(sym.st_info) != STB_LOCAL,
				  .cold = is_cold(name, length)};
	if (symbol->size > room)
		symbol->size = room;
	if (name[length])
		symbol->name = cut_version(image, name, length);
	return symbol->name ? 0 : -ENOMEM;
}

int image__each_function(struct image *image, int (*fn)(const struct symbol *symbol, void *ctx),
			 void *ctx)
{
	struct symbol symbol;
	int err = image__index_symbols(image);

	for (size_t i = 0; !err && i < image->keys_count; i++) {
		err = fill_symbol(image, &image->keys[i], &symbol);
		if (!err)
			err = fn(&symbol, ctx);
	}
	return err;
}

/* Symbols nest now and then (an entry point inside a function): look a few further back. */
enum { COVERING_STEPS = 64 };

/* The index of the nearest key before vaddr whose function covers it; -ENOENT, -ENOMEM. */
static ssize_t covering_key(struct image *image, uint64_t vaddr, struct symbol *symbol)
{
	size_t low = 0, high, steps = 0;
	int err = image__index_symbols(image);

	if (err)
		return err;
	high = image->keys_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->keys[middle].vaddr <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	while (low-- > 0 && steps++ < COVERING_STEPS) {
		err = fill_symbol(image, &image->keys[low], symbol);
		if (err || vaddr - symbol->vaddr < symbol->size)
			return err ? err : (ssize_t)low;
	}
	return -ENOENT;
}

int image__covering(struct image *image, uint64_t vaddr, struct symbol *symbol)
{
	ssize_t index = covering_key(image, vaddr, symbol);

	return index < 0 ? (int)index : 0;
}

/* malloc rather than __libc_malloc, and rather than a local alias. */
static bool is_better_known(const struct symbol *symbol, const struct symbol *than)
{
	if (symbol->global != than->global)
		return symbol->global;
	return strspn(symbol->name, "_") < strspn(than->name, "_");
}

int image__function_at(struct image *image, uint64_t vaddr, struct symbol *symbol)
{
	ssize_t index = covering_key(image, vaddr, symbol);
	struct symbol alias;
	uint64_t start;

	if (index < 0)
		return (int)index;
	/* the last of those that start there was found */
	start = symbol->vaddr;
	while (index-- > 0 && image->keys[index].vaddr == start) {
		int err = fill_symbol(image, &image->keys[index], &alias);

		if (err)
			return err;
		if (vaddr - start < alias.size && is_better_known(&alias, symbol))
			*symbol = alias;
	}
	return 0;
}
