// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_rows.h"

#include "base/grow.h"
#include "elf/cfi.h"
#include "perfx_config.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_TEXT_BYTES (1ull << PERFX_UNWIND_PAGE_BITS)
#define SLAB_BYTES	(PERFX_UNWIND_SLAB_ROWS * sizeof(uint32_t))
#define PAGES_BYTES	(PERFX_UNWIND_PAGES_MAX * sizeof(uint64_t))
#define RULES_BYTES	(PERFX_UNWIND_RULES_MAX * sizeof(struct perfx_unwind_rule))

struct unwind_rows {
	int slabs_fd; /* the map of slabs; borrowed */
	uint64_t *pages;
	uint32_t pages_count, pages_loaded;
	struct perfx_unwind_rule *rules;
	uint32_t rules_count;
	uint32_t next_rule[PERFX_UNWIND_RULES_MAX]; /* of the same hash; 0: none */
	struct map64 by_hash;			    /* first rule with a hash */
	uint32_t *slabs[PERFX_UNWIND_SLABS_MAX];
	uint32_t slabs_count;
	uint32_t slab_used; /* rows of the last one */
	/* the page being compiled */
	uint64_t page_vaddr;
	uint32_t count;
	uint32_t compiled[PAGE_TEXT_BYTES];
};

static void *map_shared(int fd, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The index of a rule; those beyond the table are bad. */
static uint32_t rule_index(struct unwind_rows *rows, const struct perfx_unwind_rule *rule)
{
	uint64_t hash = cfi_rule_hash(rule);
	uint32_t first = map64_get(&rows->by_hash, hash), index = rows->rules_count;

	for (uint32_t at = first; at != MAP64_NONE && at; at = rows->next_rule[at])
		if (cfi_rule_equal(&rows->rules[at], rule))
			return at;
	if (index == PERFX_UNWIND_RULES_MAX ||
	    (first == MAP64_NONE && map64_put(&rows->by_hash, hash, index)))
		return PERFX_UNWIND_RULE_BAD;
	if (first != MAP64_NONE) {
		rows->next_rule[index] = rows->next_rule[first];
		rows->next_rule[first] = index;
	}
	rows->rules[index] = *rule;
	rows->rules_count++;
	return index;
}

struct unwind_rows *unwind_rows__new(const struct tracer_unwind_maps *maps)
{
	struct unwind_rows *rows = calloc(1, sizeof(*rows));
	static const struct perfx_unwind_rule none = {.cfa = PERFX_CFA_NONE},
					      bad = {.cfa = PERFX_CFA_BAD};

	if (!rows)
		return NULL;
	rows->slabs_fd = maps->slabs_fd;
	rows->pages = map_shared(maps->pages_fd, PAGES_BYTES);
	rows->rules = map_shared(maps->rules_fd, RULES_BYTES);
	if (!rows->pages || !rows->rules) {
		int err = errno;

		unwind_rows__free(rows);
		errno = err;
		return NULL;
	}
	rows->rules_count = PERFX_UNWIND_RULE_NONE;
	if (rule_index(rows, &none) == PERFX_UNWIND_RULE_NONE &&
	    rule_index(rows, &bad) == PERFX_UNWIND_RULE_BAD)
		return rows;
	unwind_rows__free(rows);
	errno = ENOMEM;
	return NULL;
}

void unwind_rows__free(struct unwind_rows *rows)
{
	if (!rows)
		return;
	if (rows->pages)
		munmap(rows->pages, PAGES_BYTES);
	if (rows->rules)
		munmap(rows->rules, RULES_BYTES);
	for (uint32_t i = 0; i < rows->slabs_count; i++)
		munmap(rows->slabs[i], SLAB_BYTES);
	map64_clear(&rows->by_hash);
	free(rows);
}

int64_t unwind_rows__add_pages(struct unwind_rows *rows, size_t count)
{
	uint32_t first = rows->pages_count;

	if (count > PERFX_UNWIND_PAGES_MAX - first)
		return -ENOSPC;
	rows->pages_count += (uint32_t)count;
	return first;
}

bool unwind_rows__loaded(const struct unwind_rows *rows, uint32_t page)
{
	return __atomic_load_n(&rows->pages[page], __ATOMIC_RELAXED) > PERFX_UNWIND_PAGE_ASKED;
}

/* A slab that the programs find; the map keeps it. */
static int add_slab(struct unwind_rows *rows)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	uint32_t key = rows->slabs_count;
	int fd, err = 0;

	if (key == PERFX_UNWIND_SLABS_MAX)
		return -ENOSPC;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_slab", sizeof(uint32_t), sizeof(uint64_t),
			    PERFX_UNWIND_SLAB_ROWS / 2, &options);
	if (fd < 0)
		return -errno;
	rows->slabs[key] = map_shared(fd, SLAB_BYTES);
	if (!rows->slabs[key]) {
		err = -errno;
	} else if (bpf_map_update_elem(rows->slabs_fd, &key, &fd, BPF_ANY)) {
		err = -errno;
		munmap(rows->slabs[key], SLAB_BYTES);
	} else {
		rows->slabs_count++;
		rows->slab_used = 0;
	}
	close(fd);
	return err;
}

static int take_row(const struct cfi_row *row, void *ctx)
{
	struct unwind_rows *rows = ctx;
	uint64_t offset = row->vaddr - rows->page_vaddr;

	if (offset >= PAGE_TEXT_BYTES || rows->count == PAGE_TEXT_BYTES)
		return -EINVAL;
	rows->compiled[rows->count++] = PERFX_UNWIND_ROW(offset, rule_index(rows, &row->rule));
	return 0;
}

/* The rows are written first: a program that sees the page sees them. */
static void publish(struct unwind_rows *rows, uint32_t page)
{
	uint32_t slab = rows->slabs_count - 1;
	struct perfx_unwind_page loaded = {.first_row =
						   slab * PERFX_UNWIND_SLAB_ROWS + rows->slab_used,
					   .rows_count = rows->count};
	uint64_t word;

	memcpy(rows->slabs[slab] + rows->slab_used, rows->compiled,
	       rows->count * sizeof(rows->compiled[0]));
	rows->slab_used += rows->count;
	rows->pages_loaded++;
	memcpy(&word, &loaded, sizeof(word));
	__atomic_store_n(&rows->pages[page], word, __ATOMIC_RELEASE);
}

int unwind_rows__load(struct unwind_rows *rows, uint32_t page, struct image *image, uint64_t vaddr)
{
	int err;

	rows->page_vaddr = vaddr;
	rows->count = 0;
	err = image__cfi_rows(image, vaddr, vaddr + PAGE_TEXT_BYTES, take_row, rows);
	if (err || !rows->count) {
		rows->compiled[0] = PERFX_UNWIND_ROW(0, PERFX_UNWIND_RULE_NONE);
		rows->count = 1;
	}
	err = 0;
	if (!rows->slabs_count || rows->count > PERFX_UNWIND_SLAB_ROWS - rows->slab_used)
		err = add_slab(rows);
	if (!err)
		publish(rows, page);
	return err;
}

size_t unwind_rows__bytes(const struct unwind_rows *rows)
{
	return rows->slabs_count * SLAB_BYTES;
}

size_t unwind_rows__pages_loaded(const struct unwind_rows *rows)
{
	return rows->pages_loaded;
}
