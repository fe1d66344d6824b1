// SPDX-License-Identifier: BSD-2-Clause
/*
 * Function symbols of all tables as lists sorted by address. A wheel's library has half a million
 * of them in 80 MB of names, so nothing is copied: a key of 16 bytes a symbol, and the rest is read
 * from the mapped file when it is asked for. Sorting also brings together the same function of
 * .symtab and .dynsym, the symbol after a symbol and the one that covers an address.
 *
 * In the order of addresses, symbols and names are cache misses, one each. So where some names
 * alone are wanted, these are picked out first, in the order of the file; and a list of the
 * functions near some addresses is sorted without names, which may be in it twice.
 */
#include "base/grow.h"
#include "base/order.h"
#include "elf/eh_frame.h"
#include "elf/image_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void image__add_table(struct image *image, const struct elf_view *view, uint32_t section_type,
		      enum symbol_origin origin)
{
	struct symbol_table table = {.view = view, .origin = origin};
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

/* Names are in no order of the symbols, and a large library has 150 MB of them. So where names are
 * read, a table is read once for each part of them: then each of their pages is read once, and few
 * of them are in memory. */
#define NAMES_PART   (16u << 20)
#define PARTS_MAX    16
#define SYMBOLS_PART (1u << 17) /* after which the memory of their pages is given back */

int image__each_symbol(struct image *image, const struct symbol_table *table, bool by_name,
		       int (*fn)(void *ctx, const Elf64_Sym *sym, size_t number), void *ctx)
{
	size_t bytes = table->names.size / PARTS_MAX + 1;
	size_t part_bytes = bytes < NAMES_PART ? NAMES_PART : bytes;
	size_t last = by_name ? (table->names.size - 1) / part_bytes : 0;
	int err = 0;

	for (size_t part = 0; !err && part <= last; part++) {
		for (size_t n = 0; !err && n < table->count; n++) {
			Elf64_Sym sym = symbol_at(table, n);
			size_t of_name = sym.st_name / part_bytes;

			if ((of_name < last ? of_name : last) == part)
				err = fn(ctx, &sym, n);
			if (table->symbols != (const uint8_t *)image->go_symbols &&
			    n % SYMBOLS_PART == SYMBOLS_PART - 1)
				elf_view__release(table->symbols + n / SYMBOLS_PART * SYMBOLS_PART *
									   sizeof(sym),
						  SYMBOLS_PART * sizeof(sym));
		}
		image__release_pages(image);
	}
	return err;
}

/* Functions with longer names are skipped: overlapping strings can give a small file many long
 * names, which are expensive to compare. PyTorch's longest name has 1,466 bytes. */
enum { NAME_BYTES_MAX = 8 << 10 };

static bool has_name(const struct symbol_table *table, const Elf64_Sym *sym)
{
	return strnlen(elf_strings__at(&table->names, sym->st_name), NAME_BYTES_MAX) <
	       NAME_BYTES_MAX;
}

/* A symbol without a type that may be a function, as assembler without .type leaves it. Compilers
 * and linkers leave other labels: they begin with a dot or $, or mark the end of a section. */
static bool is_label(const struct symbol_table *table, const Elf64_Sym *sym)
{
	char first = elf_strings__at(&table->names, sym->st_name)[0];
	Elf64_Shdr section;

	return ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE && first != '.' && first != '$' &&
	       sym->st_shndx < SHN_LORESERVE &&
	       elf_view__shdr(table->view, sym->st_shndx, &section) &&
	       section.sh_flags & SHF_EXECINSTR &&
	       sym->st_value - section.sh_addr < section.sh_size;
}

static bool is_function(const struct image *image, const struct symbol_table *table,
			const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	const struct segment *segment;

	if (sym->st_shndx == SHN_UNDEF || !sym->st_name ||
	    (type != STT_FUNC && type != STT_GNU_IFUNC && !is_label(table, sym)))
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
	return name[0] ? (size_t)(strchrnul(name + 1, '@') - name) : 0;
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
	return order ?: ASCENDING(a_size, b_size);
}

/* Without names, which lie all over the file. */
ORDER(compare_addresses, struct symbol_key, ASCENDING(a->vaddr, b->vaddr),
      ASCENDING(a->table, b->table), ASCENDING(a->number, b->number))

static int compare_keys(const void *left, const void *right, void *ctx)
{
	const struct symbol_key *a = left, *b = right;
	struct image *image = ctx;

	if (a->vaddr != b->vaddr)
		return ASCENDING(a->vaddr, b->vaddr);
	image__limit_pages(image);
	return compare_names(key_name(image, a), key_name(image, b)) ?: compare_addresses(a, b);
}

/* Each (name, vaddr) once; the first table's entry stays. */
static void drop_duplicates(struct image *image, struct symbol_list *list)
{
	struct symbol_key *keys = list->keys;
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		image__limit_pages(image);
		if (kept && keys[kept - 1].vaddr == keys[i].vaddr &&
		    compare_names(key_name(image, &keys[kept - 1]), key_name(image, &keys[i])) == 0)
			continue;
		keys[kept++] = keys[i];
	}
	list->count = kept;
}

