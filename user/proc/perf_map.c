// SPDX-License-Identifier: BSD-2-Clause
#include "proc/perf_map.h"

#include "base/grow.h"
#include "base/order.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct code {
	uint64_t start, end; /* the start first, for compare_u64() */
	const char *name;    /* in the text */
};

struct perf_map {
	char path[64];
	char *text;
	struct code *list; /* in order of start */
	size_t count, capacity;
};

/* Lines at most, and bytes of a name. */
#define CODES_MAX      (1u << 20)
#define NAME_BYTES_MAX 512

static int open_map(const char *root, const char *name, uid_t owner)
{
	struct stat status;
	int folder = rootfs_directory(root, "/tmp"), fd, err = 0;

	if (folder < 0)
		return folder;
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		err = -errno;
	else if (fstat(fd, &status))
		err = -errno;
	else if (!S_ISREG(status.st_mode) || (status.st_uid != owner && status.st_uid))
		err = -EPERM;
	close(folder);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Cuts the line at *at off the text. False: it is no code's. */
static bool read_line(char **at, struct code *code)
{
	char *end = strchrnul(*at, '\n'), *rest;
	uint64_t size;

	if (*end)
		*end++ = '\0';
	code->start = strtoull(*at, &rest, 16);
	size = *rest == ' ' ? strtoull(rest, &rest, 16) : 0;
	code->name = *rest == ' ' ? rest + 1 : "";
	*at = end;
	if (strnlen(code->name, NAME_BYTES_MAX) == NAME_BYTES_MAX)
		rest[1 + NAME_BYTES_MAX] = '\0';
	return size && code->name[0] && !__builtin_add_overflow(code->start, size, &code->end);
}

struct perf_map *perf_map__read(const char *root, pid_t own_pid, uid_t owner)
{
	struct perf_map *map = calloc(1, sizeof(*map));
	struct code code;
	int fd, err;
	char *at;

	if (!map)
		return NULL;
	snprintf(map->path, sizeof(map->path), "/tmp/perf-%d.map", (int)own_pid);
	fd = open_map(root, strrchr(map->path, '/') + 1, owner);
	if (fd < 0) {
		err = fd;
		goto fail;
	}
	err = (int)proc_read_fd(fd, &map->text, PERF_MAP_BYTES_MAX);
	close(fd);
	if (err < 0)
		goto fail;
	for (at = map->text; *at && map->count < CODES_MAX;) {
		if (!read_line(&at, &code))
			continue;
		err = LIST_ADD_TO(map, code);
		if (err)
			goto fail;
	}
	SORT_ITEMS(map->list, map->count, compare_u64);
	return map;
fail:
	perf_map__free(map);
	errno = -err;
	return NULL;
}

void perf_map__free(struct perf_map *map)
{
	if (!map)
		return;
	free(map->list);
	free(map->text);
	free(map);
}

const char *perf_map__path(const struct perf_map *map)
{
	return map->path;
}

/* Code overlaps where it was replaced: a few entries further back are compared, too. */
#define OVERLAPPING 64

const char *perf_map__name(const struct perf_map *map, uint64_t address)
{
	size_t behind = PARTITION_POINT(i, map->count, map->list[i].start <= address);
	const char *name = NULL;

	for (size_t i = 0; behind-- > 0 && i < OVERLAPPING; i++) {
		const struct code *code = &map->list[behind];

		if (address >= code->end)
			continue;
		if (name && strcmp(name, code->name))
			return NULL;
		name = code->name;
	}
	return name;
}
