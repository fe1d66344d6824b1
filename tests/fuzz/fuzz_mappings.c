// SPDX-License-Identifier: BSD-2-Clause
/* What processes map, for the unwinder: the code of some files, which may say anything of it, then
 * /proc/PID/maps of a process after the other, a NUL behind each. A mapping's inode says which file
 * it is of. Odd processes are forked from the one before. */
#include "fuzz.h"

#include "attach/unwind_sets.h"

#define PIDS 3 /* so that processes map anew */

struct input_file {
	struct code_segment segments[2];
};

static void make_code(struct code_pages codes[FUZZ_MAPPED_FILES], const struct input_file *files)
{
	uint32_t pages_count = 0;

	for (size_t i = 0; i < FUZZ_MAPPED_FILES; i++) {
		for (size_t k = 0; k < FUZZ_COUNT(files[i].segments); k++)
			code_pages__add_segment(&codes[i], files[i].segments[k].vaddr,
						files[i].segments[k].size,
						files[i].segments[k].offset);
		if (!code_pages__needed(&codes[i]) ||
		    code_pages__needed(&codes[i]) > PERFX_UNWIND_PAGES_MAX - pages_count)
			continue;
		code_pages__place(&codes[i], pages_count);
		pages_count += codes[i].pages_count;
	}
}

/* The file whose pages an address is in; all others are of no concern to it. */
static void check_address(const struct code_pages codes[FUZZ_MAPPED_FILES],
			  const struct perfx_unwind_mapping *mapping, uint64_t address,
			  size_t *file)
{
	uint32_t page = mapping_page(mapping, address);

	for (size_t i = 0; i < FUZZ_MAPPED_FILES; i++) {
		if (page - codes[i].first_page >= codes[i].pages_count)
			continue;
		if ((address - mapping->bias) / UNWIND_PAGE_BYTES !=
		    code_pages__vaddr(&codes[i], page) / UNWIND_PAGE_BYTES)
			abort();
		*file = i;
		return;
	}
	abort();
}

static void check_list(const struct code_pages codes[FUZZ_MAPPED_FILES],
		       const struct mapping_list *list)
{
	uint64_t behind = 0;

	if (list->count > PERFX_UNWIND_MAPPINGS_MAX)
		abort();
	for (size_t i = 0; i < list->count; i++) {
		const struct perfx_unwind_mapping *mapping = &list->list[i];
		size_t first, last;

		if (mapping->start < behind || mapping->end <= mapping->start ||
		    mapping->end >> PERFX_UNWIND_ADDRESS_BITS)
			abort();
		behind = mapping->end;
		if (!mapping->has_pages)
			continue;
		check_address(codes, mapping, mapping->start, &first);
		check_address(codes, mapping, mapping->end - 1, &last);
		if (first != last)
			abort();
	}
}

static struct mapping_list read_list(const struct code_pages codes[FUZZ_MAPPED_FILES],
				     const char *text)
{
	struct maps *maps = maps__parse(text, strlen(text));
	struct mapping_list list = {.count = 0};

	for (size_t i = 0; maps && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);
		const struct code_pages *code = &codes[mapping->inode % FUZZ_MAPPED_FILES];

		if (mapping->executable)
			mapping_list__add(&list, code->pages_count ? code : NULL, mapping);
	}
	maps__free(maps);
	check_list(codes, &list);
	return list;
}

/* What a process uses is there. */
static void check_process(const struct unwind_sets *sets, pid_t pid)
{
	uint32_t slot = unwind_sets__slot(sets, pid);
	struct perfx_unwind_process process;

	if (slot == UNWIND_SLOT_NONE)
		return;
	process = unwind_sets__process(sets, slot);
	if (process.set != slot || !process.mappings_count || process.lowest >= process.highest)
		abort();
}

static void take_process(struct unwind_sets *sets, pid_t pid, bool forked,
			 struct mapping_list *list)
{
	uint32_t parents = unwind_sets__slot(sets, pid == 1 ? PIDS : pid - 1), unused;

	if (forked && parents != UNWIND_SLOT_NONE)
		unwind_sets__share(sets, pid, parents, &unused);
	if (list->count)
		unwind_sets__put(sets, pid, unwind_sets__free_slot(sets), list, &unused);
	else
		unwind_sets__forget(sets, pid);
	for (pid_t other = 1; other <= PIDS; other++)
		check_process(sets, other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_pages codes[FUZZ_MAPPED_FILES] = {0};
	struct input_file files[FUZZ_MAPPED_FILES];
	struct unwind_sets *sets = unwind_sets__new();

	if (size < sizeof(files) || !sets)
		goto out;
	memcpy(files, data, sizeof(files));
	make_code(codes, files);
	for (size_t at = sizeof(files), number = 0; at < size; number++) {
		char *text = fuzz_text(data + at, size - at);
		struct mapping_list list = read_list(codes, text);

		at += strlen(text) + 1;
		free(text);
		take_process(sets, 1 + (pid_t)(number % PIDS), number & 1, &list);
		mapping_list__clear(&list);
	}
out:
	unwind_sets__free(sets);
	return 0;
}
