// SPDX-License-Identifier: BSD-2-Clause
#include "proc/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* O_PATH opens nothing yet: a device in the path may do something when it is opened, a pipe waits.
 */
static int locate(const char *root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int dir, fd;

	if (!root[0]) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

static int open_regular(int path_fd)
{
	char path[64];
	struct stat status;
	int fd;

	if (fstat(path_fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rootfs_open(const char *root, const char *path)
{
	int path_fd = locate(root, path), fd;

	if (path_fd < 0)
		return path_fd;
	fd = open_regular(path_fd);
	close(path_fd);
	return fd;
}
