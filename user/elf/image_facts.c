// SPDX-License-Identifier: BSD-2-Clause
/*
 * Findings of a file that take a pass over all of it, kept by its build id: which of its symbols
 * are wanted, its traits, whether it has a text. For libtorch_cpu (530,000 symbols, 60 MB of
 * constants) that saves 0.2 s each time it is opened.
 *
 * Findings are never trusted blindly. A build id alone does not tell a stripped file from the
 * original: the sizes of the file and of its tables are compared, too. Wanted symbols are kept as
 * their numbers, and each is looked up in the file; one that is no wanted function there makes all
 * findings void.
 */
#include "base/cache.h"
#include "base/hash.h"
#include "elf/image_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller files are searched faster than a further file is opened. */
#define SYMBOLS_MIN 1000
/* At most 512 files of 1 MiB. */
#define FILES_MAX 512
#define BYTES_MAX (1u << 20)

struct facts_head {
	char magic[8];
	uint64_t checksum; /* FNV-1a of all that follows */
	struct facts_key key;
	uint8_t traits[sizeof(struct image_traits)];
	uint8_t traits_ready, mentioned;
	uint32_t symbols_count;
	uint64_t text_id;
};

struct kept_symbol {
	uint64_t vaddr;
	uint32_t number;
	uint16_t table, label;
};

static const char magic[8] = "perfxim1";

_Static_assert(sizeof(struct image_traits) == 8, "bools, and nothing between them");

static uint64_t checksum_of(const struct facts_head *head, size_t size)
{
	size_t from = offsetof(struct facts_head, key);

	return fnv1a((const char *)head + from, size - from);
}

static char *path_of(const struct image *image)
{
	const struct image_facts *facts = &image->facts;
	char *path;

	return asprintf(&path, "%s/%s-%016llx", facts->folder, image->build_id,
			(unsigned long long)fnv1a(&facts->key, sizeof(facts->key))) < 0
		       ? NULL
		       : path;
}

static bool is_sound(const struct image *image, const struct facts_head *head, size_t size)
{
	if (size < sizeof(*head) || memcmp(head->magic, magic, sizeof(magic)) ||
	    memcmp(&head->key, &image->facts.key, sizeof(head->key)) ||
	    (size - sizeof(*head)) / sizeof(struct kept_symbol) != head->symbols_count ||
	    (size - sizeof(*head)) % sizeof(struct kept_symbol) ||
	    head->checksum != checksum_of(head, size))
		return false;
	for (size_t i = 0; i < sizeof(head->traits); i++)
		if (head->traits[i] > 1)
			return false;
	return head->traits_ready <= 1 && head->mentioned <= 1;
}

static bool take_symbols(struct image *image, const struct facts_head *head)
{
	const struct kept_symbol *kept = (const void *)(head + 1);
	struct symbol_key *keys = calloc((size_t)head->symbols_count + 1, sizeof(*keys));

	for (size_t i = 0; keys && i < head->symbols_count; i++)
		keys[i] = (struct symbol_key){.vaddr = kept[i].vaddr,
					      .table = kept[i].table,
					      .label = kept[i].label,
					      .number = kept[i].number};
	if (keys && image__take_wanted(image, keys, head->symbols_count))
		return true;
	free(keys);
	return false;
}

static void load_facts(struct image *image)
{
	char *path = path_of(image);
	size_t size = 0;
	struct facts_head *head = path ? cache_load(path, BYTES_MAX, &size) : NULL;

	if (head && is_sound(image, head, size) && take_symbols(image, head)) {
		if (head->traits_ready) {
			memcpy(&image->traits, head->traits, sizeof(image->traits));
			image->traits_ready = true;
		}
		image->facts.text_id = head->text_id;
		image->facts.mentioned = head->mentioned;
	}
	free(head);
	free(path);
}

void image__keep_facts(struct image *image, const char *folder, uint64_t reader_id)
{
	struct image_facts *facts = &image->facts;
	size_t symbols_count = 0;

	image__add_mini(image);
	for (size_t i = 0; i < image->tables_count; i++)
		symbols_count += image->tables[i].count;
	if (facts->folder || !image->build_id[0] || symbols_count < SYMBOLS_MIN)
		return;
	facts->folder = strdup(folder);
	facts->key = (struct facts_key){.reader_id = reader_id,
					.file_bytes = image->file.size,
					.debug_bytes = image->debug.size};
	for (size_t i = 0; i < image->tables_count; i++)
		facts->key.symbols_counts[i] = image->tables[i].count;
	if (facts->folder)
		load_facts(image);
}

static void store_facts(const struct image *image)
{
	const struct image_facts *facts = &image->facts;
	const struct symbol_list *wanted = &image->wanted;
	size_t size = sizeof(struct facts_head) + wanted->count * sizeof(struct kept_symbol);
	struct facts_head *head = size <= BYTES_MAX ? calloc(1, size) : NULL;
	struct kept_symbol *kept = head ? (void *)(head + 1) : NULL;
	char *path = head ? path_of(image) : NULL;

	if (path) {
		memcpy(head->magic, magic, sizeof(magic));
		head->key = facts->key;
		memcpy(head->traits, &image->traits, sizeof(head->traits));
		head->traits_ready = image->traits_ready;
		head->text_id = facts->text_id;
		head->mentioned = facts->mentioned;
		head->symbols_count = (uint32_t)wanted->count;
		for (size_t i = 0; i < wanted->count; i++)
			kept[i] = (struct kept_symbol){.vaddr = wanted->keys[i].vaddr,
						       .number = wanted->keys[i].number,
						       .table = wanted->keys[i].table,
						       .label = wanted->keys[i].label};
		head->checksum = checksum_of(head, size);
		cache_bound(facts->folder, FILES_MAX);
		/* a folder that cannot be written, a full disk: the next run searches again */
		(void)cache_store(path, head, size);
	}
	free(path);
	free(head);
}

void image__forget_facts(struct image *image)
{
	if (image->facts.folder && image->facts.fresh && image->wanted.keys)
		store_facts(image);
	free(image->facts.folder);
}
