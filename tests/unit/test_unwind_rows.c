// SPDX-License-Identifier: BSD-2-Clause
/* Compiled unwind tables: what the programs find in the memory that they share with us. */
#include "attach/unwind_rows.h"
#include "elf/eh_frame.h"
#include "image_fixture.h"

#define PAGE_VADDR (TEXT_VADDR & ~0xffffull)

static uint64_t pages[PERFX_UNWIND_PAGES_MAX];
static struct perfx_unwind_rule rules[PERFX_UNWIND_RULES_MAX];
static uint32_t *slabs[PERFX_UNWIND_SLABS_MAX];
static uint32_t slabs_count, slabs_max = PERFX_UNWIND_SLABS_MAX;
static struct unwind_rows *rows;

static uint32_t *add_slab(void *ctx, uint32_t slab)
{
	cr_assert_eq(ctx, slabs);
	cr_assert_eq(slab, slabs_count);
	if (slab == slabs_max)
		return NULL;
	slabs[slabs_count++] = calloc(PERFX_UNWIND_SLAB_ROWS, sizeof(uint32_t));
	return slabs[slab];
}

static void set_up(void)
{
	image_set_up();
	rows = unwind_rows__new(&(struct unwind_memory){
		.pages = pages, .rules = rules, .add_slab = add_slab, .ctx = slabs});
	cr_assert_not_null(rows);
}

static void tear_down(void)
{
	unwind_rows__free(rows);
	for (uint32_t i = 0; i < slabs_count; i++)
		free(slabs[i]);
	fixture_tear_down();
}

static struct perfx_unwind_page page_at(uint32_t page)
{
	struct perfx_unwind_page found;

	memcpy(&found, &pages[page], sizeof(found));
	return found;
}

/* The rule at an offset in a page, as search_rule() in bpf/unwind.bpf.h finds it. */
static uint32_t rule_at(uint32_t page, uint32_t offset)
{
	struct perfx_unwind_page found = page_at(page);
	const uint32_t *row = slabs[found.first_row / PERFX_UNWIND_SLAB_ROWS] +
			      found.first_row % PERFX_UNWIND_SLAB_ROWS;
	uint32_t rule = 0;

	for (uint32_t i = 0; i < found.rows_count && PERFX_UNWIND_ROW_OFFSET(row[i]) <= offset; i++)
		rule = PERFX_UNWIND_ROW_RULE(row[i]);
	return rule;
}

static void expect_rule(uint32_t page, uint32_t offset, uint8_t base, int32_t cfa_offset)
{
	const struct perfx_unwind_rule *rule = &rules[rule_at(page, offset)];

	cr_expect(rule->cfa == PERFX_CFA_BASE && rule->base == base &&
			  rule->cfa_offset == cfa_offset,
		  "at %u: cfa %u, base %u, offset %d", offset, rule->cfa, rule->base,
		  rule->cfa_offset);
}

TestSuite(unwind_rows, .init = set_up, .fini = tear_down);

Test(unwind_rows, a_page)
{
	struct image *image = open_image("f.so", "");
	int64_t first = unwind_rows__add_pages(rows, 3);
	uint32_t page = (uint32_t)first + 1;

	cr_expect_eq(first, 0);
	cr_expect_not(unwind_rows__loaded(rows, page));
	cr_assert_eq(unwind_rows__load(rows, page, image, PAGE_VADDR), 0);
	cr_expect(unwind_rows__loaded(rows, page));
	cr_expect_not(unwind_rows__loaded(rows, page - 1));
	cr_expect_not(unwind_rows__loaded(rows, page + 1));
	cr_expect_eq(page_at(page).first_row, 0);
	cr_expect_eq(unwind_rows__pages_loaded(rows), 1);
	cr_expect_eq(unwind_rows__bytes(rows), 1 << 20);
	/* seven of image_fixture.h */
	cr_expect_eq(rule_at(page, 0), PERFX_UNWIND_RULE_NONE);
	expect_rule(page, TEXT_VADDR - PAGE_VADDR, PERFX_BASE_SP, 8);
	expect_rule(page, TEXT_VADDR - PAGE_VADDR + 1, PERFX_BASE_SP, 16);
	expect_rule(page, TEXT_VADDR - PAGE_VADDR + 3, PERFX_BASE_FP, 16);
	expect_rule(page, TEXT_VADDR - PAGE_VADDR + 5, PERFX_BASE_SP, 8);
	cr_expect_eq(rule_at(page, 0xffff), PERFX_UNWIND_RULE_NONE);
	image__free(image);
}

