// SPDX-License-Identifier: BSD-2-Clause
/* Lists of mappings, the pages that their addresses are in, and which process uses which. */
#include "attach/unwind_sets.h"
#include "fixture.h"

#include <errno.h>

#define KIB 1024ull
#define GIB (1024ull * 1024 * 1024)

/* /lib/a.so: code of 200 KiB at vaddr 0x21000, 0x20000 in the file, in pages 2 to 5 of its own and
 * 100 to 103 of the table. */
static struct code_pages library(void)
{
	struct code_pages code = {.segments_count = 0};

	code_pages__add_segment(&code, 0x21000, 200 * KIB, 0x20000);
	cr_assert_eq(code_pages__needed(&code), 4);
	code_pages__place(&code, 100);
	return code;
}

static struct mapping mapped(uint64_t start, uint64_t end, uint64_t file_offset)
{
	return (struct mapping){
		.start = start, .end = end, .file_offset = file_offset, .executable = true};
}

static void add(struct mapping_list *list, const struct code_pages *code, uint64_t start,
		uint64_t end, uint64_t file_offset)
{
	struct mapping mapping = mapped(start, end, file_offset);

	cr_assert_eq(mapping_list__add(list, code, &mapping), 0);
}

/* "start-end", and the pages of its first and last byte where it has a table. */
static void expect_list(const struct mapping_list *list, const char *expected)
{
	char text[4096] = "";
	size_t used = 0;

	for (size_t i = 0; i < list->count && used < sizeof(text) - 128; i++) {
		const struct perfx_unwind_mapping *m = &list->list[i];

		used += (size_t)sprintf(text + used, "%llx-%llx", m->start, m->end);
		if (m->has_pages)
			used += (size_t)sprintf(text + used, " %u..%u", mapping_page(m, m->start),
						mapping_page(m, m->end - 1));
		used += (size_t)sprintf(text + used, "\n");
	}
	cr_expect_str_eq(text, expected);
}

Test(unwind_sets, pages_of_a_file)
{
	struct code_pages code = {.segments_count = 0};

	cr_expect_eq(code_pages__needed(&code), 0);
	code_pages__add_segment(&code, 0x1ffff, 1, 0x1ffff);
	cr_expect_eq(code_pages__needed(&code), 1);
	code_pages__add_segment(&code, 0x1ffff, 2, 0x1ffff);
	cr_expect_eq(code_pages__needed(&code), 2);
	code_pages__add_segment(&code, 0x90000, 0x10000, 0x30000);
	cr_expect_eq(code_pages__needed(&code), 9);
	code_pages__place(&code, 7);
	cr_expect_eq(code.first_page, 7);
	cr_expect_eq(code.pages_count, 9);
	cr_expect_eq(code_pages__vaddr(&code, 7), 0x10000);
	cr_expect_eq(code_pages__vaddr(&code, 15), 0x90000);
}

Test(unwind_sets, segments_that_are_none)
{
	struct code_pages code = {.segments_count = 0};

	code_pages__add_segment(&code, 0x1000, 0, 0);
	code_pages__add_segment(&code, UINT64_MAX, 2, 0);
	code_pages__add_segment(&code, 2, UINT64_MAX, 0);
	cr_expect_eq(code_pages__needed(&code), 0);
	code_pages__add_segment(&code, UINT64_MAX, 1, 0);
	code_pages__add_segment(&code, 0, 1, 0);
	cr_expect_eq(code_pages__needed(&code), 1ull << (64 - PERFX_UNWIND_PAGE_BITS));
	for (size_t i = 2; i < 2 * CODE_SEGMENTS_MAX; i++)
		code_pages__add_segment(&code, i, 1, 0);
	cr_expect_eq(code.segments_count, CODE_SEGMENTS_MAX);
}

