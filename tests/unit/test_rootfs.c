// SPDX-License-Identifier: BSD-2-Clause
#include "proc/rootfs.h"

#include "fixture.h"

#include <errno.h>

static void set_up(void)
{
	fixture_set_up();
	fixture_run("mkdir root && echo inside > root/file && echo outside > file && "
		    "ln -s /file root/absolute && ln -s ../file root/upwards && "
		    "mkfifo root/pipe && mkdir root/folder");
}

TestSuite(rootfs, .init = set_up, .fini = fixture_tear_down);

static void expect_text(const char *root, const char *path, const char *wanted)
{
	char text[16] = "";
	int fd = rootfs_open(root, path);

	cr_assert_geq(fd, 0, "%s: %s", path, strerror(-fd));
	cr_assert_geq(read(fd, text, sizeof(text) - 1), 0);
	cr_expect_str_eq(text, wanted, "%s", path);
	close(fd);
}

Test(rootfs, stays_inside)
{
	const char *root = fixture_path("root");

	expect_text(root, "/file", "inside\n");
	expect_text(root, "/absolute", "inside\n");
	expect_text(root, "/upwards", "inside\n");
	expect_text(root, "/../../file", "inside\n");
	expect_text("", fixture_path("root/upwards"), "outside\n");
}

Test(rootfs, regular_files_only, .timeout = 10)
{
	const char *root = fixture_path("root");

	cr_expect_eq(rootfs_open(root, "/pipe"), -EINVAL, "and does not wait for a writer");
	cr_expect_eq(rootfs_open(root, "/folder"), -EINVAL);
	cr_expect_eq(rootfs_open("", "/dev/null"), -EINVAL);
	cr_expect_eq(rootfs_open(root, "/nothing"), -ENOENT);
	cr_expect_eq(rootfs_open(fixture_path("nothing"), "/file"), -ENOENT);
}