/* Equal rules have one index, and rows one page behind the other. */
Test(unwind_rows, the_same_page_twice)
{
	struct image *image = open_image("f.so", "");
	uint32_t count;

	unwind_rows__add_pages(rows, 2);
	cr_assert_eq(unwind_rows__load(rows, 0, image, PAGE_VADDR), 0);
	cr_assert_eq(unwind_rows__load(rows, 1, image, PAGE_VADDR), 0);
	count = page_at(0).rows_count;
	cr_expect_eq(page_at(1).first_row, count);
	cr_expect_eq(page_at(1).rows_count, count);
	cr_expect_arr_eq(slabs[0], slabs[0] + count, count * sizeof(slabs[0][0]));
	image__free(image);
}

/* One row that says so: it is not asked for again. */
Test(unwind_rows, pages_without_a_table)
{
	struct image *image = open_image("f.so", ""), *bare;

	/* it warns of the segment that is empty then */
	fixture_run("objcopy -R .eh_frame -R .eh_frame_hdr f.so bare.so 2>/dev/null");
	bare = open_image("bare.so", "");
	unwind_rows__add_pages(rows, 2);
	cr_assert_eq(unwind_rows__load(rows, 0, image, 0x7fff0000), 0);
	cr_assert_eq(unwind_rows__load(rows, 1, bare, PAGE_VADDR), 0);
	for (uint32_t page = 0; page < 2; page++) {
		cr_expect(unwind_rows__loaded(rows, page));
		cr_expect_eq(page_at(page).rows_count, 1);
		cr_expect_eq(rule_at(page, 0x1234), PERFX_UNWIND_RULE_NONE);
	}
	image__free(image);
	image__free(bare);
}

Test(unwind_rows, pages_asked_for_are_not_loaded)
{
	unwind_rows__add_pages(rows, 1);
	pages[0] = PERFX_UNWIND_PAGE_ASKED;
	cr_expect_not(unwind_rows__loaded(rows, 0));
}

Test(unwind_rows, pages_run_out)
{
	cr_expect_eq(unwind_rows__add_pages(rows, PERFX_UNWIND_PAGES_MAX + 1ull), -ENOSPC);
	cr_expect_eq(unwind_rows__add_pages(rows, 1ull << 48), -ENOSPC);
	cr_expect_eq(unwind_rows__add_pages(rows, PERFX_UNWIND_PAGES_MAX - 2), 0);
	cr_expect_eq(unwind_rows__add_pages(rows, 3), -ENOSPC);
	cr_expect_eq(unwind_rows__add_pages(rows, 2), PERFX_UNWIND_PAGES_MAX - 2);
	cr_expect_eq(unwind_rows__add_pages(rows, 1), -ENOSPC);
}

/* A page of code whose every byte has a rule of its own, from vaddr 0x10000 on. */
static struct image *image_of_rules(uint32_t count)
{
	static char source[1 << 20];
	size_t used = (size_t)sprintf(source, ".text\n.cfi_startproc\n");

	for (uint32_t i = 0; i < count; i++)
		used += (size_t)sprintf(source + used, ".cfi_def_cfa_offset %u\nnop\n", 16 + i);
	sprintf(source + used, ".cfi_endproc\n.section .note.GNU-stack\n");
	fixture_text("many.S", source);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=0x10000 -o many.so many.S");
	return open_image("many.so", "");
}

