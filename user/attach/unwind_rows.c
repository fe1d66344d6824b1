// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_rows.h"

#include "base/grow.h"
#include "elf/cfi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_TEXT_BYTES (1ull << PERFX_UNWIND_PAGE_BITS)

struct unwind_rows {
	struct unwind_memory memory;
	uint32_t pages_count, pages_loaded;
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

/* The index of a rule; those beyond the table are bad. */
static uint32_t rule_index(struct unwind_rows *rows, const struct perfx_unwind_rule *rule)
{
	uint64_t hash = cfi_rule_hash(rule);
	uint32_t first = map64_get(&rows->by_hash, hash), index = rows->rules_count;

	for (uint32_t at = first; at != MAP64_NONE && at; at = rows->next_rule[at])
		if (cfi_rule_equal(&rows->memory.rules[at], rule))
			return at;
	if (index == PERFX_UNWIND_RULES_MAX ||
	    (first == MAP64_NONE && map64_put(&rows->by_hash, hash, index)))
		return PERFX_UNWIND_RULE_BAD;
	if (first != MAP64_NONE) {
		rows->next_rule[index] = rows->next_rule[first];
		rows->next_rule[first] = index;
	}
	rows->memory.rules[index] = *rule;
	rows->rules_count++;
	return index;
}

struct unwind_rows *unwind_rows__new(const struct unwind_memory *memory)
{
	struct unwind_rows *rows = calloc(1, sizeof(*rows));
	static const struct perfx_unwind_rule none = {.cfa = PERFX_CFA_NONE},
					      bad = {.cfa = PERFX_CFA_BAD};

	if (!rows)
		return NULL;
	rows->memory = *memory;
	rows->rules_count = PERFX_UNWIND_RULE_NONE;
	if (rule_index(rows, &none) == PERFX_UNWIND_RULE_NONE &&
	    rule_index(rows, &bad) == PERFX_UNWIND_RULE_BAD)
		return rows;
	unwind_rows__free(rows);
	return NULL;
}

void unwind_rows__free(struct unwind_rows *rows)
{
	if (!rows)
		return;
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
	return __atomic_load_n(&rows->memory.pages[page], __ATOMIC_RELAXED) >
	       PERFX_UNWIND_PAGE_ASKED;
}

static int add_slab(struct unwind_rows *rows)
{
	uint32_t slab = rows->slabs_count;

	if (slab == PERFX_UNWIND_SLABS_MAX)
		return -ENOSPC;
	rows->slabs[slab] = rows->memory.add_slab(rows->memory.ctx, slab);
	if (!rows->slabs[slab])
		return -ENOSPC;
	rows->slabs_count++;
	rows->slab_used = 0;
	return 0;
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
	__atomic_store_n(&rows->memory.pages[page], word, __ATOMIC_RELEASE);
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
	return rows->slabs_count * PERFX_UNWIND_SLAB_ROWS * sizeof(uint32_t);
}

size_t unwind_rows__pages_loaded(const struct unwind_rows *rows)
{
	return rows->pages_loaded;
}
