// SPDX-License-Identifier: BSD-2-Clause
#include "proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_ROOM = 4096 };

struct buffer {
	char *text;
	size_t used, room;
};

static int buffer_grow(struct buffer *buffer)
{
	size_t room = buffer->room ? 2 * buffer->room : FIRST_ROOM;
	char *grown = realloc(buffer->text, room + 1);

	if (!grown)
		return -ENOMEM;
	buffer->text = grown;
	buffer->room = room;
	return 0;
}

/* How long a file of /proc is, is known at its end. Returns what was read, 0 there. */
static ssize_t buffer_fill(struct buffer *buffer, int fd, size_t limit)
{
	size_t wanted;
	ssize_t got;

	if (buffer->used == buffer->room && buffer_grow(buffer) < 0)
		return -ENOMEM;
	wanted = buffer->room - buffer->used;
	if (limit && limit - buffer->used < wanted)
		wanted = limit - buffer->used;
	do {
		got = read(fd, buffer->text + buffer->used, wanted);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	buffer->used += (size_t)got;
	return got;
}

static ssize_t read_all(int fd, char **out, size_t limit)
{
	struct buffer buffer = {0};
	ssize_t got;

	do {
		got = buffer_fill(&buffer, fd, limit);
	} while (got > 0);
	if (got < 0) {
		free(buffer.text);
		return got;
	}
	buffer.text[buffer.used] = '\0';
	*out = buffer.text;
	return (ssize_t)buffer.used;
}

ssize_t proc_read(const char *path, char **out, size_t limit)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	size = read_all(fd, out, limit);
	close(fd);
	return size;
}

ssize_t proc_read_pid(pid_t pid, const char *name, char **out, size_t limit)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return proc_read(path, out, limit);
}