struct plain_name {
	const char *full; /* in the mapped file: the tree's key */
	char *plain;
};

ORDER(compare_plain, struct plain_name, ASCENDING(a->full, b->full))

static void free_plain(void *node)
{
	struct plain_name *name = node;

	free(name->plain);
	free(name);
}

/* Bytes of cut names per file; beyond them, names keep their @VERSION. */
#define PLAIN_BYTES_MAX (64u << 20)

/* The name without @VERSION, which the image keeps. NULL: out of memory. */
static const char *plain_name(struct image *image, const char *full)
{
	struct plain_name probe = {.full = full}, *name, **found;
	size_t length = plain_length(full);

	if (!full[length])
		return full;
	found = tfind(&probe, &image->plain_names, compare_plain);
	if (found)
		return (*found)->plain;
	if (image->plain_bytes + length > PLAIN_BYTES_MAX)
		return full;
	image->plain_bytes += length;
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
	free(image->functions.keys);
	free(image->wanted.keys);
}

/* The size of a label, and whether it is inside a function, are known from its neighbours. */
#define NEIGHBOURS_BYTES (64u << 10)

/* Places of code, of so many bytes each, with an address of the focus, by the lower bits of their
 * numbers: of half a million symbols few are then searched for. Small ones for functions, large
 * ones for what may be near. */
#define FOCUS_PAGE_BITS	  12
#define FOCUS_REGION_BITS 16
#define FOCUS_PLACES	  (1u << 16)
/* More are not looked at one by one. */
#define FOCUS_PLACES_ASKED 8

struct focus {
	const uint64_t *vaddrs; /* ascending */
	size_t count;
	uint8_t pages[FOCUS_PLACES / 8], regions[FOCUS_PLACES / 8];
};

static void set_place(uint8_t *places, uint64_t place)
{
	places[place % FOCUS_PLACES / 8] |= (uint8_t)(1 << place % 8);
}

static void set_focus(struct focus *focus, const uint64_t *vaddrs, size_t count)
{
	*focus = (struct focus){.vaddrs = vaddrs, .count = count};
	for (size_t i = 0; i < count; i++) {
		set_place(focus->pages, vaddrs[i] >> FOCUS_PAGE_BITS);
		set_place(focus->regions, vaddrs[i] >> FOCUS_REGION_BITS);
	}
}

/* May there be an address of the focus from one to another? */
static bool may_meet(const uint8_t *places, unsigned bits, uint64_t start, uint64_t end)
{
	uint64_t place = start >> bits, last = (end - 1) >> bits;

	if (last - place >= FOCUS_PLACES_ASKED)
		return true;
	for (; place <= last; place++)
		if (places[place % FOCUS_PLACES / 8] & 1 << place % 8)
			return true;
	return false;
}

/* Is there an address of the focus in the function, or near it? */
static bool meets_focus(const struct focus *focus, const Elf64_Sym *sym, bool near)
{
	uint64_t margin = near ? NEIGHBOURS_BYTES : 0, end;
	uint64_t start = sym->st_value - min_u64(sym->st_value, margin);
	size_t first;

	if (__builtin_add_overflow(sym->st_value + margin, sym->st_size, &end))
		end = UINT64_MAX;
	if (near ? !may_meet(focus->regions, FOCUS_REGION_BITS, start, end)
		 : !may_meet(focus->pages, FOCUS_PAGE_BITS, start, end))
		return false;
	first = PARTITION_POINT(i, focus->count, focus->vaddrs[i] < start);
	return first < focus->count && focus->vaddrs[first] < end;
}

/* The symbol does not say its size, or whether it is a function. */
static bool is_vague(const Elf64_Sym *sym)
{
	return !sym->st_size || ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE;
}

struct function_adder {
	struct image *image;
	uint16_t table;
	bool wanted_only;
	struct focus *focus; /* NULL: everywhere */
	bool near;	     /* all functions near the focus, not only those that cover it */
	struct symbol_list *list;
	/* Addresses of vague symbols that the unwind table does not know either. */
	uint64_t *unknown;
	size_t unknown_count, unknown_capacity;
};

