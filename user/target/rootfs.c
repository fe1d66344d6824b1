// SPDX-License-Identifier: BSD-2-Clause
#include "target/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Nonblocking: a pipe somebody left in the path must not hold us up. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static int open_beneath(const char *root, const char *path)
{
	struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_IN_ROOT};
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

static int check_regular(int fd)
{
	struct stat status;
	int err = 0;

	if (fstat(fd, &status) < 0)
		err = -errno;
	else if (!S_ISREG(status.st_mode))
		err = -EINVAL;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int rootfs_open(const char *root, const char *path)
{
	int fd;

	if (root[0]) {
		fd = open_beneath(root, path);
	} else {
		fd = open(path, OPEN_FLAGS);
		if (fd < 0)
			fd = -errno;
	}
	return fd < 0 ? fd : check_regular(fd);
}
