// SPDX-License-Identifier: BSD-2-Clause
#include "attach/sharing.h"

#include "proc/process.h"

#include <stdlib.h>

static bool is_of(const struct mapping *mapping, const struct plan_module *module)
{
	return mapping->inode == module->inode && mapping->dev_major == module->dev_major &&
	       mapping->dev_minor == module->dev_minor;
}

/* Notes which files are mapped; returns how many of them were not known to be. */
static size_t note_shared(const struct maps *maps, const struct plan *plan, struct sharing *files,
			  size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (!mapping->executable || !mapping->inode)
			continue;
		for (size_t k = 0; k < count; k++) {
			if (files[k].shared || !is_of(mapping, &plan->modules[files[k].module]))
				continue;
			files[k].shared = true;
			found++;
		}
	}
	return found;
}

static int compare_pids(const void *left, const void *right)
{
	const pid_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static pid_t *sorted(const pid_t *pids, size_t count)
{
	pid_t *copy = calloc(count + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < count; i++)
		copy[i] = pids[i];
	if (copy)
		qsort(copy, count, sizeof(*copy), compare_pids);
	return copy;
}

size_t sharing_find(const struct plan *plan, const pid_t *members, size_t members_count,
		    struct sharing *files, size_t count)
{
	pid_t *all = NULL, *traced = sorted(members, members_count);
	ssize_t processes = traced ? process_list(&all) : 0;
	size_t unknown = count, read_count = 0;

	for (ssize_t i = 0; unknown && i < processes; i++) {
		struct maps *maps;

		if (bsearch(&all[i], traced, members_count, sizeof(*traced), compare_pids))
			continue;
		maps = maps__read(all[i]);
		read_count++;
		if (maps)
			unknown -= note_shared(maps, plan, files, count);
		maps__free(maps);
	}
	free(all);
	free(traced);
	return read_count;
}
