// SPDX-License-Identifier: BSD-2-Clause
#include "base/output.h"

#include "base/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int give_to_caller(int fd)
{
	uid_t uid;
	gid_t gid;

	if (!caller_ids(&uid, &gid) || !fchown(fd, uid, gid))
		return 0;
	/* file systems without owners */
	return errno == EPERM || errno == EINVAL ? 0 : -errno;
}

int output_open(const char *path)
{
	const int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
	int fd;

	if (!strcmp(path, "-"))
		return dup(STDOUT_FILENO);
	fd = open(path, flags | O_CREAT | O_EXCL, 0644);
	if (fd >= 0) {
		give_to_caller(fd);
		return fd;
	}
	if (errno == EEXIST)
		fd = open(path, flags);
	return fd < 0 ? -errno : fd;
}

const char *output_error(int err)
{
	switch (err < 0 ? -err : err) {
	case ELOOP:
		return "is a symbolic link, which is not followed: name the file itself (or - for "
		       "stdout)";
	case EISDIR:
		return "is a directory: name a file in it";
	case ENOENT:
		return "its directory does not exist";
	case ENOSPC:
	case EDQUOT:
		return "no space left on the device";
	default:
		return strerror(err < 0 ? -err : err);
	}
}

/* A file that was opened by its name, and may be emptied. Where stdout leads others write too. */
static bool is_named_file(int fd)
{
	struct stat st, out;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	return fstat(STDOUT_FILENO, &out) || st.st_dev != out.st_dev || st.st_ino != out.st_ino;
}

int output_write(int fd, const void *data, size_t size)
{
	if (is_named_file(fd) && ftruncate(fd, 0))
		return -errno;
	return output_write_on(fd, data, size);
}

int output_write_on(int fd, const void *data, size_t size)
{
	const char *bytes = data;

	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

int output_close(int fd)
{
	return close(fd) ? -errno : 0;
}

/* --- a part --- */

/* What the name is now, where something has it, must be a file that may be replaced. */
static int check_replaced(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

int output_part_open(struct output_part *part, const char *path)
{
	int err = check_replaced(path);

	part->fd = -1;
	part->name = NULL;
	if (err)
		return err;
	if (asprintf(&part->name, "%s.part", path) < 0)
		return -ENOMEM;
	/* of a tracer that was killed */
	if (!check_replaced(part->name))
		unlink(part->name);
	part->fd = open(part->name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_CREAT | O_EXCL,
			0644);
	if (part->fd >= 0) {
		give_to_caller(part->fd);
		return 0;
	}
	err = -errno;
	free(part->name);
	return err;
}

int output_part_close(struct output_part *part, const char *path, int err)
{
	/* what cannot be synced is no disk */
	if (!err && fdatasync(part->fd) && errno != EINVAL && errno != EROFS)
		err = -errno;
	if (close(part->fd) && !err)
		err = -errno;
	if (!err && rename(part->name, path))
		err = -errno;
	if (err)
		unlink(part->name);
	free(part->name);
	return err;
}