static int add_function(void *ctx, const Elf64_Sym *sym, size_t number)
{
	struct function_adder *adder = ctx;
	struct image *image = adder->image;
	const struct symbol_table *table = &image->tables[adder->table];
	struct symbol_list *list = adder->list;
	uint64_t start, size;
	const char *name;

	if (adder->focus) {
		if (!meets_focus(adder->focus, sym, adder->near || is_vague(sym)))
			return 0;
		image__limit_pages(image);
	}
	if (!is_function(image, table, sym) || !has_name(table, sym))
		return 0;
	if (adder->wanted_only) {
		name = plain_name(image, elf_strings__at(&table->names, sym->st_name));
		if (!name)
			return -ENOMEM;
		if (!image->wants(name, image->wants_ctx))
			return 0;
	}
	if (adder->focus && !adder->near && is_vague(sym) &&
	    image__fde(image, sym->st_value, &start, &size) &&
	    LIST_ADD(adder->unknown, sym->st_value))
		return -ENOMEM;
	if (grow_array(&list->keys, &list->capacity, list->count + 1, sizeof(*list->keys)))
		return -ENOMEM;
	list->keys[list->count++] =
		(struct symbol_key){.vaddr = sym->st_value,
				    .table = adder->table,
				    .label = ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE,
				    .number = (uint32_t)number};
	return 0;
}

/* Symbols nest now and then (an entry point inside a function): look a few further back. */
enum { COVERING_STEPS = 64 };

/* Is a label inside a function, by the unwind table or by one of the `count` keys before it? */
static bool is_inside(struct image *image, const struct symbol_key *keys, size_t count,
		      uint64_t vaddr)
{
	uint64_t start, size;

	if (!image__fde(image, vaddr, &start, &size))
		return start < vaddr;
	for (size_t steps = 0; count-- > 0 && steps < COVERING_STEPS; steps++) {
		const struct symbol_key *key = &keys[count];
		uint64_t distance = vaddr - key->vaddr;

		if (distance &&
		    symbol_at(&image->tables[key->table], key->number).st_size > distance)
			return true;
	}
	return false;
}

static void drop_inner_labels(struct image *image, struct symbol_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (!list->keys[i].label ||
		    !is_inside(image, list->keys, kept, list->keys[i].vaddr))
			list->keys[kept++] = list->keys[i];
	list->count = kept;
}

static int add_functions(struct function_adder *adder)
{
	struct image *image = adder->image;
	uintptr_t page_mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	bool by_name = !adder->focus;
	int err = 0;

	/* names are about to be read all over: let a cold disk start early */
	for (size_t t = 0; by_name && t < image->tables_count; t++) {
		const struct elf_strings *names = &image->tables[t].names;
		uintptr_t offset = (uintptr_t)names->text & page_mask;

		madvise((char *)names->text - offset, names->size + offset, MADV_WILLNEED);
	}
	for (uint16_t t = 0; !err && t < image->tables_count; t++) {
		adder->table = t;
		err = image__each_symbol(image, &image->tables[t], by_name, add_function, adder);
	}
	return err;
}

/* Functions that cover addresses of the focus, symbols near these that may do so, and what is near
 * to such as are unknown. */
static int add_near_focus(struct function_adder *adder)
{
	int err;

	set_focus(adder->focus, adder->image->focus, adder->image->focus_count);
	err = add_functions(adder);
	if (!err && adder->unknown_count) {
		qsort(adder->unknown, adder->unknown_count, sizeof(*adder->unknown), compare_u64);
		set_focus(adder->focus, adder->unknown, adder->unknown_count);
		adder->near = true;
		err = add_functions(adder);
	}
	free(adder->unknown);
	return err;
}

static int make_list(struct image *image, bool wanted_only, struct symbol_list *list)
{
	bool near_focus = !wanted_only && image->focus;
	struct focus focus = {0};
	struct function_adder adder = {.image = image,
				       .wanted_only = wanted_only,
				       .focus = near_focus ? &focus : NULL,
				       .list = list};
	int err;

	if (list->keys)
		return 0;
	image__add_mini(image);
	err = grow_array(&list->keys, &list->capacity, 1, sizeof(*list->keys));
	if (!err)
		err = near_focus ? add_near_focus(&adder) : add_functions(&adder);
	if (err) {
		free(list->keys);
		*list = (struct symbol_list){0};
		return err;
	}
	if (near_focus) {
		qsort(list->keys, list->count, sizeof(*list->keys), compare_addresses);
	} else {
		qsort_r(list->keys, list->count, sizeof(*list->keys), compare_keys, image);
		drop_duplicates(image, list);
	}
	drop_inner_labels(image, list);
	image->facts.fresh |= wanted_only;
	return 0;
}

