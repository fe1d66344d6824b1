// SPDX-License-Identifier: BSD-2-Clause
/* Folders of owners that were killed are removed, and no others. */
#include "base/scratch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64], paths[8][128];
static int paths_count;

static const char *in_top(const char *name)
{
	char *path = paths[paths_count++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	return path;
}

static void make_top(void)
{
	strcpy(top, "/tmp/perfx-scratchXXXXXX");
	cr_assert_not_null(mkdtemp(top));
	setenv("TMPDIR", top, 1);
}

static void remove_top(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_assert_eq(system(command), 0);
}

TestSuite(scratch, .init = make_top, .fini = remove_top);

/* As time has passed since. */
static void age(const char *path)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

	cr_assert_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	close(fd);
}

/* A folder with a file, whose owner is dead. */
static const char *make_dead(const char *name, mode_t mode)
{
	const char *path = in_top(name);
	char file[160];

	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(chmod(path, mode), 0);
	snprintf(file, sizeof(file), "%s/last.perfx", path);
	make_file(file);
	age(path);
	return path;
}

static bool is_there(const char *path)
{
	struct stat about;

	return !lstat(path, &about);
}

Test(scratch, comes_and_goes)
{
	struct scratch scratch;
	struct stat about;
	char file[160];

	cr_assert_eq(scratch_make(&scratch), 0);
	cr_assert_eq(stat(scratch.path, &about), 0);
	cr_expect_eq(about.st_mode, S_IFDIR | 0700);
	cr_expect(!strncmp(scratch.path, top, strlen(top)));
	snprintf(file, sizeof(file), "%s/last.perfx.part", scratch.path);
	make_file(file);
	scratch_remove(&scratch);
	cr_expect_null(scratch.path);
	cr_expect_eq(rmdir(top), 0, "nothing is left");
	make_top();
}

Test(scratch, of_the_dead_alone)
{
	const char *dead = make_dead("perfx-trace.dead01", 0700);
	const char *open_to_all = make_dead("perfx-trace.open01", 0755);
	const char *other_name = make_dead("perfx-trace.dead012", 0700);
	const char *target = make_dead("target", 0700), *link = in_top("perfx-trace.link01"),
		   *young;
	struct scratch live;

	cr_assert_eq(symlink(target, link), 0);
	age(link);
	young = make_dead("perfx-trace.young1", 0700);
	cr_assert_eq(utimensat(AT_FDCWD, young, NULL, 0), 0);
	cr_assert_eq(scratch_make(&live), 0);
	age(live.path);
	scratch_sweep();
	cr_expect_not(is_there(dead));
	cr_expect(is_there(open_to_all), "not made by us");
	cr_expect(is_there(other_name));
	cr_expect(is_there(link) && is_there(target), "links are not followed");
	cr_expect(is_there(young), "its owner may not have locked it yet");
	cr_expect(is_there(live.path), "its owner lives");
	scratch_remove(&live);
}

/* A link in a folder of ours goes, and not what it leads to. */
Test(scratch, links_inside_lead_nowhere)
{
	const char *target = in_top("precious"), *dead;
	char link[160];

	make_file(target);
	dead = make_dead("perfx-trace.dead02", 0700);
	snprintf(link, sizeof(link), "%s/link", dead);
	cr_assert_eq(symlink(target, link), 0);
	age(dead);
	scratch_sweep();
	cr_expect_not(is_there(dead));
	cr_expect(is_there(target));
}

Test(scratch, of_other_users)
{
	const char *dead = make_dead("perfx-trace.other1", 0700);

	if (geteuid())
		cr_skip_test("needs root");
	cr_assert_eq(chown(dead, 65534, 65534), 0);
	age(dead);
	scratch_sweep();
	cr_expect(is_there(dead));
}