Test(unwind_sets, pages_of_mappings)
{
	struct code_pages code = library();
	struct mapping_list list = {.count = 0};

	add(&list, NULL, 0x400000, 0x500000, 0); /* code without a file */
	add(&list, &code, 0x7f0000001000, 0x7f0000033000, 0x20000);
	add(&list, &code, 0x7f0000100000, 0x7f0000104000,
	    0x2f000); /* a part of it: vaddr 0x30000 */
	add(&list, &code, 0x7f0000200000, 0x7f0000201000, 0x60000); /* behind its code */
	expect_list(&list, "400000-500000\n"
			   "7f0000001000-7f0000033000 100..103\n"
			   "7f0000100000-7f0000104000 101..101\n"
			   "7f0000200000-7f0000201000\n");
	cr_expect_eq(list.list[1].bias, 0x7f0000001000 - 0x21000);
	mapping_list__clear(&list);
	cr_expect_eq(list.count, 0);
}

/* The page of an address would be another file's. */
Test(unwind_sets, mappings_beyond_the_files_pages)
{
	struct code_pages code = library(), low = {.segments_count = 0};
	struct mapping_list list = {.count = 0};

	/* from offset 0 on: its first byte would have vaddr 0x1000, in page 98 */
	add(&list, &code, 0x10000000, 0x10052000, 0);
	/* up to vaddr 0x61000: page 104 */
	add(&list, &code, 0x20000000, 0x20040000, 0x20000);
	/* below vaddr 0 */
	code_pages__add_segment(&low, 0, 0x4000, 0x1000);
	code_pages__place(&low, 200);
	add(&list, &low, 0x30000000, 0x30005000, 0);
	add(&list, &low, 0x40000000, 0x40004000, 0x1000);
	expect_list(&list, "10000000-10052000\n20000000-20040000\n30000000-30005000\n"
			   "40000000-40004000 200..200\n");
	mapping_list__clear(&list);
}

/* Its index in the table of pages is below that of its vaddr. */
Test(unwind_sets, code_at_high_addresses_of_its_file)
{
	struct code_pages code = {.segments_count = 0};
	struct mapping_list list = {.count = 0};

	code_pages__add_segment(&code, 0xffffffffff700000, 0x1000, 0);
	code_pages__place(&code, 3);
	add(&list, &code, 0x7ffd00000000, 0x7ffd00001000, 0);
	expect_list(&list, "7ffd00000000-7ffd00001000 3..3\n");
	mapping_list__clear(&list);
}

/* Two segments in one page of the file: each mapping is of the one that it shows most of. */
Test(unwind_sets, segments_that_share_a_page)
{
	struct code_pages code = {.segments_count = 0};
	struct mapping_list list = {.count = 0};

	code_pages__add_segment(&code, 0x10000, 0x3f00, 0);
	code_pages__add_segment(&code, 0x33f00, 0x4000, 0x3f00);
	code_pages__place(&code, 0);
	add(&list, &code, 0x500000, 0x504000, 0);
	add(&list, &code, 0x523000, 0x528000, 0x3000);
	expect_list(&list, "500000-504000 0..0\n523000-528000 2..2\n");
	cr_expect_eq(list.list[0].bias, 0x500000 - 0x10000);
	cr_expect_eq(list.list[1].bias, 0x523000 - 0x33000);
	mapping_list__clear(&list);
}

/* A list that changes while it is read: only what lies behind is added. */
Test(unwind_sets, overlaps)
{
	struct code_pages code = library();
	struct mapping_list list = {.count = 0};

	add(&list, NULL, 0x1000, 0x5000, 0);
	add(&list, NULL, 0x1000, 0x5000, 0);
	add(&list, NULL, 0x3000, 0x4000, 0);
	add(&list, NULL, 0x4000, 0x9000, 0);
	add(&list, NULL, 0x2000, 0x2000, 0);
	add(&list, NULL, 0xb000, 0xa000, 0);
	/* of the file's pages the first lies below */
	add(&list, &code, 0x8000, 0x3a000, 0x20000);
	expect_list(&list, "1000-5000\n5000-9000\n9000-3a000 100..103\n");
	cr_expect_eq(list.list[2].bias, 0x8000 - 0x21000);
	mapping_list__clear(&list);
}

