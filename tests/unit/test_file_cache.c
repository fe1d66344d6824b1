// SPDX-License-Identifier: BSD-2-Clause
#include "elf/file_cache.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Makes a file and adds it. */
static void add_file(struct file_cache *files, const char *folder, unsigned number)
{
	char path[64];
	struct mapping mapping = {.executable = true, .path = path};
	struct stat stat;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u", folder, number);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	cr_assert_eq(fstat(fileno(file), &stat), 0);
	fclose(file);
	mapping.inode = stat.st_ino;
	mapping.dev_major = major(stat.st_dev);
	mapping.dev_minor = minor(stat.st_dev);
	/* twice: it is one file */
	for (int i = 0; i < 2; i++)
		cr_assert_neq(file_cache__add(files, getpid(), FILE_CACHE_NONE, &mapping),
			      FILE_CACHE_NONE);
}

static void remove_files(const char *folder, unsigned count)
{
	char path[64];

	for (unsigned i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%u", folder, i);
		unlink(path);
	}
	rmdir(folder);
}

Test(file_cache, files_beyond_the_limit_are_counted)
{
	struct rlimit descriptors;
	char folder[] = "/tmp/perfx-files-XXXXXX";
	struct file_cache *files = file_cache__new();

	getrlimit(RLIMIT_NOFILE, &descriptors);
	descriptors.rlim_cur = descriptors.rlim_max;
	setrlimit(RLIMIT_NOFILE, &descriptors);
	cr_assert_gt(descriptors.rlim_max, FILE_CACHE_FILES_MAX + 100);
	cr_assert_not_null(mkdtemp(folder));
	for (unsigned i = 0; i < FILE_CACHE_FILES_MAX; i++)
		add_file(files, folder, i);
	cr_expect_eq(file_cache__left_out(files), 0);
	for (unsigned i = 0; i < 3; i++)
		add_file(files, folder, FILE_CACHE_FILES_MAX + i);
	cr_expect_eq(file_cache__left_out(files), 3);
	remove_files(folder, FILE_CACHE_FILES_MAX + 3);
	file_cache__free(files);
}
