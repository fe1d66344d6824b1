// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_sets.h"

#include "base/grow.h"
#include "base/order.h"

#include <errno.h>
#include <stdlib.h>

/* The mappings of a process; relatives share them. */
struct mapping_set {
	size_t users; /* 0: a free slot */
	uint32_t generation;
	struct mapping_list list;
};

struct set_user {
	pid_t pid;
	uint32_t slot;
};

struct unwind_sets {
	struct mapping_set sets[PERFX_UNWIND_SETS_MAX];
	uint32_t last_slot;
	uint32_t last_generation;
	bool generations_again; /* since it was asked for last */
	struct set_user *users;
	size_t users_count, users_capacity;
};

void code_pages__add_segment(struct code_pages *code, uint64_t vaddr, uint64_t size,
			     uint64_t offset)
{
	if (code->segments_count == CODE_SEGMENTS_MAX || !size || vaddr + (size - 1) < vaddr)
		return;
	code->segments[code->segments_count++] =
		(struct code_segment){.vaddr = vaddr, .size = size, .offset = offset};
}

/* First and last page of all segments, of which there are some. */
static void find_pages(const struct code_pages *code, uint64_t *first, uint64_t *last)
{
	*first = UINT64_MAX;
	*last = 0;
	for (size_t i = 0; i < code->segments_count; i++) {
		const struct code_segment *segment = &code->segments[i];
		uint64_t low = segment->vaddr / UNWIND_PAGE_BYTES;
		uint64_t high = (segment->vaddr + (segment->size - 1)) / UNWIND_PAGE_BYTES;

		*first = low < *first ? low : *first;
		*last = high > *last ? high : *last;
	}
}

uint64_t code_pages__needed(const struct code_pages *code)
{
	uint64_t first, last;

	if (!code->segments_count)
		return 0;
	find_pages(code, &first, &last);
	return last - first + 1;
}

void code_pages__place(struct code_pages *code, uint32_t first_page)
{
	uint64_t last;

	find_pages(code, &code->first_vaddr_page, &last);
	code->first_page = first_page;
	code->pages_count = (uint32_t)(last - code->first_vaddr_page + 1);
}

uint64_t code_pages__vaddr(const struct code_pages *code, uint32_t page)
{
	return (code->first_vaddr_page + page - code->first_page) * UNWIND_PAGE_BYTES;
}

/* Which pages its addresses are in: all must be the file's, so one that begins before or ends
 * behind them has no table. */
static void find_table(struct perfx_unwind_mapping *added, const struct code_pages *code,
		       const struct mapping *mapping)
{
	const uint64_t from = mapping->file_offset, to = from + (mapping->end - mapping->start);
	const struct code_segment *segment = NULL;
	uint64_t most = 0, bias, first, last;

	/* the segment that the mapping shows most of: neighbours may share a page of the file */
	for (size_t i = 0; i < code->segments_count; i++) {
		const struct code_segment *other = &code->segments[i];
		uint64_t low = max_u64(other->offset, from);
		uint64_t high = min_u64(other->offset + other->size, to);

		if (high <= low || high - low <= most)
			continue;
		most = high - low;
		segment = other;
	}
	if (!segment)
		return;
	bias = mapping->start - mapping->file_offset + segment->offset - segment->vaddr;
	first = (added->start - bias) / UNWIND_PAGE_BYTES;
	last = (added->end - 1 - bias) / UNWIND_PAGE_BYTES;
	if (first > last || first < code->first_vaddr_page ||
	    last - code->first_vaddr_page >= code->pages_count)
		return;
	added->bias = bias;
	added->pages_base = code->first_page - (uint32_t)code->first_vaddr_page;
	added->has_pages = 1;
}

int mapping_list__add(struct mapping_list *list, const struct code_pages *code,
		      const struct mapping *mapping)
{
	struct perfx_unwind_mapping added = {.start = mapping->start, .end = mapping->end};

	/* one that grew while the list was read may come twice */
	if (list->count)
		added.start = max_u64(added.start, list->list[list->count - 1].end);
	if (list->count == PERFX_UNWIND_MAPPINGS_MAX || added.start >= added.end ||
	    added.end >> PERFX_UNWIND_ADDRESS_BITS)
		return 0;
	if (code)
		find_table(&added, code, mapping);
	return LIST_ADD_TO(list, added);
}

void mapping_list__clear(struct mapping_list *list)
{
	free(list->list);
	*list = (struct mapping_list){0};
}

ORDER(compare_starts, struct perfx_unwind_mapping, ASCENDING(a->start, b->start))

bool mapping_list__has(const struct mapping_list *list, const struct perfx_unwind_mapping *mapping)
{
	const struct perfx_unwind_mapping *found =
		list->count ? bsearch(mapping, list->list, list->count, sizeof(*mapping),
				      compare_starts)
			    : NULL;

	return found && found->end == mapping->end && found->bias == mapping->bias &&
	       found->pages_base == mapping->pages_base && found->has_pages == mapping->has_pages;
}

/* Are all mappings of a list in the other one, too? */
static bool is_within(const struct mapping_list *list, const struct mapping_list *other)
{
	for (size_t i = 0; i < list->count; i++)
		if (!mapping_list__has(other, &list->list[i]))
			return false;
	return true;
}

