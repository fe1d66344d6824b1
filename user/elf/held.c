// SPDX-License-Identifier: BSD-2-Clause
#include "elf/held.h"

#include "base/grow.h"
#include "base/map64.h"
#include "proc/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct held_file {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	int fd; /* -1: not held */
	uint32_t root;
	uint32_t next; /* another file with this inode number; HELD_NONE */
	const char *path;
};

struct held_root {
	int fd;
	dev_t device;
	ino_t inode;
};

struct held_files {
	struct held_file *files;
	size_t count, room, open_count;
	struct map64 by_inode; /* inode → first in the chain */
	struct held_root *roots;
	size_t roots_count, roots_room;
	struct pool paths;
};

struct held_files *held_files__new(void)
{
	return calloc(1, sizeof(struct held_files));
}

void held_files__free(struct held_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->count; i++)
		if (files->files[i].fd >= 0)
			close(files->files[i].fd);
	for (size_t i = 0; i < files->roots_count; i++)
		close(files->roots[i].fd);
	free(files->files);
	free(files->roots);
	map64_clear(&files->by_inode);
	pool_clear(&files->paths);
	free(files);
}

/* --- roots --- */

static uint32_t find_root(const struct held_files *files, const struct stat *status)
{
	for (size_t i = 0; i < files->roots_count; i++)
		if (files->roots[i].inode == status->st_ino &&
		    files->roots[i].device == status->st_dev)
			return (uint32_t)i;
	return HELD_NONE;
}

uint32_t held_files__root(struct held_files *files, pid_t pid)
{
	struct stat status;
	char path[64];
	uint32_t root;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)process_task(pid));
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return HELD_NONE;
	root = fstat(fd, &status) ? HELD_NONE : find_root(files, &status);
	if (root != HELD_NONE || files->roots_count == HELD_ROOTS_MAX ||
	    grow_array(&files->roots, &files->roots_room, files->roots_count + 1,
		       sizeof(*files->roots))) {
		close(fd);
		return root;
	}
	files->roots[files->roots_count] =
		(struct held_root){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
	return (uint32_t)files->roots_count++;
}

/* --- files --- */

/* While a file is held nobody else can get its inode number. */
static bool is_same(const struct held_file *file, const struct mapping *mapping)
{
	return file->dev_major == mapping->dev_major && file->dev_minor == mapping->dev_minor &&
	       (file->fd >= 0 || strcmp(file->path, mapping->path) == 0);
}

static uint32_t find_file(const struct held_files *files, const struct mapping *mapping,
			  uint32_t *last)
{
	uint32_t at = map64_get(&files->by_inode, mapping->inode);

	*last = HELD_NONE;
	for (; at != HELD_NONE; at = files->files[at].next) {
		if (is_same(&files->files[at], mapping))
			return at;
		*last = at;
	}
	return HELD_NONE;
}

/* A file that could not be opened before gets another chance: this process may let us. */
static void hold(struct held_files *files, struct held_file *file, pid_t pid, uint32_t root,
		 const struct mapping *mapping)
{
	struct module_ref module = {.inode = mapping->inode,
				    .dev_major = mapping->dev_major,
				    .dev_minor = mapping->dev_minor,
				    .deleted = mapping->deleted,
				    .map_start = mapping->start,
				    .map_end = mapping->end,
				    .path = mapping->path,
				    .base = mapping->path};

	if (file->fd >= 0 || files->open_count == HELD_FILES_MAX)
		return;
	file->fd = module_open(pid, &module);
	file->root = root;
	if (file->fd >= 0)
		files->open_count++;
}

uint32_t held_files__add(struct held_files *files, pid_t pid, uint32_t root,
			 const struct mapping *mapping)
{
	uint32_t last, index = find_file(files, mapping, &last);
	struct held_file *file;

	if (index == HELD_NONE) {
		if (grow_array(&files->files, &files->room, files->count + 1,
			       sizeof(*files->files)))
			return HELD_NONE;
		index = (uint32_t)files->count;
		file = &files->files[index];
		*file = (struct held_file){.inode = mapping->inode,
					   .dev_major = mapping->dev_major,
					   .dev_minor = mapping->dev_minor,
					   .fd = -1,
					   .root = root,
					   .next = HELD_NONE,
					   .path = pool_add(&files->paths, mapping->path)};
		if (!file->path)
			return HELD_NONE;
		if (last != HELD_NONE)
			files->files[last].next = index;
		else if (map64_put(&files->by_inode, mapping->inode, index))
			return HELD_NONE;
		files->count++;
	}
	hold(files, &files->files[index], pid, root, mapping);
	return index;
}

const char *held_files__path(const struct held_files *files, uint32_t file)
{
	return files->files[file].path;
}

struct image *held_files__image(const struct held_files *files, uint32_t file)
{
	const struct held_file *held = &files->files[file];
	char root[64] = "/proc/self/fd/none"; /* nothing is found there */

	if (held->fd < 0)
		return NULL;
	if (held->root != HELD_NONE)
		snprintf(root, sizeof(root), "/proc/self/fd/%d", files->roots[held->root].fd);
	return image__open(held->fd, held->path, root);
}