/* Index of the first function behind an address; the count of all functions if there is none. */
static size_t first_behind(const struct image *image, uint64_t vaddr)
{
	return PARTITION_POINT(i, image->functions.count, image->functions.keys[i].vaddr <= vaddr);
}

/* Code written in assembler often has no size: it ends where the unwind table says, else where the
 * section ends, or the next symbol or function of the unwind table begins. */
static int guess_size(struct image *image, const struct symbol_table *table, const Elf64_Sym *sym,
		      uint64_t *size)
{
	uint64_t vaddr = sym->st_value, start, end;
	size_t next, fdes_count;
	Elf64_Shdr section;
	int err;

	if (image__fde(image, vaddr, &start, size) == 0) {
		*size = start + *size - vaddr;
		return 0;
	}
	err = make_list(image, false, &image->functions);
	if (err)
		return err;
	if (sym->st_shndx >= SHN_LORESERVE ||
	    !elf_view__shdr(table->view, sym->st_shndx, &section) ||
	    __builtin_add_overflow(section.sh_addr, section.sh_size, &end))
		end = UINT64_MAX;
	next = first_behind(image, vaddr);
	if (next < image->functions.count)
		end = min_u64(end, image->functions.keys[next].vaddr);
	fdes_count = eh_frame__count(image);
	next = fdes_count ? eh_frame__search(image, vaddr) : 0;
	while (next < fdes_count && eh_frame__start(image, next) <= vaddr)
		next++;
	if (next < fdes_count)
		end = min_u64(end, eh_frame__start(image, next));
	*size = end == UINT64_MAX || end < vaddr ? 0 : end - vaddr;
	return 0;
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
	int err = 0;

	image__limit_pages(image);
	*symbol = (struct symbol){.name = plain_name(image, name),
				  .vaddr = key->vaddr,
				  .size = sym.st_size,
				  .offset = segment->offset + (key->vaddr - segment->vaddr),
				  .origin = table->origin,
				  .ifunc = ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC,
				  .global = ELF64_ST_BIND(sym.st_info) != STB_LOCAL,
				  .cold = is_cold(name, length)};
	if (!symbol->size)
		err = guess_size(image, table, &sym, &symbol->size);
	if (symbol->size > room)
		symbol->size = room;
	return symbol->name ? err : -ENOMEM;
}

/* Is the key that of a wanted function? */
static bool is_wanted_key(struct image *image, const struct symbol_key *key)
{
	const struct symbol_table *table;
	const char *name;
	Elf64_Sym sym;

	if (key->table >= image->tables_count)
		return false;
	table = &image->tables[key->table];
	if (key->number >= table->count)
		return false;
	sym = symbol_at(table, key->number);
	if (sym.st_value != key->vaddr || !is_function(image, table, &sym) ||
	    !has_name(table, &sym) || key->label != (ELF64_ST_TYPE(sym.st_info) == STT_NOTYPE))
		return false;
	name = plain_name(image, elf_strings__at(&table->names, sym.st_name));
	return name && image->wants(name, image->wants_ctx);
}

bool image__keep_wanted(struct image *image, struct symbol_key *keys, size_t count)
{
	if (!image->wants || image->wanted.keys)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct symbol_key *before = i ? &keys[i - 1] : NULL;

		/* in order, and each function once */
		if (!is_wanted_key(image, &keys[i]) ||
		    (before &&
		     (before->vaddr > keys[i].vaddr ||
		      (before->vaddr == keys[i].vaddr &&
		       compare_names(key_name(image, before), key_name(image, &keys[i])) >= 0))))
			return false;
	}
	image->wanted = (struct symbol_list){.keys = keys, .count = count, .capacity = count + 1};
	return true;
}

int image__each_function(struct image *image, int (*fn)(const struct symbol *symbol, void *ctx),
			 void *ctx)
{
	struct symbol_list *list = image->wants ? &image->wanted : &image->functions;
	struct symbol symbol;
	int err = make_list(image, image->wants != NULL, list);

	for (size_t i = 0; !err && i < list->count; i++)
		err = fill_symbol(image, &list->keys[i], &symbol) ?: fn(&symbol, ctx);
	return err;
}

void image__narrow(struct image *image, bool (*wants)(const char *name, void *ctx), void *ctx)
{
	free(image->wanted.keys);
	image->wanted = (struct symbol_list){0};
	image->wants = wants;
	image->wants_ctx = ctx;
}

