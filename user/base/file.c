// SPDX-License-Identifier: BSD-2-Clause
#include "base/file.h"

#include "base/message.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

static _Thread_local char nul_error[48];

char *file_read_text(const char *path)
{
	char *text = malloc(FILE_TEXT_MAX + 1);
	int fd = text ? open_text(path) : -ENOMEM, err = fd < 0 ? fd : 0;
	size_t size = 0, line = 1;
	ssize_t n = 1;

	while (!err && n && size <= FILE_TEXT_MAX) {
		n = read(fd, text + size, FILE_TEXT_MAX + 1 - size);
		if (n < 0 && errno != EINTR)
			err = -errno;
		size += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
	if (!err && size > FILE_TEXT_MAX)
		err = -EFBIG;
	/* a string would end at the NUL, and the rest of the file would be ignored */
	if (!err && memchr(text, '\0', size)) {
		for (const char *p = text; *p; p++)
			line += *p == '\n';
		snprintf(nul_error, sizeof(nul_error), "line %zu has a NUL byte", line);
		err = -EILSEQ;
	}
	if (err) {
		free(text);
		errno = -err;
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
	case EILSEQ:
		return nul_error;
	default:
		return strerror(err);
	}
}

#define OPEN_FLAGS (O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY)

/* Time between two attempts to open a FIFO that has no reader. */
#define READER_POLL_NS 50000000

const char *output_error(int err)
{
	switch (err < 0 ? -err : err) {
	case OUTPUT_OTHERS_FILE:
		return "a file of another user, in a folder that others can write: it is not "
		       "replaced: name another file";
	case OUTPUT_OTHERS_FIFO:
		return "a FIFO of another user, who would read the output: name another file";
	case OUTPUT_OTHERS_LINK:
		return "one of its folders is a symbolic link of another user, which is not "
		       "followed: name the folder itself (namei -l shows the link)";
	case ELOOP:
		return "is a symbolic link, which is not followed: name the file itself (or - for "
		       "stdout)";
	case EISDIR:
		return "is a directory: name a file in it";
	case ENOENT:
		return "its directory does not exist, or takes no new files, as /proc";
	case ENOTDIR:
		return "one of its folders is a file";
	case EINVAL:
		return "is not a regular file: name one";
	case ENOSPC:
	case EDQUOT:
		return "no space left on the device";
	case EINTR:
		return "a FIFO that nobody reads: interrupted";
	default:
		return strerror(err < 0 ? -err : err);
	}
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Files of other users are rejected: fs.protected_regular, fs.protected_fifos and
 * fs.protected_symlinks (proc_sys_fs(5)) do so, but not every machine sets them. */

/* Is the owner root, this process's user, or the user who called sudo? */
static bool is_ours(uid_t owner)
{
	uid_t uid;
	gid_t gid;

	return !owner || owner == geteuid() || (caller_ids(&uid, &gid) && owner == uid);
}

/* The folder's group counts as others only if the folder is sticky. */
static bool others_can_write(const struct stat *folder)
{
	return folder->st_mode & (folder->st_mode & S_ISVTX ? S_IWGRP | S_IWOTH : S_IWOTH);
}

/* Gets the file that has the name now; old->st_mode is 0 if there is none. 0, or -errno or a
 * negative output_refusal: no file of this name may be written. */
static int check_existing(int folder_fd, const char *name, struct stat *old)
{
	struct stat folder;

	*old = (struct stat){0};
	if (!*name)
		return -EISDIR;
	if (fstatat(folder_fd, name, old, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (fstat(folder_fd, &folder))
		return -errno;
	if (S_ISREG(old->st_mode) && !is_ours(old->st_uid) && others_can_write(&folder))
		return -OUTPUT_OTHERS_FILE;
	return 0;
}

/* The path of an output's folder is walked once, so that nobody can replace a part of it between a
 * check and its use. */
#define LINKS_MAX    40 /* as the kernel's MAXSYMLINKS */
#define FOLDER_FLAGS (O_PATH | O_CLOEXEC)

struct walk {
	int fd;		     /* the folder reached so far */
	char rest[PATH_MAX]; /* of the path, relative to fd; "": fd is the folder */
	unsigned links_count;
};

static int enter_folder(struct walk *walk, int fd)
{
	if (fd < 0)
		return -errno;
	close(walk->fd);
	walk->fd = fd;
	return 0;
}

static int follow_link(struct walk *walk, int link_fd)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t length = readlinkat(link_fd, "", target, sizeof(target));

	if (length < 0)
		return -errno;
	if (++walk->links_count > LINKS_MAX)
		return -ELOOP;
	strcpy(rest, walk->rest);
	if (snprintf(walk->rest, sizeof(walk->rest), "%.*s/%s", (int)length, target, rest) >=
	    (int)sizeof(walk->rest))
		return -ENAMETOOLONG;
	return *target == '/' ? enter_folder(walk, open("/", FOLDER_FLAGS)) : 0;
}

static int enter_component(struct walk *walk, const char *name)
{
	int fd = openat(walk->fd, name, FOLDER_FLAGS | O_NOFOLLOW), err;
	struct stat st, folder;
	struct statfs system;

	if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode))
		return enter_folder(walk, fd);
	/* The kernel must follow links in /proc, such as to a process's root: the text of such a
	 * link may be relative to another root. */
	if (!fstatfs(fd, &system) && system.f_type == PROC_SUPER_MAGIC)
		err = enter_folder(walk, openat(walk->fd, name, FOLDER_FLAGS));
	/* links of other users are trusted only in a folder of ours that others cannot write */
	else if (is_ours(st.st_uid) || (!fstat(walk->fd, &folder) && is_ours(folder.st_uid) &&
					!others_can_write(&folder)))
		err = follow_link(walk, fd);
	else
		err = -OUTPUT_OTHERS_LINK;
	close(fd);
	return err;
}

/* Opens the folder of a path. Descriptor, -errno or a negative output_refusal. */
static int open_folder(const char *path)
{
	struct walk walk = {.fd = open(*path == '/' ? "/" : ".", FOLDER_FLAGS)};
	size_t length = (size_t)(base_of(path) - path);
	char name[PATH_MAX];
	int err = walk.fd < 0 ? -errno : 0;

	if (!err && length >= sizeof(walk.rest))
		err = -ENAMETOOLONG;
	if (!err)
		memcpy(walk.rest, path, length);
	while (!err && *walk.rest) {
		length = strcspn(walk.rest, "/");
		memcpy(name, walk.rest, length);
		name[length] = '\0';
		length += strspn(walk.rest + length, "/");
		memmove(walk.rest, walk.rest + length, strlen(walk.rest + length) + 1);
		if (*name)
			err = enter_component(&walk, name);
	}
	if (err && walk.fd >= 0)
		close(walk.fd);
	return err ? err : walk.fd;
}

/* File systems without owners, and a process without privilege, leave it as it is. */
static void give_to_caller(int fd)
{
	uid_t uid;
	gid_t gid;

	if (caller_ids(&uid, &gid) && fchown(fd, uid, gid))
		return;
}

/* old: the file that is replaced, from check_existing(). */
static int open_new(int folder_fd, const char *name, const struct stat *old)
{
	int fd = openat(folder_fd, name, OPEN_FLAGS | O_CREAT | O_EXCL, 0644);

	if (fd < 0)
		return -errno;
	if (old->st_mode) {
		if (fchown(fd, old->st_uid, old->st_gid))
			give_to_caller(fd);
		fchmod(fd, old->st_mode & 0775);
	} else
		give_to_caller(fd);
	return fd;
}

#define PART_TRIES 100

/* Opens PATH.part, or PATH.XXXXXX.part if that name is taken: the other file may be of a killed
 * recording or of another program, such as a browser's unfinished download. */
static int open_part(struct output *output, const struct stat *old)
{
	int fd = -EEXIST;

	for (unsigned i = 0; fd == -EEXIST && i < PART_TRIES; i++) {
		char infix[] = ".XXXXXX";

		for (char *letter = infix + 1; i && *letter; letter++) {
			uint8_t byte = 0;

			if (getrandom(&byte, sizeof(byte), 0) == sizeof(byte))
				*letter = (char)('a' + byte % 26);
		}
		free(output->part);
		if (asprintf(&output->part, "%s%s.part", output->path, i ? infix : "") < 0) {
			output->part = NULL;
			return -ENOMEM;
		}
		fd = open_new(output->folder_fd, base_of(output->part), old);
	}
	return fd;
}

static int wait_for_reader(const struct output *output)
{
	const struct timespec pause = {.tv_nsec = READER_POLL_NS};
	int fd;

	msg_say("%s: a FIFO that nobody reads yet: waiting (Ctrl-C ends it)", output->path);
	do {
		nanosleep(&pause, NULL);
		fd = openat(output->folder_fd, base_of(output->path), OPEN_FLAGS | O_NONBLOCK);
	} while (fd < 0 && errno == ENXIO && !interrupt_asked());
	if (fd < 0 && errno == ENXIO)
		errno = EINTR;
	return fd;
}

/* Accepts a FIFO of ours and a character device. */
static int check_special(const struct stat *st)
{
	if (S_ISFIFO(st->st_mode))
		return is_ours(st->st_uid) ? 0 : -OUTPUT_OTHERS_FIFO;
	if (S_ISLNK(st->st_mode))
		return -ELOOP;
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return S_ISCHR(st->st_mode) ? 0 : -EINVAL;
}

static int open_special(const struct output *output, const struct stat *old, enum output_kind kind)
{
	int fd, err = check_special(old);
	struct stat st;

	if (!err && kind == OUTPUT_FILE)
		err = -EINVAL;
	if (err)
		return err;
	fd = openat(output->folder_fd, base_of(output->path), OPEN_FLAGS | O_NONBLOCK);
	if (fd < 0 && errno == ENXIO && S_ISFIFO(old->st_mode))
		fd = wait_for_reader(output);
	if (fd < 0)
		return -errno;
	/* another file may have taken the name meanwhile */
	err = fstat(fd, &st) ? -errno : check_special(&st);
	if (!err && !fcntl(fd, F_SETFL, 0))
		return fd;
	close(fd);
	return err ? err : -EIO;
}

/* The number of the descriptor that the name stands for; -1: for none. */
static int own_descriptor(const char *path)
{
	static const char folder[] = "/dev/fd/";
	char *end;
	long number;

	if (!strcmp(path, "/dev/stdout"))
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
	const char *name = base_of(output->path);
	struct stat old;
	int err;

	output->folder_fd = open_folder(output->path);
	if (output->folder_fd < 0)
		return output->folder_fd;
	err = check_existing(output->folder_fd, name, &old);
	if (err)
		return err;
	output->made = !old.st_mode && kind == OUTPUT_GROWING;
	if (output->made)
		return open_new(output->folder_fd, name, &old);
	if (!old.st_mode || S_ISREG(old.st_mode))
		return open_part(output, &old);
	return open_special(output, &old, kind);
}

/* Releases the output; its file stays as it is. */
static void forget(struct output *output)
{
	if (output->path && output->folder_fd >= 0)
		close(output->folder_fd);
	free(output->part);
	free(output->path);
	*output = (struct output){.fd = -1};
}

int output_open(struct output *output, const char *path, enum output_kind kind)
{
	int fd = path && strcmp(path, "-") ? own_descriptor(path) : STDOUT_FILENO;

	*output = (struct output){.fd = -1, .folder_fd = -1};
	if (path && strcmp(path, "-"))
		output->path = strdup(path);
	if (fd >= 0 && kind == OUTPUT_FILE) {
		fd = -EINVAL;
	} else if (fd >= 0) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		fd = fd < 0 ? -errno : fd;
	} else {
		fd = output->path ? open_path(output, kind) : -ENOMEM;
	}
	if (fd < 0)
		forget(output);
	output->fd = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

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
	struct stat old;
	int err = 0;

	/* a file that cannot be synced is on no disk */
	if (is_file && fdatasync(output->fd) && errno != EINVAL && errno != EROFS)
		err = -errno;
	if (close(output->fd) && !err)
		err = -errno;
	/* another file may have taken that name since the check */
	if (output->part && !err)
		err = check_existing(output->folder_fd, base_of(output->path), &old);
	if (output->part && !err &&
	    renameat(output->folder_fd, base_of(output->part), output->folder_fd,
		     base_of(output->path)))
		err = -errno;
	if (output->part && err)
		unlinkat(output->folder_fd, base_of(output->part), 0);
	forget(output);
	return err;
}

void output_discard(struct output *output)
{
	if (output->fd < 0)
		return;
	close(output->fd);
	if (output->part || output->made)
		unlinkat(output->folder_fd, base_of(output_name(output)), 0);
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

struct file_id {
	dev_t device;
	ino_t inode;
	const char *name; /* in that folder; "": the file itself */
};

/* False: there is no such folder, or a device that keeps nothing. */
static bool find_file(const char *path, struct file_id *id)
{
	char *folder;
	struct stat st;
	int err;

	id->name = "";
	err = stat(path, &st);
	if (!err && S_ISCHR(st.st_mode))
		return false;
	if (err) {
		id->name = base_of(path);
		if (asprintf(&folder, "%.*s.", (int)(id->name - path), path) < 0)
			return false;
		err = stat(folder, &st);
		free(folder);
	}
	id->device = st.st_dev;
	id->inode = st.st_ino;
	return !err;
}

bool output_is_same(const char *a, const char *b)
{
	struct file_id id_a, id_b;

	return find_file(a, &id_a) && find_file(b, &id_b) && id_a.device == id_b.device &&
	       id_a.inode == id_b.inode && !strcmp(id_a.name, id_b.name);
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
