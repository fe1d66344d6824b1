// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_rows.h"

#include "base/grow.h"
#include "base/order.h"
#include "elf/eh_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_TEXT_BYTES (1ull << PERFX_UNWIND_PAGE_BITS)

/* A page has few rules, and most of them are other pages' rules as well. */
#define RECENT_RULES 256

struct unwind_rows {
	struct unwind_memory memory;
	uint32_t pages_count, pages_loaded;
	uint32_t rules_count;
	uint32_t next_rule[PERFX_UNWIND_RULES_MAX]; /* of the same hash; 0: none */
	struct map64 by_hash;			    /* first rule with a hash */
	uint32_t recent[RECENT_RULES];		    /* by the lower bits of their hash */
	uint32_t *slabs[PERFX_UNWIND_SLABS_MAX];
	uint32_t slabs_count;
	struct row_range {
		uint32_t first, count; /* of all slabs; within one */
	} * unused;		       /* ascending */
	size_t unused_count, unused_capacity;
	/* the page being compiled */
	uint64_t page_vaddr;
	uint32_t count;
	uint32_t compiled[PAGE_TEXT_BYTES];
};

static uint32_t search_rule(struct unwind_rows *rows, const struct perfx_unwind_rule *rule,
			    uint64_t hash)
{
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

/* The index of a rule; those beyond the table are bad. */
static uint32_t rule_index(struct unwind_rows *rows, const struct perfx_unwind_rule *rule)
{
	uint64_t hash = cfi_rule_hash(rule);
	uint32_t *recent = &rows->recent[hash % RECENT_RULES];

	if (!*recent || !cfi_rule_equal(&rows->memory.rules[*recent], rule))
		*recent = search_rule(rows, rule, hash);
	return *recent;
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
	free(rows->unused);
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

/* Adds what lies between two rows, cut where slabs end. 0 or -ENOMEM. */
static int add_unused(struct unwind_rows *rows, uint32_t from, uint32_t to)
{
	while (from < to) {
		uint32_t end = (from / PERFX_UNWIND_SLAB_ROWS + 1) * PERFX_UNWIND_SLAB_ROWS;

		if (end > to)
			end = to;
		if (LIST_ADD(rows->unused, (struct row_range){.first = from, .count = end - from}))
			return -ENOMEM;
		from = end;
	}
	return 0;
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
	return add_unused(rows, slab * PERFX_UNWIND_SLAB_ROWS, (slab + 1) * PERFX_UNWIND_SLAB_ROWS);
}

/* The first of so many rows in one slab, or -errno. */
static int64_t allocate_rows(struct unwind_rows *rows, uint32_t count)
{
	for (size_t i = 0;; i++) {
		int err = i == rows->unused_count ? add_slab(rows) : 0;
		struct row_range *range = &rows->unused[i];

		if (err)
			return err;
		if (range->count < count)
			continue;
		range->first += count;
		range->count -= count;
		return range->first - count;
	}
}

static int add_row(const struct cfi_row *row, void *ctx)
{
	struct unwind_rows *rows = ctx;
	uint64_t offset = row->vaddr - rows->page_vaddr;

	if (offset >= PAGE_TEXT_BYTES || rows->count == PAGE_TEXT_BYTES)
		return -EINVAL;
	rows->compiled[rows->count++] = PERFX_UNWIND_ROW(offset, rule_index(rows, &row->rule));
	return 0;
}

int unwind_rows__load(struct unwind_rows *rows, uint32_t page, struct image *image, uint64_t vaddr)
{
	struct perfx_unwind_page loaded;
	int64_t first_row;
	uint64_t word;
	int err;

	rows->page_vaddr = vaddr;
	rows->count = 0;
	err = image__cfi_rows(image, vaddr, vaddr + PAGE_TEXT_BYTES, add_row, rows);
	if (err || !rows->count) {
		rows->compiled[0] = PERFX_UNWIND_ROW(0, PERFX_UNWIND_RULE_NONE);
		rows->count = 1;
	}
	first_row = allocate_rows(rows, rows->count);
	if (first_row < 0)
		return (int)first_row;
	/* the rows are written first: a program that sees the page sees them */
	memcpy(rows->slabs[first_row / PERFX_UNWIND_SLAB_ROWS] + first_row % PERFX_UNWIND_SLAB_ROWS,
	       rows->compiled, rows->count * sizeof(rows->compiled[0]));
	rows->pages_loaded++;
	loaded = (struct perfx_unwind_page){.first_row = (uint32_t)first_row,
					    .rows_count = rows->count};
	memcpy(&word, &loaded, sizeof(word));
	__atomic_store_n(&rows->memory.pages[page], word, __ATOMIC_RELEASE);
	return 0;
}

void unwind_rows__drop(struct unwind_rows *rows, uint32_t first_page, uint32_t count)
{
	for (uint32_t page = first_page; page < first_page + count; page++) {
		rows->pages_loaded -= unwind_rows__loaded(rows, page);
		__atomic_store_n(&rows->memory.pages[page], 0, __ATOMIC_SEQ_CST);
	}
}

ORDER(by_first, struct row_range, ASCENDING(a->first, b->first))

int unwind_rows__reuse(struct unwind_rows *rows)
{
	struct row_range *used = calloc(rows->pages_loaded + 1, sizeof(*used));
	uint32_t used_count = 0, behind = 0;
	int err = 0;

	if (!used)
		return -ENOMEM;
	for (uint32_t page = 0; page < rows->pages_count; page++) {
		uint64_t word = __atomic_load_n(&rows->memory.pages[page], __ATOMIC_RELAXED);
		struct perfx_unwind_page found;

		memcpy(&found, &word, sizeof(found));
		if (found.rows_count)
			used[used_count++] = (struct row_range){found.first_row, found.rows_count};
		else
			__atomic_store_n(&rows->memory.pages[page], 0, __ATOMIC_RELAXED);
	}
	qsort(used, used_count, sizeof(*used), by_first);
	rows->unused_count = 0;
	for (uint32_t i = 0; !err && i < used_count; i++) {
		err = add_unused(rows, behind, used[i].first);
		behind = used[i].first + used[i].count;
	}
	if (!err)
		err = add_unused(rows, behind, rows->slabs_count * PERFX_UNWIND_SLAB_ROWS);
	free(used);
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
