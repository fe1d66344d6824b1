// SPDX-License-Identifier: BSD-2-Clause
#include "base/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX	 "perfx-trace."
#define TEMPLATE PREFIX "XXXXXX"
/* One that is younger may not be locked yet. */
#define YOUNG_S 60

static const char *temporary_folder(void)
{
	const char *folder = secure_getenv("TMPDIR");

	return folder && *folder == '/' ? folder : "/tmp";
}

static int open_folder(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int scratch_make(struct scratch *scratch)
{
	int err;

	*scratch = (struct scratch){0};
	if (asprintf(&scratch->path, "%s/" TEMPLATE, temporary_folder()) < 0) {
		scratch->path = NULL;
		return -ENOMEM;
	}
	if (mkdtemp(scratch->path)) {
		scratch->lock_fd = open_folder(AT_FDCWD, scratch->path);
		if (scratch->lock_fd >= 0 && !flock(scratch->lock_fd, LOCK_EX | LOCK_NB))
			return 0;
		err = -errno;
		if (scratch->lock_fd >= 0)
			close(scratch->lock_fd);
		rmdir(scratch->path);
	} else {
		err = -errno;
	}
	free(scratch->path);
	*scratch = (struct scratch){0};
	return err;
}

int scratch_file(const struct scratch *scratch, const char *name, char **path)
{
	if (asprintf(path, "%s/%s", scratch->path, name) >= 0)
		return 0;
	*path = NULL;
	return -ENOMEM;
}

/* A folder in it stays: none was made. */
static void remove_files(int folder)
{
	int copy = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;

	if (!entries && copy >= 0)
		close(copy);
	while (entries && (entry = readdir(entries)))
		unlinkat(folder, entry->d_name, 0);
	if (entries)
		closedir(entries);
}

void scratch_remove(struct scratch *scratch)
{
	if (!scratch->path)
		return;
	remove_files(scratch->lock_fd);
	rmdir(scratch->path);
	close(scratch->lock_fd);
	free(scratch->path);
	*scratch = (struct scratch){0};
}

/* Removes it if it is ours, closed to others, and not just made: any user may create such a name in
 * /tmp. */
static void sweep_one(int at, const char *name)
{
	int folder = open_folder(at, name);
	struct stat about;

	if (folder < 0)
		return;
	if (!fstat(folder, &about) && about.st_uid == geteuid() &&
	    (about.st_mode & ALLPERMS) == S_IRWXU && about.st_mtime + YOUNG_S < time(NULL) &&
	    !flock(folder, LOCK_EX | LOCK_NB)) {
		remove_files(folder);
		unlinkat(at, name, AT_REMOVEDIR);
	}
	close(folder);
}

void scratch_sweep(void)
{
	DIR *entries = opendir(temporary_folder());
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) &&
		    strlen(entry->d_name) == strlen(TEMPLATE))
			sweep_one(dirfd(entries), entry->d_name);
	if (entries)
		closedir(entries);
}
