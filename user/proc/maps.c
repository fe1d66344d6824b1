// SPDX-License-Identifier: BSD-2-Clause
/*
 * A line of /proc/PID/maps (fs/proc/task_mmu.c), path and all behind the inode being optional:
 *
 *	7f1c9a200000-7f1c9a228000 r-xp 00028000 08:01 1837    /usr/lib/libfoo.so (deleted)
 *
 * Of the path only newlines are escaped, as \012.
 */
#include "proc/maps.h"

#include "proc/proc.h"
#include "proc/process.h"
#include "proc/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct maps {
	char *text; /* the mappings' paths lie in it */
	struct mapping *mappings;
	size_t count;
};

static const char deleted_suffix[] = " (deleted)";

static void unescape_newlines(char *path)
{
	char *to = path;

	while (*path) {
		if (strncmp(path, "\\012", 4) == 0) {
			*to++ = '\n';
			path += 4;
		} else {
			*to++ = *path++;
		}
	}
	*to = '\0';
}

/* A file may really be called "x (deleted)"; that mistake only means a detour by map_files. */
static bool cut_deleted(char *path)
{
	size_t length = strlen(path), suffix = sizeof(deleted_suffix) - 1;

	if (path[0] != '/' || length <= suffix ||
	    strcmp(path + length - suffix, deleted_suffix) != 0)
		return false;
	path[length - suffix] = '\0';
	return true;
}

static bool parse_line(char *line, struct mapping *mapping)
{
	unsigned long long start, end, offset, inode;
	unsigned dev_major, dev_minor;
	char mode[5];
	int used = 0;
	char *path;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu%n", &start, &end, mode, &offset, &dev_major,
		   &dev_minor, &inode, &used) != 7 ||
	    strlen(mode) != 4 || start >= end)
		return false;
	path = line + used + strspn(line + used, " ");
	unescape_newlines(path);
	*mapping = (struct mapping){.start = start,
				    .end = end,
				    .file_offset = offset,
				    .inode = inode,
				    .dev_major = dev_major,
				    .dev_minor = dev_minor,
				    .readable = mode[0] == 'r',
				    .writable = mode[1] == 'w',
				    .executable = mode[2] == 'x',
				    .deleted = inode && cut_deleted(path),
				    .path = path};
	return true;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; (text = strchr(text, '\n')); text++)
		count++;
	return count + 1;
}

static int parse_text(struct maps *maps)
{
	char *line = maps->text, *end;

	maps->mappings = calloc(count_lines(maps->text), sizeof(*maps->mappings));
	if (!maps->mappings)
		return -ENOMEM;
	for (; *line; line = end) {
		end = strchrnul(line, '\n');
		if (*end)
			*end++ = '\0';
		if (!parse_line(line, &maps->mappings[maps->count]))
			return -EINVAL;
		maps->count++;
	}
	return 0;
}

/* Takes text over, also when it fails. */
static struct maps *maps_from(char *text)
{
	struct maps *maps = calloc(1, sizeof(*maps));
	int err = -ENOMEM;

	if (!maps) {
		free(text);
	} else {
		maps->text = text;
		err = text ? parse_text(maps) : -ENOMEM;
	}
	if (err) {
		maps__free(maps);
		errno = -err;
		return NULL;
	}
	return maps;
}

struct maps *maps__parse(const char *text, size_t size)
{
	return maps_from(strndup(text, size));
}

struct maps *maps__read(pid_t pid)
{
	ssize_t size;
	char *text;

	size = proc_read_pid(process_task(pid), "maps", &text, 0);
	if (size < 0) {
		errno = (int)-size;
		return NULL;
	}
	return maps_from(text);
}

void maps__free(struct maps *maps)
{
	if (!maps)
		return;
	free(maps->mappings);
	free(maps->text);
	free(maps);
}

size_t maps__count(const struct maps *maps)
{
	return maps->count;
}

const struct mapping *maps__at(const struct maps *maps, size_t index)
{
	return index < maps->count ? &maps->mappings[index] : NULL;
}

static int compare_address(const void *key, const void *element)
{
	const struct mapping *mapping = element;
	uint64_t address = *(const uint64_t *)key;

	if (address < mapping->start)
		return -1;
	return address >= mapping->end;
}

/* The kernel lists them in order of address. */
const struct mapping *maps__find(const struct maps *maps, uint64_t address)
{
	return bsearch(&address, maps->mappings, maps->count, sizeof(*maps->mappings),
		       compare_address);
}

static bool same_file(const struct module_ref *module, const struct mapping *mapping)
{
	return module->inode == mapping->inode && module->dev_major == mapping->dev_major &&
	       module->dev_minor == mapping->dev_minor;
}

static struct module_ref module_of(const struct mapping *mapping)
{
	const char *slash = strrchr(mapping->path, '/');

	return (struct module_ref){.inode = mapping->inode,
				   .dev_major = mapping->dev_major,
				   .dev_minor = mapping->dev_minor,
				   .deleted = mapping->deleted,
				   .map_start = mapping->start,
				   .map_end = mapping->end,
				   .path = mapping->path,
				   .base = slash ? slash + 1 : mapping->path};
}

ssize_t maps__modules(const struct maps *maps, struct module_ref **out)
{
	struct module_ref *modules = calloc(maps->count + 1, sizeof(*modules));
	size_t count = 0;

	if (!modules)
		return -ENOMEM;
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->mappings[i];
		size_t known = 0;

		if (!mapping->executable || !mapping->inode)
			continue;
		while (known < count && !same_file(&modules[known], mapping))
			known++;
		if (known == count)
			modules[count++] = module_of(mapping);
	}
	*out = modules;
	return (ssize_t)count;
}

/* btrfs and overlayfs give each subvolume or mount an anonymous device (major 0) in stat, and maps
 * shows another one: there the inode alone has to do. */
static bool is_the_file(int fd, const struct module_ref *module)
{
	struct stat status;

	if (fstat(fd, &status) < 0 || status.st_ino != module->inode)
		return false;
	if (major(status.st_dev) == 0 || module->dev_major == 0)
		return true;
	return major(status.st_dev) == module->dev_major &&
	       minor(status.st_dev) == module->dev_minor;
}

/* Takes fd over: the descriptor again, or -errno. */
static int only_the_file(int fd, const struct module_ref *module)
{
	if (fd < 0 || is_the_file(fd, module))
		return fd;
	close(fd);
	return -ESTALE;
}

static int open_proc(pid_t pid, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return rootfs_open("", path);
}

int module_open(pid_t pid, const struct module_ref *module)
{
	char name[80], root[64];
	int fd;

	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)module->map_start,
		 (unsigned long long)module->map_end);
	fd = only_the_file(open_proc(pid, name), module);
	if (fd >= 0)
		return fd;
	fd = only_the_file(open_proc(pid, "exe"), module);
	if (fd >= 0)
		return fd;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	fd = only_the_file(rootfs_open(root, module->path), module);
	return fd == -ENOENT && access(root, F_OK) != 0 ? -ESRCH : fd;
}
