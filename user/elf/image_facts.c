// SPDX-License-Identifier: BSD-2-Clause
/*
 * Findings of a file that take a pass over all of it, kept by its build id or inode: which of its
 * symbols are wanted, its traits, answers to questions that take long. For libtorch_cpu (530,000
 * symbols, 60 MB of constants) that saves 0.2 s each time it is opened.
 *
 * Findings are never trusted blindly. A build id alone does not tell a stripped file from the
 * original: the sizes of the file and of its tables are compared, too. A file without a build id
 * (TensorFlow's, JAX's) is known by its inode and the time of its last change, which only root can
 * forge. Wanted symbols are kept as their numbers, and each is looked up in the file; one that is
 * no wanted function there makes all findings void.
 */
#include "base/cache.h"
#include "base/grow.h"
#include "base/hash.h"
#include "elf/image_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files smaller in both are searched faster than a further file is opened. */
#define SYMBOLS_MIN  200
#define SEARCHED_MIN (1u << 20)
/* At most 512 files of 1 MiB. */
#define FILES_MAX 512
#define BYTES_MAX (1u << 20)

/* A file's content: this, and after it the symbols. */
struct kept_facts {
	uint8_t traits[sizeof(struct image_traits)];
	uint8_t traits_ready, symbols_ready, answers_count;
	uint32_t symbols_count;
	struct image_answer answers[IMAGE_ANSWERS_MAX];
};

struct kept_symbol {
	uint64_t vaddr;
	uint32_t number;
	uint16_t table, label;
};

_Static_assert(sizeof(struct image_traits) == 8, "bools, and nothing between them");

static uint64_t key_of(const struct image *image)
{
	return fnv1a(&image->facts.key, sizeof(image->facts.key));
}

static char *path_of(const struct image *image)
{
	char *path;
	int length = asprintf(&path, "%s/%s-%016llx", image->facts.folder, image->build_id,
			      (unsigned long long)key_of(image));

	return length < 0 ? NULL : path;
}

static bool is_sound(const struct kept_facts *kept, size_t size)
{
	if (size < sizeof(*kept) ||
	    size - sizeof(*kept) != kept->symbols_count * sizeof(struct kept_symbol))
		return false;
	for (size_t i = 0; i < sizeof(kept->traits); i++)
		if (kept->traits[i] > 1)
			return false;
	return kept->traits_ready <= 1 && kept->symbols_ready <= 1 &&
	       kept->answers_count <= IMAGE_ANSWERS_MAX;
}

static bool use_kept_symbols(struct image *image, const struct kept_facts *facts)
{
	const struct kept_symbol *kept = (const void *)(facts + 1);
	struct symbol_key *keys;

	if (!facts->symbols_ready)
		return true;
	keys = calloc((size_t)facts->symbols_count + 1, sizeof(*keys));
	for (size_t i = 0; keys && i < facts->symbols_count; i++)
		keys[i] = (struct symbol_key){.vaddr = kept[i].vaddr,
					      .table = kept[i].table,
					      .label = kept[i].label,
					      .number = kept[i].number};
	if (keys && image__keep_wanted(image, keys, facts->symbols_count))
		return true;
	free(keys);
	return false;
}

static void load_facts(struct image *image)
{
	char *path = path_of(image);
	size_t size = 0;
	struct kept_facts *kept = path ? cache_recall(path, key_of(image), BYTES_MAX, &size) : NULL;

	if (kept && is_sound(kept, size) && use_kept_symbols(image, kept)) {
		if (kept->traits_ready) {
			memcpy(&image->traits, kept->traits, sizeof(image->traits));
			image->traits_ready = true;
		}
		memcpy(image->facts.answers, kept->answers, sizeof(kept->answers));
		image->facts.answers_count = kept->answers_count;
	}
	free(kept);
	free(path);
}

void image__keep_facts(struct image *image, const char *folder, uint64_t reader_id)
{
	struct image_facts *facts = &image->facts;
	size_t symbols_count = 0;
	struct stat stat;

	image__add_mini(image);
	FOR_EACH (table, image->tables)
		symbols_count += table->count;
	if (facts->folder || (symbols_count < SYMBOLS_MIN && image->file.size < SEARCHED_MIN))
		return;
	facts->key = (struct facts_key){.reader_id = reader_id,
					.file_bytes = image->file.size,
					.debug_bytes = image->debug.size};
	for (size_t i = 0; i < image->tables_count; i++)
		facts->key.symbols_counts[i] = image->tables[i].count;
	if (!image->build_id[0]) {
		if (fstat(image->fd, &stat))
			return;
		facts->key.device = stat.st_dev;
		facts->key.inode = stat.st_ino;
		facts->key.changed_ns =
			(uint64_t)stat.st_ctim.tv_sec * 1000000000 + (uint64_t)stat.st_ctim.tv_nsec;
	}
	facts->folder = strdup(folder);
	if (facts->folder)
		load_facts(image);
}

static void store_facts(const struct image *image)
{
	const struct image_facts *facts = &image->facts;
	const struct symbol_list *wanted = &image->wanted;
	size_t size = sizeof(struct kept_facts) + wanted->count * sizeof(struct kept_symbol);
	struct kept_facts *kept = size <= BYTES_MAX ? calloc(1, size) : NULL;
	struct kept_symbol *symbols = kept ? (void *)(kept + 1) : NULL;
	char *path = kept ? path_of(image) : NULL;

	if (path) {
		memcpy(kept->traits, &image->traits, sizeof(kept->traits));
		kept->traits_ready = image->traits_ready;
		kept->symbols_ready = wanted->keys != NULL;
		memcpy(kept->answers, facts->answers, sizeof(kept->answers));
		kept->answers_count = (uint8_t)facts->answers_count;
		kept->symbols_count = (uint32_t)wanted->count;
		for (size_t i = 0; i < wanted->count; i++)
			symbols[i] = (struct kept_symbol){.vaddr = wanted->keys[i].vaddr,
							  .number = wanted->keys[i].number,
							  .table = wanted->keys[i].table,
							  .label = wanted->keys[i].label};
		cache_bound(facts->folder, FILES_MAX);
		/* a folder that cannot be written, a full disk: the next run searches again */
		(void)cache_keep(path, key_of(image), kept, size);
	}
	free(path);
	free(kept);
}

bool image__answer(struct image *image, uint64_t question,
		   bool (*find)(struct image *image, void *ctx), void *ctx)
{
	struct image_facts *facts = &image->facts;
	bool answer;

	for (size_t i = 0; i < facts->answers_count; i++)
		if (facts->answers[i].question == question)
			return facts->answers[i].yes;
	answer = find(image, ctx);
	if (facts->answers_count < IMAGE_ANSWERS_MAX) {
		facts->answers[facts->answers_count++] =
			(struct image_answer){.question = question, .yes = answer};
		facts->fresh = true;
	}
	return answer;
}

void image__forget_facts(struct image *image)
{
	if (image->facts.folder && image->facts.fresh)
		store_facts(image);
	free(image->facts.folder);
}

uint64_t image_own_id(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct image *own = fd < 0 ? NULL : image__open(fd, "", "");
	const char *build_id = own ? image__build_id(own) : "";
	uint64_t id = build_id[0] ? fnv1a(build_id, strlen(build_id)) : 0;

	image__free(own);
	if (fd >= 0)
		close(fd);
	return id;
}