Test(unwind_sets, addresses_beyond_the_bound)
{
	struct mapping_list list = {.count = 0};

	add(&list, NULL, 0x7ffffffff000 - 0x1000, 0x7ffffffff000, 0);
	add(&list, NULL, 0x7ffffffff000, 0x800000000000, 0);
	add(&list, NULL, 0xffffffffff600000, 0xffffffffff601000, 0);
	add(&list, NULL, 1, UINT64_MAX, UINT64_MAX);
	expect_list(&list, "7fffffffe000-7ffffffff000\n");
	mapping_list__clear(&list);
}

Test(unwind_sets, mappings_beyond_the_bound)
{
	struct mapping_list list = {.count = 0};

	for (uint64_t i = 0; i <= PERFX_UNWIND_MAPPINGS_MAX; i++)
		add(&list, NULL, 0x1000 * (2 * i + 1), 0x1000 * (2 * i + 2), 0);
	cr_expect_eq(list.count, PERFX_UNWIND_MAPPINGS_MAX);
	cr_expect_eq(list.list[list.count - 1].start, 0x1000 * (2 * PERFX_UNWIND_MAPPINGS_MAX - 1));
	mapping_list__clear(&list);
}

Test(unwind_sets, equal_lists)
{
	struct code_pages code = library();
	struct mapping_list one = {.count = 0}, other = {.count = 0}, empty = {.count = 0};

	add(&one, &code, 0x40000, 0x60000, 0x20000);
	add(&other, &code, 0x40000, 0x60000, 0x20000);
	cr_expect(mapping_list__equal(&one, &other));
	cr_expect(mapping_list__has(&other, &one.list[0]));
	cr_expect_not(mapping_list__has(&empty, &one.list[0]));
	cr_expect(mapping_list__equal(&empty, &empty));
	cr_expect_not(mapping_list__equal(&one, &empty));
	cr_expect_not(mapping_list__equal(&empty, &one));
	add(&other, NULL, 0x70000, 0x71000, 0);
	cr_expect_not(mapping_list__equal(&one, &other));
	mapping_list__clear(&one);
	/* the same addresses, from elsewhere in the file */
	add(&one, &code, 0x40000, 0x60000, 0x21000);
	add(&one, NULL, 0x70000, 0x71000, 0);
	cr_expect_not(mapping_list__has(&other, &one.list[0]));
	cr_expect(mapping_list__has(&other, &one.list[1]));
	cr_expect_not(mapping_list__equal(&one, &other));
	mapping_list__clear(&one);
	mapping_list__clear(&other);
}

static struct unwind_sets *sets;

static void new_sets(void)
{
	sets = unwind_sets__new();
	cr_assert_not_null(sets);
}

static void free_sets(void)
{
	unwind_sets__free(sets);
}

/* The slot where the process's mappings are now, `count` from an address on; *unused as of
 * unwind_sets__put. */
static uint32_t put(pid_t pid, uint64_t start, size_t count, uint32_t *unused)
{
	uint32_t slot = unwind_sets__free_slot(sets);
	struct mapping_list list = {.count = 0};

	for (size_t i = 0; i < count; i++)
		add(&list, NULL, start + 0x2000 * i, start + 0x2000 * i + 0x1000, 0);
	cr_assert_neq(slot, UNWIND_SLOT_NONE);
	cr_assert_eq(unwind_sets__put(sets, pid, slot, &list, unused), 0);
	cr_expect_null(list.list);
	cr_expect_eq(unwind_sets__slot(sets, pid), slot);
	return slot;
}

Test(unwind_sets, what_the_programs_are_told, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, slot = put(10, 0x400000, 3, &unused);
	struct perfx_unwind_process process = unwind_sets__process(sets, slot);

	cr_expect_eq(unused, UNWIND_SLOT_NONE);
	cr_expect_eq(process.set, slot);
	cr_expect_eq(process.mappings_count, 3);
	cr_expect_eq(process.lowest, 0x400000);
	cr_expect_eq(process.highest, 0x405000);
	cr_expect_eq(unwind_sets__list(sets, slot)->list[1].start, 0x402000);
	cr_expect_eq(unwind_sets__slot(sets, 11), UNWIND_SLOT_NONE);
}

