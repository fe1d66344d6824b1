// SPDX-License-Identifier: BSD-2-Clause
#include "base/cache.h"

#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *cache_path(const char *name)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	char *path = NULL;
	int length = -1;

	if (!geteuid())
		length = asprintf(&path, "/var/cache/perfx-trace/%s", name);
	else if (cache && *cache == '/')
		length = asprintf(&path, "%s/perfx-trace/%s", cache, name);
	else if (home && *home == '/')
		length = asprintf(&path, "%s/.cache/perfx-trace/%s", home, name);
	return length < 0 ? NULL : path;
}

/* May no other user write it? Root may write anything. */
static bool is_own(int fd, mode_t kind)
{
	struct stat status;

	return !fstat(fd, &status) && (status.st_mode & S_IFMT) == kind &&
	       (status.st_uid == geteuid() || status.st_uid == 0) &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* The folder of a path; -1 with errno. */
static int open_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd;

	if (!slash || slash == path || (size_t)(slash - path) >= sizeof(folder)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || is_own(fd, S_IFDIR))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static void *read_all(int fd, size_t bytes_max, size_t *size)
{
	struct stat status;
	char *data;
	ssize_t n;

	if (!is_own(fd, S_IFREG)) {
		errno = EPERM;
		return NULL;
	}
	if (fstat(fd, &status) || (uint64_t)status.st_size > bytes_max) {
		errno = EFBIG;
		return NULL;
	}
	data = malloc((size_t)status.st_size + 1);
	n = data ? pread(fd, data, (size_t)status.st_size, 0) : -1;
	if (n == status.st_size) {
		*size = (size_t)n;
		return data;
	}
	free(data);
	errno = EIO;
	return NULL;
}

void *cache_load(const char *path, size_t bytes_max, size_t *size)
{
	int folder_fd = open_folder(path), fd;
	void *data;
	int err;

	if (folder_fd < 0)
		return NULL;
	fd = openat(folder_fd, strrchr(path, '/') + 1,
		    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	data = fd < 0 ? NULL : read_all(fd, bytes_max, size);
	err = errno;
	if (fd >= 0)
		close(fd);
	close(folder_fd);
	errno = err;
	return data;
}

int cache_store(const char *path, const void *data, size_t size)
{
	char *other = NULL;
	int fd, err = 0;
	ssize_t n;

	if (asprintf(&other, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	/* Makes the missing folders of a path; open reports failures. */
	for (char *p = other + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(other, 0755);
		*p = '/';
	}
	fd = mkostemp(other, O_CLOEXEC);
	n = fd < 0 ? -1 : write(fd, data, size);
	if (n < 0)
		err = -errno;
	else if ((size_t)n < size)
		err = -ENOSPC;
	else if (fchmod(fd, 0644))
		err = -errno;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && rename(other, path))
		err = -errno;
	if (err && fd >= 0)
		unlink(other);
	free(other);
	return err;
}

/* Before the content of a file that was kept for a key. */
struct kept_head {
	char magic[8];
	uint64_t checksum; /* of all that follows */
	uint64_t key;
};

static const char magic[8] = "perfxkp2";

/* As FNV-1a, by words: of megabytes it takes an eighth of the time. */
static uint64_t checksum_of(const struct kept_head *head, size_t size)
{
	size_t at = offsetof(struct kept_head, key);
	uint64_t hash = fnv1a("", 0), word;

	for (; size - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, (const char *)head + at, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ULL;
	}
	return hash ^ fnv1a((const char *)head + at, size - at);
}

int cache_keep(const char *path, uint64_t key, const void *data, size_t size)
{
	struct kept_head *head = malloc(sizeof(*head) + size);
	int err;

	if (!head)
		return -ENOMEM;
	memcpy(head->magic, magic, sizeof(magic));
	head->key = key;
	memcpy(head + 1, data, size);
	head->checksum = checksum_of(head, sizeof(*head) + size);
	err = cache_store(path, head, sizeof(*head) + size);
	free(head);
	return err;
}

void *cache_recall(const char *path, uint64_t key, size_t bytes_max, size_t *size)
{
	size_t whole = 0;
	struct kept_head *head = cache_load(path, sizeof(*head) + bytes_max, &whole);

	if (head && whole >= sizeof(*head) && !memcmp(head->magic, magic, sizeof(magic)) &&
	    head->key == key && head->checksum == checksum_of(head, whole)) {
		*size = whole - sizeof(*head);
		return memmove(head, head + 1, *size);
	}
	free(head);
	return NULL;
}

void cache_bound(const char *folder, size_t files_max)
{
	DIR *files = opendir(folder);
	char oldest[NAME_MAX + 1] = "";
	struct timespec oldest_time = {0};
	struct dirent *entry;
	struct stat status;
	size_t count = 0;

	while (files && (entry = readdir(files))) {
		if (fstatat(dirfd(files), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		if (count++ && (status.st_mtim.tv_sec != oldest_time.tv_sec
					? status.st_mtim.tv_sec > oldest_time.tv_sec
					: status.st_mtim.tv_nsec >= oldest_time.tv_nsec))
			continue;
		oldest_time = status.st_mtim;
		snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
	}
	if (count && count >= files_max)
		unlinkat(dirfd(files), oldest, 0);
	if (files)
		closedir(files);
}
