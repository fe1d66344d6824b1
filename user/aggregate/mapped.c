// SPDX-License-Identifier: BSD-2-Clause
/*
 * Mappings: intervals of which parts may go. They lie in a tree of tsearch(3), in the order of
 * their addresses; since none overlaps another, a comparison that calls overlapping ones equal
 * orders them, and a search finds one that overlaps what is searched for.
 */
#include "aggregate/aggregate.h"
#include "aggregate/memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

static int by_address(const void *left, const void *right)
{
	const struct mapping *a = left, *b = right;

	if (a->to <= b->from)
		return -1;
	return a->from >= b->to;
}

static struct mapping *find(const struct mapping_tree *tree, uint64_t from, uint64_t to)
{
	const struct mapping key = {.from = from, .to = to};
	struct mapping *const *node = tfind(&key, &tree->root, by_address);

	return node ? *node : NULL;
}

int mapped_add(struct memory *memory, struct mapping_tree *tree, const struct mapping *mapping)
{
	struct mapping *copy;

	if (memory->mappings_count >= AGGREGATE_MAPPINGS_MAX)
		return -ENOSPC;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *mapping;
	copy->rests = 0;
	copy->next = NULL;
	if (!tsearch(copy, &tree->root, by_address)) {
		free(copy);
		return -ENOMEM;
	}
	memory->mappings_count++;
	return 0;
}

/* The part [from, to) of a mapping stays behind. */
static int leave(struct memory *memory, struct mapping_tree *tree, struct mapping *mapping,
		 uint64_t from, uint64_t to)
{
	struct mapping rest = *mapping;
	int err;

	rest.from = from;
	rest.to = to;
	err = mapped_add(memory, tree, &rest);
	if (!err)
		mapping->rests++;
	return err;
}

/* Cuts off what reaches over [from, to). Without room for it the mapping goes as a whole. */
static int cut(struct memory *memory, struct mapping_tree *tree, struct mapping *mapping,
	       uint64_t from, uint64_t to)
{
	int err;

	if (mapping->from < from) {
		err = leave(memory, tree, mapping, mapping->from, from);
		if (err)
			return err;
		mapping->from = from;
	}
	if (mapping->to > to) {
		err = leave(memory, tree, mapping, to, mapping->to);
		if (err)
			return err;
		mapping->to = to;
	}
	return 0;
}

int mapped_take(struct memory *memory, struct mapping_tree *tree, uint64_t from, uint64_t to,
		struct mapping **list)
{
	struct mapping *mapping;
	int err = 0;

	*list = NULL;
	while ((mapping = find(tree, from, to))) {
		int cut_err;

		tdelete(mapping, &tree->root, by_address);
		mapping->next = *list;
		*list = mapping;
		cut_err = cut(memory, tree, mapping, from, to);
		if (!err)
			err = cut_err;
		if (err == -ENOMEM)
			break;
	}
	return err;
}

struct mapping *mapping_release(struct memory *memory, struct mapping *mapping)
{
	struct mapping *next = mapping->next;

	memory->mappings_count--;
	free(mapping);
	return next;
}

void mapped_clear(struct memory *memory, struct mapping_tree *tree)
{
	while (tree->root) {
		struct mapping *mapping = *(struct mapping **)tree->root;

		tdelete(mapping, &tree->root, by_address);
		mapping_release(memory, mapping);
	}
}

struct each {
	void (*each)(const struct mapping *mapping, void *arg);
	void *arg;
};

/* twalk calls three times for an inner node: in between is in order */
static void visit(const void *node, VISIT order, void *arg)
{
	const struct each *each = arg;

	if (order == postorder || order == leaf)
		each->each(*(struct mapping *const *)node, each->arg);
}

void mapped_each(const struct mapping_tree *tree,
		 void (*each)(const struct mapping *mapping, void *arg), void *arg)
{
	struct each closure = {each, arg};

	twalk_r(tree->root, visit, &closure);
}
