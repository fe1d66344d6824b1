// SPDX-License-Identifier: BSD-2-Clause
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does not wait for a FIFO's writer: without one it is empty. */
static int open_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (S_ISDIR(st.st_mode))
		err = -EISDIR;
	else if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		err = -EINVAL;
	else if (fcntl(fd, F_SETFL, 0)) /* a pipe that is written to slowly has not ended */
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Up to size bytes: their number, or -errno. */
static ssize_t read_up_to(int fd, char *bytes, size_t size)
{
	size_t used = 0;
	ssize_t n = 1;

	while (n && used < size) {
		n = read(fd, bytes + used, size - used);
		if (n < 0 && errno != EINTR)
			return -errno;
		used += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)used;
}

char *file_read_text(const char *path)
{
	char *text = malloc(FILE_TEXT_MAX + 1);
	ssize_t size = text ? open_text(path) : -ENOMEM;

	if (size >= 0) {
		int fd = (int)size;

		size = read_up_to(fd, text, FILE_TEXT_MAX + 1);
		close(fd);
	}
	if (size > (ssize_t)FILE_TEXT_MAX)
		size = -EFBIG;
	if (size < 0) {
		free(text);
		errno = (int)-size;
		return NULL;
	}
	text[size] = '\0';
	return text;
}

const char *file_error(int err)
{
	switch (err) {
	case EFBIG:
		return "more than 1 MiB";
	case EINVAL:
		return "neither a file nor a pipe";
	default:
		return strerror(err);
	}
}
