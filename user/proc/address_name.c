// SPDX-License-Identifier: BSD-2-Clause
#include "proc/address_name.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* The first mapping of the file to whose data an address belongs: what it has beyond the file, its
 * zeroed data, follows without a name. NULL: none. */
static const struct mapping *file_around(const struct maps *maps, const struct mapping *at)
{
	size_t count = maps__count(maps);

	for (size_t i = 0; i < count && !*at->path; i++)
		if (maps__at(maps, i)->end == at->start && maps__at(maps, i)->inode)
			at = maps__at(maps, i);
	for (size_t i = 0; i < count && at->inode; i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->inode == at->inode && mapping->dev_major == at->dev_major &&
		    mapping->dev_minor == at->dev_minor)
			return mapping;
	}
	return NULL;
}

static struct kept_maps *maps_with(struct address_names *names, pid_t pid, uint64_t address)
{
	struct kept_maps *kept = &names->kept[(unsigned)pid % KEPT_MAPS];
	uint64_t now_ns = clock_monotonic_ns();

	if (kept->pid != pid || !kept->maps || now_ns - kept->read_ns >= KEPT_MAPS_AGE_NS ||
	    !maps__find(kept->maps, address)) {
		maps__free(kept->maps);
		*kept = (struct kept_maps){pid, maps__read_around(pid, address), now_ns};
	}
	return kept;
}

const struct mapping *address_mapping(struct address_names *names, pid_t pid, uint64_t address)
{
	struct kept_maps *kept = maps_with(names, pid, address);

	return kept->maps ? maps__find(kept->maps, address) : NULL;
}

char *address_name(struct address_names *names, pid_t pid, uint64_t address)
{
	const struct kept_maps *kept = maps_with(names, pid, address);
	const struct mapping *at = kept->maps ? maps__find(kept->maps, address) : NULL;
	const struct mapping *file = at && !at->shared ? file_around(kept->maps, at) : NULL;
	unsigned long long number = address;
	const char *where = "";
	char *name;
	int length;

	if (at && at->shared)
		where = " (shared memory)";
	else if (at && !strcmp(at->path, "[heap]"))
		where = " (heap)";
	else if (at && !strcmp(at->path, "[stack]"))
		where = " (stack)";
	length = file ? asprintf(&name, "%s+0x%llx", base_name(file->path), number - file->start)
		      : asprintf(&name, "0x%llx%s", number, where);
	return length < 0 ? NULL : name;
}

void address_names__clear(struct address_names *names)
{
	for (size_t i = 0; i < KEPT_MAPS; i++)
		maps__free(names->kept[i].maps);
	*names = (struct address_names){0};
}
