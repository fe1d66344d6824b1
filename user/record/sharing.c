// SPDX-License-Identifier: BSD-2-Clause
#include "record/probes.h"
#include "target/process.h"

#include <stdlib.h>

static bool maps_module(pid_t pid, const struct plan_module *module)
{
	struct maps *maps = maps__read(pid);
	bool found = false;

	for (size_t i = 0; maps && !found && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		found = mapping->executable && mapping->inode == module->inode &&
			mapping->dev_major == module->dev_major &&
			mapping->dev_minor == module->dev_minor;
	}
	maps__free(maps);
	return found;
}

static bool is_member(pid_t pid, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

bool module_is_shared(const struct plan_module *module, const pid_t *pids, size_t pids_count)
{
	pid_t *all;
	ssize_t count = process_find(NULL, &all);
	bool shared = false;

	for (ssize_t i = 0; !shared && i < count; i++)
		shared = !is_member(all[i], pids, pids_count) && maps_module(all[i], module);
	if (count >= 0)
		free(all);
	return shared;
}
