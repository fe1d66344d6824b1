// SPDX-License-Identifier: BSD-2-Clause
#include "elf/file_cache.h"

#include "base/grow.h"
#include "proc/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cached_file {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	int fd;	       /* -1: not held */
	bool left_out; /* there were too many */
	uint32_t root;
	uint32_t next; /* another file with this inode number; FILE_CACHE_NONE */
	const char *path;
};

struct cached_root {
	int fd;
	dev_t device;
	ino_t inode;
};

struct file_cache {
	struct cached_file *files;
	size_t count, room, open_count, left_out_count;
	struct map64 by_inode; /* inode → first in the chain */
	struct cached_root *roots;
	size_t roots_count, roots_capacity;
	struct pool paths;
};

struct file_cache *file_cache__new(void)
{
	return calloc(1, sizeof(struct file_cache));
}

void file_cache__free(struct file_cache *files)
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

uint32_t file_cache__root(struct file_cache *files, pid_t pid)
{
	struct stat status;
	char path[64];
	uint32_t root;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)process_task(pid));
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return FILE_CACHE_NONE;
	if (fstat(fd, &status))
		goto fail;
	for (root = 0; root < files->roots_count; root++)
		if (files->roots[root].inode == status.st_ino &&
		    files->roots[root].device == status.st_dev)
			break;
	if (root < files->roots_count) {
		close(fd);
		return root;
	}
	if (root < FILE_CACHE_ROOTS_MAX &&
	    !LIST_ADD(files->roots, (struct cached_root){.fd = fd,
							 .device = status.st_dev,
							 .inode = status.st_ino}))
		return root;
fail:
	close(fd);
	return FILE_CACHE_NONE;
}

static uint32_t find_file(const struct file_cache *files, const struct mapping *mapping,
			  uint32_t *last)
{
	uint32_t at = map64_get(&files->by_inode, mapping->inode);

	*last = FILE_CACHE_NONE;
	for (; at != FILE_CACHE_NONE; at = files->files[at].next) {
		/* While a file is held its inode number is not reused. */
		if (files->files[at].dev_major == mapping->dev_major &&
		    files->files[at].dev_minor == mapping->dev_minor &&
		    (files->files[at].fd >= 0 || strcmp(files->files[at].path, mapping->path) == 0))
			return at;
		*last = at;
	}
	return FILE_CACHE_NONE;
}

uint32_t file_cache__add(struct file_cache *files, pid_t pid, uint32_t root,
			 const struct mapping *mapping)
{
	uint32_t last, index = find_file(files, mapping, &last);
	struct module_ref module = module_of(mapping);
	struct cached_file *file;

	if (index == FILE_CACHE_NONE) {
		if (grow_array(&files->files, &files->room, files->count + 1,
			       sizeof(*files->files)))
			return FILE_CACHE_NONE;
		index = (uint32_t)files->count;
		file = &files->files[index];
		*file = (struct cached_file){.inode = mapping->inode,
					     .dev_major = mapping->dev_major,
					     .dev_minor = mapping->dev_minor,
					     .fd = -1,
					     .root = root,
					     .next = FILE_CACHE_NONE,
					     .path = pool_add(&files->paths, mapping->path)};
		if (!file->path)
			return FILE_CACHE_NONE;
		if (last != FILE_CACHE_NONE)
			files->files[last].next = index;
		else if (map64_put(&files->by_inode, mapping->inode, index))
			return FILE_CACHE_NONE;
		files->count++;
	}
	file = &files->files[index];
	if (file->fd >= 0)
		return index;
	if (files->open_count == FILE_CACHE_FILES_MAX) {
		files->left_out_count += !file->left_out;
		file->left_out = true;
		return index;
	}
	/* also a file that could not be opened before: another process may let us */
	file->fd = module_open(pid, &module);
	file->root = root;
	files->open_count += file->fd >= 0;
	return index;
}

bool file_cache__same(const struct file_cache *files, uint32_t a, uint32_t b)
{
	const struct cached_file *left = &files->files[a], *right = &files->files[b];

	if (a == b || a == FILE_CACHE_NONE || b == FILE_CACHE_NONE)
		return a == b;
	return (left->dev_major != right->dev_major || left->dev_minor != right->dev_minor) &&
	       strcmp(left->path, right->path) == 0;
}

size_t file_cache__left_out(const struct file_cache *files)
{
	return files->left_out_count;
}

const char *file_cache__path(const struct file_cache *files, uint32_t file)
{
	return files->files[file].path;
}

struct root_path file_cache__root_path(const struct file_cache *files, uint32_t root)
{
	struct root_path path = {"/proc/self/fd/none"}; /* nothing is found there */

	if (root != FILE_CACHE_NONE)
		snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", files->roots[root].fd);
	return path;
}

struct image *file_cache__image(const struct file_cache *files, uint32_t file)
{
	const struct cached_file *cached = &files->files[file];

	if (cached->fd < 0)
		return NULL;
	return image__open(cached->fd, cached->path,
			   file_cache__root_path(files, cached->root).text);
}
