// SPDX-License-Identifier: BSD-2-Clause
#include "base/output.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static void make_file(void)
{
	int fd;

	strcpy(path, "/tmp/perfx-output-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "before\n", 7), 7);
	close(fd);
}

static void remove_file(void)
{
	unlink(path);
}

static void check_content(const char *expected)
{
	char content[64] = "";
	int fd = open(path, O_RDONLY);

	cr_assert_geq(read(fd, content, sizeof(content) - 1), 0);
	close(fd);
	cr_expect_str_eq(content, expected);
}

Test(output, named_file_is_replaced, .init = make_file, .fini = remove_file)
{
	int fd = output_open(path);

	cr_assert_geq(fd, 0);
	check_content("before\n");
	cr_expect_eq(output_write(fd, "after\n", 6), 0);
	cr_expect_eq(output_close(fd), 0);
	check_content("after\n");
}

/* `{ date; perfx-trace …; } > log`: what others have written there stays. */
Test(output, stdout_is_added_to, .init = make_file, .fini = remove_file)
{
	int log = open(path, O_WRONLY | O_APPEND), fd;

	fflush(stdout);
	dup2(log, STDOUT_FILENO);
	fd = output_open("-");
	cr_assert_geq(fd, 0);
	cr_expect_eq(output_write(fd, "after\n", 6), 0);
	output_close(fd);
	check_content("before\nafter\n");
}

Test(output, links_and_folders_are_refused, .init = make_file, .fini = remove_file)
{
	char link_path[80];

	snprintf(link_path, sizeof(link_path), "%s.link", path);
	cr_assert_eq(symlink(path, link_path), 0);
	cr_expect_eq(output_open(link_path), -ELOOP);
	unlink(link_path);
	cr_expect_eq(output_open("/tmp"), -EISDIR);
	cr_expect_eq(output_open("/nowhere/file"), -ENOENT);
	check_content("before\n");
}

Test(output, new_file_is_not_world_writable, .init = make_file, .fini = remove_file)
{
	struct stat st;
	int fd;

	umask(0);
	unlink(path);
	fd = output_open(path);
	cr_assert_geq(fd, 0);
	cr_expect_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0644);
	output_close(fd);
}
