// SPDX-License-Identifier: BSD-2-Clause
#include "session/follow_internal.h"

#include "base/grow.h"
#include "proc/process.h"

#include <stdlib.h>
#include <string.h>

#define EARLY_MAX 4096

void early_files_add(struct early_files *early, const struct new_mapping *mapping)
{
	if (early->files_count == EARLY_MAX || GROW_BY_ONE(early->files))
		return;
	early->files[early->files_count++] =
		(struct early_file){.pid = mapping->pid,
				    .dev_major = mapping->mapping.dev_major,
				    .dev_minor = mapping->mapping.dev_minor,
				    .inode = mapping->mapping.inode,
				    .path = strdup(mapping->mapping.path)};
}

static ssize_t planned_module(const struct plan *plan, const struct early_file *file)
{
	return plan__find(plan, file->inode, file->dev_major, file->dev_minor);
}

void early_files_attach(const struct early_files *early, struct plan *plan, struct probes *probes)
{
	FOR_EACH (file, early->files) {
		ssize_t module = planned_module(plan, file);

		if (module < 0 && file->path && process_has_ended(file->pid) &&
		    plan__add_file(plan, file->path, file->inode) >= 0)
			module = planned_module(plan, file);
		if (module >= 0 && plan->modules[module].is_ml)
			probes__attach(probes, (size_t)module, 0, 0, true);
	}
	probes__open(probes);
}

int early_files_are_ml(const struct early_files *early, const struct plan *plan, pid_t pid)
{
	int found = 0;

	for (size_t i = 0; i < early->files_count; i++) {
		ssize_t module = planned_module(plan, &early->files[i]);

		if (early->files[i].pid != pid)
			continue;
		if (module < 0)
			found = -1;
		else if (plan->modules[module].is_ml)
			return 1;
	}
	return found;
}

void early_files_forget(struct early_files *early, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < early->files_count; i++) {
		if (early->files[i].pid == pid)
			free(early->files[i].path);
		else
			early->files[kept++] = early->files[i];
	}
	early->files_count = kept;
}

void early_files_clear(struct early_files *early)
{
	for (size_t i = 0; i < early->files_count; i++)
		free(early->files[i].path);
	free(early->files);
	*early = (struct early_files){0};
}
