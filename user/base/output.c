// SPDX-License-Identifier: BSD-2-Clause
#include "base/output.h"

#include "base/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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
	const char *bytes = data;

	if (is_named_file(fd) && ftruncate(fd, 0))
		return -errno;
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
