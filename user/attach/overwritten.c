// SPDX-License-Identifier: BSD-2-Clause
#include "attach/overwritten.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Of an instruction and what follows it. */
#define CODE_BYTES 16

struct file_watch {
	int fd;
	size_t watched_count; /* of the plan's modules */
};

struct file_watch *file_watch__new(void)
{
	struct file_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->fd >= 0)
		return watch;
	free(watch);
	return NULL;
}

void file_watch__free(struct file_watch *watch)
{
	if (!watch)
		return;
	close(watch->fd);
	free(watch);
}

int file_watch__fd(const struct file_watch *watch)
{
	return watch ? watch->fd : -1;
}

void file_watch__follow(struct file_watch *watch, const struct plan *plan)
{
	char path[64];

	for (; watch && watch->watched_count < plan->modules_count; watch->watched_count++) {
		int fd = plan->modules[watch->watched_count].fd;

		if (fd < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		/* where it is refused (too many watches), changes are found later */
		(void)inotify_add_watch(watch->fd, path, IN_MODIFY);
	}
}

void file_watch__take(struct file_watch *watch)
{
	char events[4096];

	while (watch && read(watch->fd, events, sizeof(events)) > 0)
		;
}

/* Where a byte of the file is in the process; 0: nowhere. */
static uint64_t address_of(const struct maps *maps, const struct plan_module *module,
			   uint64_t offset)
{
	for (size_t i = 0; i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->executable && mapping->inode == module->inode &&
		    mapping->dev_major == module->dev_major &&
		    mapping->dev_minor == module->dev_minor && offset >= mapping->file_offset &&
		    offset - mapping->file_offset < mapping->end - mapping->start)
			return mapping->start + (offset - mapping->file_offset);
	}
	return 0;
}

static bool holds_code(int memory_fd, const struct maps *maps, const struct plan_module *module,
		       uint64_t offset)
{
	uint64_t address = address_of(maps, module, offset);
	char there[CODE_BYTES] = {0}, here[CODE_BYTES] = {0};

	return address && pread(memory_fd, there, sizeof(there), (off_t)address) == sizeof(there) &&
	       pread(module->fd, here, sizeof(here), (off_t)offset) == sizeof(here) &&
	       !memcmp(there, here, sizeof(here));
}

bool process_holds(pid_t pid, const struct plan *plan, size_t module)
{
	const struct plan_module *planned = &plan->modules[module];
	struct maps *maps = maps__read(pid);
	char path[32];
	bool same;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	same = maps && fd >= 0;
	for (size_t i = 0; same && i < planned->functions_count; i++)
		same = holds_code(fd, maps, planned,
				  plan->functions[planned->functions_first + i].offset);
	if (fd >= 0)
		close(fd);
	maps__free(maps);
	return same;
}
