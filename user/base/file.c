// SPDX-License-Identifier: BSD-2-Clause
#include "base/file.h"

#include "base/message.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

#define OPEN_FLAGS (O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY)

/* Between two looks whether a FIFO has a reader. */
#define READER_POLL_NS 50000000

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
	case EINTR:
		return "a FIFO that nobody reads: interrupted";
	default:
		return strerror(err < 0 ? -err : err);
	}
}

/* --- opening --- */

/* File systems without owners, and a process without privilege, leave it as it is. */
static void give_to_caller(int fd)
{
	uid_t uid;
	gid_t gid;

	if (caller_ids(&uid, &gid) && fchown(fd, uid, gid))
		return;
}

static void give_to_owner_of(int fd, const struct stat *replaced)
{
	if (fchown(fd, replaced->st_uid, replaced->st_gid))
		give_to_caller(fd);
	fchmod(fd, replaced->st_mode & 0775);
}

/* replaced: the file that has the name now; NULL: none. */
static int open_new(const char *path, const struct stat *replaced)
{
	int fd = open(path, OPEN_FLAGS | O_CREAT | O_EXCL, 0644);

	if (fd < 0)
		return -errno;
	if (replaced)
		give_to_owner_of(fd, replaced);
	else
		give_to_caller(fd);
	return fd;
}

static int open_part(struct output *output, const struct stat *replaced)
{
	struct stat stale;

	if (asprintf(&output->part, "%s" OUTPUT_PART_SUFFIX, output->path) < 0) {
		output->part = NULL;
		return -ENOMEM;
	}
	/* of a tracer that was killed */
	if (!lstat(output->part, &stale) && S_ISREG(stale.st_mode))
		unlink(output->part);
	return open_new(output->part, replaced);
}

static int wait_for_reader(const char *path)
{
	const struct timespec pause = {.tv_nsec = READER_POLL_NS};
	int fd;

	msg_say("%s: a FIFO that nobody reads yet: waiting (Ctrl-C ends it)", path);
	do {
		nanosleep(&pause, NULL);
		fd = open(path, OPEN_FLAGS | O_NONBLOCK);
	} while (fd < 0 && errno == ENXIO && !interrupt_asked());
	if (fd < 0 && errno == ENXIO)
		errno = EINTR;
	return fd;
}

static int open_special(const char *path, mode_t mode)
{
	int fd = open(path, OPEN_FLAGS | O_NONBLOCK);

	if (fd < 0 && errno == ENXIO && S_ISFIFO(mode))
		fd = wait_for_reader(path);
	if (fd < 0)
		return -errno;
	fcntl(fd, F_SETFL, 0);
	return fd;
}

/* The number of the descriptor that the name stands for; -1: for none. */
static int own_descriptor(const char *path)
{
	static const char folder[] = "/dev/fd/";
	char *end;
	long number;

	if (!path || !strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	if (!begins_with(path, folder))
		return -1;
	number = strtol(path + strlen(folder), &end, 10);
	return *end || number < 0 || number > 1 << 20 ? -1 : (int)number;
}

static int open_path(struct output *output, enum output_kind kind)
{
	int fd = own_descriptor(output->path);
	struct stat st;

	if (fd >= 0 && kind == OUTPUT_FILE)
		return -EINVAL;
	if (fd >= 0) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	if (lstat(output->path, &st)) {
		if (errno != ENOENT)
			return -errno;
		output->made = kind == OUTPUT_GROWING;
		return output->made ? open_new(output->path, NULL) : open_part(output, NULL);
	}
	if (S_ISREG(st.st_mode))
		return open_part(output, &st);
	if (kind == OUTPUT_FILE)
		return S_ISLNK(st.st_mode) ? -ELOOP : S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	return open_special(output->path, st.st_mode);
}

/* Forgets it, whatever has become of the file. */
static void forget(struct output *output)
{
	free(output->part);
	free(output->path);
	*output = (struct output){.fd = -1};
}

int output_open(struct output *output, const char *path, enum output_kind kind)
{
	int fd = -ENOMEM;

	*output = (struct output){.fd = -1};
	if (path && strcmp(path, "-"))
		output->path = strdup(path);
	if (!path || !strcmp(path, "-") || output->path)
		fd = open_path(output, kind);
	if (fd < 0)
		forget(output);
	output->fd = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

/* --- writing and closing --- */

int output_write(int fd, const void *data, size_t size)
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

int output_close(struct output *output)
{
	bool is_file = output->part || output->made;
	int err = 0;

	/* a file that cannot be synced is on no disk */
	if (is_file && fdatasync(output->fd) && errno != EINVAL && errno != EROFS)
		err = -errno;
	if (close(output->fd) && !err)
		err = -errno;
	if (output->part && !err && rename(output->part, output->path))
		err = -errno;
	if (output->part && err)
		unlink(output->part);
	forget(output);
	return err;
}

void output_discard(struct output *output)
{
	if (output->fd < 0)
		return;
	close(output->fd);
	if (output->part || output->made)
		unlink(output_name(output));
	forget(output);
}

void output_leave(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	forget(output);
}

const char *output_name(const struct output *output)
{
	if (output->part)
		return output->part;
	return output->path ? output->path : "stdout";
}

int output_store(struct output *output, const void *data, size_t size)
{
	int err = output_write(output->fd, data, size);

	if (!err)
		return output_close(output);
	output_discard(output);
	return err;
}

/* --- names --- */

struct place {
	dev_t device;
	ino_t inode;
	const char *name; /* in that folder; "": the file itself */
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* False: nowhere, or where nothing is kept. */
static bool place_of(const char *path, struct place *place)
{
	char *folder;
	struct stat st;
	int err;

	place->name = "";
	err = stat(path, &st);
	if (!err && S_ISCHR(st.st_mode))
		return false;
	if (err) {
		place->name = base_of(path);
		if (asprintf(&folder, "%.*s.", (int)(place->name - path), path) < 0)
			return false;
		err = stat(folder, &st);
		free(folder);
	}
	place->device = st.st_dev;
	place->inode = st.st_ino;
	return !err;
}

bool output_is_same(const char *a, const char *b)
{
	struct place place_a, place_b;

	return place_of(a, &place_a) && place_of(b, &place_b) && place_a.device == place_b.device &&
	       place_a.inode == place_b.inode && !strcmp(place_a.name, place_b.name);
}

static bool number_from_environment(const char *name, unsigned *value)
{
	const char *text = getenv(name);
	char *end;
	unsigned long number;

	if (!text || !*text)
		return false;
	number = strtoul(text, &end, 10);
	*value = (unsigned)number;
	return !*end && number <= UINT32_MAX;
}

bool caller_ids(uid_t *uid, gid_t *gid)
{
	return number_from_environment("SUDO_UID", uid) && number_from_environment("SUDO_GID", gid);
}

int caller_become(uid_t uid, gid_t gid)
{
	struct passwd *user = getpwuid(uid);

	if (user ? initgroups(user->pw_name, gid) : setgroups(0, NULL))
		return -errno;
	if (setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	return 0;
}