/* Addresses that mean what they meant keep their generation, and so their rules in the cache. */
Test(unwind_sets, mapped_again, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, first = put(10, 0x400000, 3, &unused), more, less;
	uint32_t generation = unwind_sets__process(sets, first).generation;

	more = put(10, 0x400000, 4, &unused);
	cr_expect_eq(unused, first);
	cr_expect_eq(unwind_sets__process(sets, more).generation, generation);
	less = put(10, 0x400000, 2, &unused);
	cr_expect_eq(unused, more);
	cr_expect_neq(unwind_sets__process(sets, less).generation, generation);
	cr_expect_neq(unwind_sets__process(sets, put(11, 0x400000, 2, &unused)).generation,
		      unwind_sets__process(sets, less).generation);
	cr_expect_eq(unused, UNWIND_SLOT_NONE);
}

/* A process that lives has its own for as long as it maps what it maps. */
Test(unwind_sets, generations_come_again, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, old = put(10, 0x400000, 3, &unused), again_count = 0;
	uint32_t generation = unwind_sets__process(sets, old).generation;

	for (uint32_t i = 0; i < 2 * PERFX_UNWIND_GENERATIONS; i++) {
		uint32_t slot = put(11, 0x400000, 1, &unused);

		cr_assert_neq(unwind_sets__process(sets, slot).generation, generation);
		again_count += unwind_sets__generations_again(sets);
		unwind_sets__forget(sets, 11);
	}
	cr_expect_eq(again_count, 2);
}

Test(unwind_sets, forks, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, parents = put(10, 0x400000, 3, &unused), childs;

	cr_assert_eq(unwind_sets__share(sets, 11, parents, &unused), 0);
	cr_expect_eq(unused, UNWIND_SLOT_NONE);
	cr_assert_eq(unwind_sets__share(sets, 12, parents, &unused), 0);
	/* said twice */
	cr_assert_eq(unwind_sets__share(sets, 12, parents, &unused), 0);
	cr_expect_eq(unused, UNWIND_SLOT_NONE);
	childs = put(11, 0x400000, 4, &unused);
	cr_expect_neq(childs, parents);
	cr_expect_eq(unused, UNWIND_SLOT_NONE);
	cr_expect_eq(unwind_sets__slot(sets, 12), parents);
	cr_expect_eq(unwind_sets__forget(sets, 10), UNWIND_SLOT_NONE);
	cr_expect_eq(unwind_sets__forget(sets, 10), UNWIND_SLOT_NONE);
	cr_expect_eq(unwind_sets__list(sets, parents)->count, 3);
	cr_expect_eq(unwind_sets__forget(sets, 12), parents);
	cr_expect_eq(unwind_sets__list(sets, parents)->count, 0);
	/* the pid is a new process's, which another one has forked */
	cr_assert_eq(unwind_sets__share(sets, 12, childs, &unused), 0);
	cr_expect_eq(unwind_sets__forget(sets, 11), UNWIND_SLOT_NONE);
	cr_expect_eq(unwind_sets__forget(sets, 12), childs);
}

Test(unwind_sets, slots_run_out, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, slot;
	bool taken[PERFX_UNWIND_SETS_MAX] = {false};

	for (pid_t pid = 1; pid <= PERFX_UNWIND_SETS_MAX; pid++) {
		slot = put(pid, 0x400000, 1, &unused);
		cr_assert_lt(slot, PERFX_UNWIND_SETS_MAX);
		cr_assert_not(taken[slot]);
		taken[slot] = true;
	}
	cr_expect_eq(unwind_sets__free_slot(sets), UNWIND_SLOT_NONE);
	slot = unwind_sets__forget(sets, 77);
	cr_expect_eq(unwind_sets__free_slot(sets), slot);
}

/* A slot that has become free is taken last. */
Test(unwind_sets, slots_in_turn, .init = new_sets, .fini = free_sets)
{
	uint32_t unused, first = put(1, 0x400000, 1, &unused);

	cr_assert_eq(unwind_sets__forget(sets, 1), first);
	for (size_t i = 1; i < PERFX_UNWIND_SETS_MAX; i++) {
		cr_assert_neq(put(2, 0x400000, 1, &unused), first);
		unwind_sets__forget(sets, 2);
	}
	cr_expect_eq(put(2, 0x400000, 1, &unused), first);
}
