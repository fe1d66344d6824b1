// SPDX-License-Identifier: BSD-2-Clause
#include "session/views.h"

#include <stdlib.h>

struct view *view__new(struct held_files *files, pid_t pid, const struct maps *maps)
{
	uint32_t root = held_files__root(files, pid);
	size_t count = maps__count(maps), executable = 0;
	struct view *view;

	for (size_t i = 0; i < count; i++)
		executable += maps__at(maps, i)->executable;
	view = calloc(1, sizeof(*view) + executable * sizeof(view->spans[0]));
	if (!view)
		return NULL;
	view->users = 1;
	for (size_t i = 0; i < count; i++) {
		const struct mapping *mapping = maps__at(maps, i);
		struct span span = {.start = mapping->start,
				    .end = mapping->end,
				    .offset = mapping->file_offset,
				    .file = HELD_NONE};

		if (!mapping->executable)
			continue;
		if (mapping->inode)
			span.file = held_files__add(files, pid, root, mapping);
		view->spans[view->count++] = span;
	}
	return view;
}

bool span_same(const struct span *a, const struct span *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->file == b->file;
}

bool view__same(const struct view *a, const struct view *b)
{
	if (!a || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!span_same(&a->spans[i], &b->spans[i]))
			return false;
	return true;
}

const struct span *view__find(const struct view *view, uint64_t at)
{
	size_t low = 0, high = view ? view->count : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at >= view->spans[middle].end)
			low = middle + 1;
		else if (at < view->spans[middle].start)
			high = middle;
		else
			return &view->spans[middle];
	}
	return NULL;
}

struct view *view__get(struct view *view)
{
	view->users++;
	return view;
}

void view__put(struct view *view)
{
	if (view && !--view->users)
		free(view);
}