/* A page's rows lie in one slab; where the next does not come, the page stays as it was. */
Test(unwind_rows, rows_run_out)
{
	/* and one behind them, where there is no code */
	struct image *image = image_of_rules(8999);
	const uint32_t fits = PERFX_UNWIND_SLAB_ROWS / 9000;
	uint32_t page;

	slabs_max = 2;
	unwind_rows__add_pages(rows, 2 * fits + 1);
	for (page = 0; page < 2 * fits; page++)
		cr_assert_eq(unwind_rows__load(rows, page, image, 0x10000), 0);
	cr_expect_eq(page_at(0).rows_count, 9000);
	cr_expect_eq(page_at(fits - 1).first_row, (fits - 1) * 9000);
	cr_expect_eq(page_at(fits).first_row, PERFX_UNWIND_SLAB_ROWS);
	cr_expect_eq(unwind_rows__load(rows, page, image, 0x10000), -ENOSPC);
	cr_expect_not(unwind_rows__loaded(rows, page));
	cr_expect_eq(unwind_rows__bytes(rows), 2 << 20);
	cr_expect_eq(unwind_rows__pages_loaded(rows), 2 * fits);
	image__free(image);
}

/* Rows of pages that are dropped are others' then, where they fit; a page that was asked for in
 * vain may be asked for again. */
Test(unwind_rows, rows_are_used_again)
{
	struct image *large = image_of_rules(8999), *small = open_image("f.so", "");
	const uint32_t fits = PERFX_UNWIND_SLAB_ROWS / 9000;

	slabs_max = 1;
	unwind_rows__add_pages(rows, fits + 3);
	for (uint32_t page = 0; page < fits; page++)
		cr_assert_eq(unwind_rows__load(rows, page, large, 0x10000), 0);
	cr_assert_eq(unwind_rows__load(rows, fits, large, 0x10000), -ENOSPC);
	pages[fits] = PERFX_UNWIND_PAGE_ASKED;
	/* nothing was dropped */
	cr_assert_eq(unwind_rows__reuse(rows), 0);
	cr_expect_eq(pages[fits], 0);
	cr_assert_eq(unwind_rows__load(rows, fits, large, 0x10000), -ENOSPC);

	unwind_rows__drop(rows, 3, 2);
	unwind_rows__drop(rows, 7, 1);
	cr_expect_eq(unwind_rows__pages_loaded(rows), fits - 3);
	cr_expect_not(unwind_rows__loaded(rows, 3));
	cr_expect_eq(pages[4], 0);
	cr_expect_eq(page_at(5).first_row, 5 * 9000);
	cr_assert_eq(unwind_rows__reuse(rows), 0);
	/* 18000 rows from page 3's on, 9000 from page 7's on */
	cr_assert_eq(unwind_rows__load(rows, fits, small, PAGE_VADDR), 0);
	cr_expect_eq(page_at(fits).first_row, 3 * 9000);
	cr_assert_eq(unwind_rows__load(rows, fits + 1, large, 0x10000), 0);
	cr_expect_eq(page_at(fits + 1).first_row, 3 * 9000 + page_at(fits).rows_count);
	cr_assert_eq(unwind_rows__load(rows, fits + 2, large, 0x10000), 0);
	cr_expect_eq(page_at(fits + 2).first_row, 7 * 9000);
	cr_assert_eq(unwind_rows__load(rows, 3, large, 0x10000), -ENOSPC);
	/* what they hold, and their neighbours */
	expect_rule(fits, TEXT_VADDR - PAGE_VADDR + 1, PERFX_BASE_SP, 16);
	for (uint32_t page = 0; page < fits + 3; page++)
		if (unwind_rows__loaded(rows, page) && page != fits)
			expect_rule(page, 8998, PERFX_BASE_SP, 16 + 8998);
	cr_expect_eq(unwind_rows__bytes(rows), 1 << 20);
	image__free(large);
	image__free(small);
}

/* What finds no place among the rules has none. Index 0 is none; 1 and 2 have their meaning. */
Test(unwind_rows, rules_run_out)
{
	struct image *image = image_of_rules(PERFX_UNWIND_RULES_MAX);
	const uint32_t fit = PERFX_UNWIND_RULES_MAX - 3;

	unwind_rows__add_pages(rows, 1);
	cr_assert_eq(unwind_rows__load(rows, 0, image, 0x10000), 0);
	expect_rule(0, 0, PERFX_BASE_SP, 16);
	expect_rule(0, fit - 1, PERFX_BASE_SP, 16 + (int32_t)fit - 1);
	cr_expect_eq(rule_at(0, fit), PERFX_UNWIND_RULE_BAD);
	cr_expect_eq(rules[PERFX_UNWIND_RULE_BAD].cfa, PERFX_CFA_BAD);
	image__free(image);
}