bool mapping_list__equal(const struct mapping_list *a, const struct mapping_list *b)
{
	return a->count == b->count && is_within(a, b);
}

uint32_t mapping_page(const struct perfx_unwind_mapping *mapping, uint64_t address)
{
	return mapping->pages_base + (uint32_t)((address - mapping->bias) / UNWIND_PAGE_BYTES);
}

struct unwind_sets *unwind_sets__new(void)
{
	return calloc(1, sizeof(struct unwind_sets));
}

void unwind_sets__free(struct unwind_sets *sets)
{
	if (!sets)
		return;
	for (size_t i = 0; i < PERFX_UNWIND_SETS_MAX; i++)
		mapping_list__clear(&sets->sets[i].list);
	free(sets->users);
	free(sets);
}

static struct set_user *find_user(const struct unwind_sets *sets, pid_t pid)
{
	FOR_EACH (user, sets->users)
		if (user->pid == pid)
			return user;
	return NULL;
}

uint32_t unwind_sets__slot(const struct unwind_sets *sets, pid_t pid)
{
	const struct set_user *user = find_user(sets, pid);

	return user ? user->slot : UNWIND_SLOT_NONE;
}

const struct mapping_list *unwind_sets__list(const struct unwind_sets *sets, uint32_t slot)
{
	return &sets->sets[slot].list;
}

/* In turn: the walk of a waiting thread may sleep, and still uses its earlier slot. */
uint32_t unwind_sets__free_slot(const struct unwind_sets *sets)
{
	for (uint32_t i = 1; i <= PERFX_UNWIND_SETS_MAX; i++) {
		uint32_t slot = (sets->last_slot + i) % PERFX_UNWIND_SETS_MAX;

		if (!sets->sets[slot].users)
			return slot;
	}
	return UNWIND_SLOT_NONE;
}

/* The slot if it was its last user; else UNWIND_SLOT_NONE. */
static uint32_t leave(struct unwind_sets *sets, uint32_t slot)
{
	struct mapping_set *set = &sets->sets[slot];

	if (--set->users)
		return UNWIND_SLOT_NONE;
	mapping_list__clear(&set->list);
	return slot;
}

int unwind_sets__share(struct unwind_sets *sets, pid_t pid, uint32_t slot, uint32_t *unused)
{
	struct set_user *user = find_user(sets, pid);
	uint32_t old = user ? user->slot : UNWIND_SLOT_NONE;

	*unused = UNWIND_SLOT_NONE;
	if (!user && GROW_BY_ONE(sets->users))
		return -ENOMEM;
	if (!user)
		user = &sets->users[sets->users_count++];
	*user = (struct set_user){.pid = pid, .slot = slot};
	sets->sets[slot].users++;
	if (old != UNWIND_SLOT_NONE)
		*unused = leave(sets, old);
	return 0;
}

/* Code that keeps its place keeps its meaning in the cache of rules. */
static uint32_t choose_generation(struct unwind_sets *sets, uint32_t old,
				  const struct mapping_list *list)
{
	uint32_t generation;
	bool is_used;

	if (old != UNWIND_SLOT_NONE && is_within(&sets->sets[old].list, list))
		return sets->sets[old].generation;
	do {
		generation = ++sets->last_generation % PERFX_UNWIND_GENERATIONS;
		is_used = false;
		for (size_t i = 0; i < PERFX_UNWIND_SETS_MAX; i++)
			is_used |= sets->sets[i].users && sets->sets[i].generation == generation;
	} while (is_used);
	sets->generations_again |= sets->last_generation >= PERFX_UNWIND_GENERATIONS;
	sets->last_generation = generation;
	return generation;
}

bool unwind_sets__generations_again(struct unwind_sets *sets)
{
	bool again = sets->generations_again;

	sets->generations_again = false;
	return again;
}

int unwind_sets__put(struct unwind_sets *sets, pid_t pid, uint32_t slot, struct mapping_list *list,
		     uint32_t *unused)
{
	uint32_t generation = choose_generation(sets, unwind_sets__slot(sets, pid), list);
	int err = unwind_sets__share(sets, pid, slot, unused);

	if (err)
		return err;
	sets->sets[slot].generation = generation;
	sets->sets[slot].list = *list;
	*list = (struct mapping_list){0};
	sets->last_slot = slot;
	return 0;
}

uint32_t unwind_sets__forget(struct unwind_sets *sets, pid_t pid)
{
	struct set_user *user = find_user(sets, pid);
	uint32_t slot;

	if (!user)
		return UNWIND_SLOT_NONE;
	slot = user->slot;
	*user = sets->users[--sets->users_count];
	return leave(sets, slot);
}

struct perfx_unwind_process unwind_sets__process(const struct unwind_sets *sets, uint32_t slot)
{
	const struct mapping_set *set = &sets->sets[slot];

	return (struct perfx_unwind_process){.set = slot,
					     .mappings_count = (uint32_t)set->list.count,
					     .generation = set->generation,
					     .lowest = set->list.list[0].start,
					     .highest = set->list.list[set->list.count - 1].end};
}