void image__focus(struct image *image, const uint64_t *vaddrs, size_t count)
{
	image->focus = vaddrs;
	image->focus_count = count;
}

/* The index of the nearest key before vaddr whose function covers it; -ENOENT, -ENOMEM. */
static ssize_t covering_key(struct image *image, uint64_t vaddr, struct symbol *symbol)
{
	int err = make_list(image, false, &image->functions);
	uint64_t last = vaddr;
	size_t low, steps = 0;

	if (err)
		return err;
	low = first_behind(image, vaddr);
	while (low-- > 0 && steps < COVERING_STEPS) {
		steps += image->functions.keys[low].vaddr != last;
		last = image->functions.keys[low].vaddr;
		err = fill_symbol(image, &image->functions.keys[low], symbol);
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
	size_t underscores = strspn(symbol->name, "_"), of_than = strspn(than->name, "_");

	if (symbol->global != than->global)
		return symbol->global;
	return underscores != of_than ? underscores < of_than
				      : strcmp(symbol->name, than->name) > 0;
}

int image__function_at(struct image *image, uint64_t vaddr, struct symbol *symbol)
{
	ssize_t index = covering_key(image, vaddr, symbol);
	struct symbol alias;
	uint64_t start;

	if (index < 0)
		return (int)index;
	/* of those that start there the one with the last key was found */
	start = symbol->vaddr;
	while (index-- > 0 && image->functions.keys[index].vaddr == start) {
		int err = fill_symbol(image, &image->functions.keys[index], &alias);

		if (err)
			return err;
		if (vaddr - start < alias.size && is_better_known(&alias, symbol))
			*symbol = alias;
	}
	return 0;
}

/*
 * Does a file export a function of a name? Asked of every file that a process maps, so neither
 * sorted nor searched: .gnu.hash answers with a few reads. Its layout (four words, a Bloom filter
 * of 64-bit words, buckets, one hash a symbol with its lowest bit set at a chain's end) is the
 * linkers' own: binutils, bfd/elflink.c; glibc, elf/dl-lookup.c.
 */

struct gnu_hash {
	uint32_t buckets_count, symbols_first, bloom_count, bloom_shift;
};

struct exports {
	const struct symbol_table *table;
	struct gnu_hash header;
	const uint8_t *buckets, *chains;
	size_t chains_count;
};

static uint32_t word_at(const uint8_t *words, size_t index)
{
	uint32_t word;

	memcpy(&word, words + index * sizeof(word), sizeof(word));
	return word;
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

/* The definition of `name`, if that is entry `number`. */
static bool is_definition(const struct symbol_table *table, size_t number, const char *name,
			  Elf64_Sym *sym)
{
	if (number >= table->count)
		return false;
	*sym = symbol_at(table, number);
	return sym->st_shndx != SHN_UNDEF &&
	       !strcmp(elf_strings__at(&table->names, sym->st_name), name);
}

static bool find_in_chain(const struct exports *exports, const char *name, Elf64_Sym *sym)
{
	uint32_t hash = 5381, first = exports->header.symbols_first, number;

	for (const char *p = name; *p; p++)
		hash = hash * 33 + (uint8_t)*p;
	number = word_at(exports->buckets, hash % exports->header.buckets_count);
	for (; number >= first && number - first < exports->chains_count; number++) {
		uint32_t entry = word_at(exports->chains, number - first);

		if ((entry | 1) == (hash | 1) && is_definition(exports->table, number, name, sym))
			return true;
		if (entry & 1)
			break;
	}
	return false;
}

/* The first of several versions of a symbol. */
static bool find_export(const struct image *image, const char *name, Elf64_Sym *sym)
{
	struct exports exports = {0};

	FOR_EACH (table, image->tables)
		if (table->origin == SYMBOL_DYNSYM)
			exports.table = table;
	if (!exports.table)
		return false;
	if (find_hash(image, &exports))
		return find_in_chain(&exports, name, sym);
	for (size_t n = 0; n < exports.table->count; n++)
		if (is_definition(exports.table, n, name, sym))
			return true;
	return false;
}

bool image__exports(const struct image *image, const char *name)
{
	Elf64_Sym sym;
	unsigned type;

	if (!find_export(image, name, &sym))
		return false;
	type = ELF64_ST_TYPE(sym.st_info);
	return type == STT_FUNC || type == STT_GNU_IFUNC;
}

bool image__exported(const struct image *image, const char *name, uint64_t *vaddr, uint64_t *size)
{
	Elf64_Sym sym;

	if (!find_export(image, name, &sym))
		return false;
	*vaddr = sym.st_value;
	*size = sym.st_size;
	return true;
}
