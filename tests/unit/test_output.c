// SPDX-License-Identifier: BSD-2-Clause
#include "base/file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
	struct output output;
	struct stat st;

	cr_assert_eq(chmod(path, 0600), 0);
	cr_assert_eq(output_open(&output, path, OUTPUT_WHOLE), 0);
	cr_expect_eq(output_write(output.fd, "after\n", 6), 0);
	check_content("before\n");
	cr_expect_eq(output_close(&output), 0);
	check_content("after\n");
	cr_expect_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
}

static bool has_part(void)
{
	char part[80];

	snprintf(part, sizeof(part), "%s.part", path);
	return !access(part, F_OK);
}

static const enum output_kind kinds[] = {OUTPUT_WHOLE, OUTPUT_GROWING};

Test(output, an_old_file_stays_until_the_new_one_is_whole, .init = make_file, .fini = remove_file)
{
	struct output output;

	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(output_open(&output, path, kinds[i]), 0);
		cr_expect_eq(output_write(output.fd, "half", 4), 0);
		cr_expect(has_part());
		output_discard(&output);
		cr_expect_not(has_part());
		cr_expect_eq(output.fd, -1);
		check_content("before\n");
	}
}

/* What grows has its own name from the start where it is free, and what is thrown away is gone. */
Test(output, a_new_file, .init = make_file)
{
	struct output output;

	unlink(path);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(output_open(&output, path, kinds[i]), 0);
		cr_expect_eq(has_part(), kinds[i] == OUTPUT_WHOLE);
		cr_expect_eq(!access(path, F_OK), kinds[i] == OUTPUT_GROWING);
		output_discard(&output);
		cr_expect(access(path, F_OK) && !has_part());
	}
}

/* The name beside is another program's, or of a recording that was killed. */
Test(output, unfinished_files_of_others_stay, .init = make_file, .fini = remove_file)
{
	char part[80], content[8] = "";
	struct output output;
	int fd;

	snprintf(part, sizeof(part), "%s.part", path);
	cr_assert_eq(rename(path, part), 0);
	cr_assert_eq(output_open(&output, path, OUTPUT_WHOLE), 0);
	cr_expect_eq(strncmp(output_name(&output), path, strlen(path)), 0);
	cr_expect_eq(strlen(output_name(&output)), strlen(part) + strlen(".XXXXXX"));
	cr_expect_eq(output_store(&output, "after\n", 6), 0);
	check_content("after\n");
	fd = open(part, O_RDONLY);
	cr_expect_eq(read(fd, content, 7), 7);
	cr_expect_str_eq(content, "before\n");
	close(fd);
	unlink(part);
}

/* A full disk, by a limit: the old file is as it was. */
Test(output, a_disk_that_is_full, .init = make_file, .fini = remove_file)
{
	const struct rlimit limit = {.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
	struct output output;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(output_open(&output, path, OUTPUT_WHOLE), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(output_store(&output, "longer\n", 7), -EFBIG);
	cr_expect_not(has_part());
	check_content("before\n");
}

/* `{ date; perfx-trace …; } > log`: what others have written there stays. */
Test(output, stdout_is_added_to, .init = make_file, .fini = remove_file)
{
	static const char *const names[] = {NULL, "-", "/dev/stdout", "/dev/fd/1"};
	int log = open(path, O_WRONLY | O_APPEND);
	struct output output;

	fflush(stdout);
	dup2(log, STDOUT_FILENO);
	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(output_open(&output, names[i], OUTPUT_WHOLE), 0);
		cr_expect_eq(output_store(&output, "x", 1), 0);
	}
	check_content("before\nxxxx");
}

Test(output, links_and_folders_are_refused, .init = make_file, .fini = remove_file)
{
	struct output output;
	char link_path[80];

	snprintf(link_path, sizeof(link_path), "%s.link", path);
	cr_assert_eq(symlink(path, link_path), 0);
	cr_expect_eq(output_open(&output, link_path, OUTPUT_WHOLE), -ELOOP);
	unlink(link_path);
	cr_expect_eq(output_open(&output, "/tmp", OUTPUT_WHOLE), -EISDIR);
	cr_expect_eq(output_open(&output, "/nowhere/file", OUTPUT_WHOLE), -ENOENT);
	check_content("before\n");
}

Test(output, new_file_is_not_world_writable, .init = make_file, .fini = remove_file)
{
	struct output output;
	struct stat st;

	umask(0);
	unlink(path);
	cr_assert_eq(output_open(&output, path, OUTPUT_GROWING), 0);
	cr_expect_eq(fstat(output.fd, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0644);
	cr_expect_eq(output_close(&output), 0);
}

Test(output, one_file_by_two_names, .init = make_file, .fini = remove_file)
{
	char other[96], absent[96];

	cr_expect(output_is_same(path, path));
	snprintf(other, sizeof(other), "/tmp/../tmp/%s", strrchr(path, '/') + 1);
	cr_expect(output_is_same(path, other));
	snprintf(other, sizeof(other), "%s.link", path);
	cr_assert_eq(symlink(path, other), 0);
	cr_expect(output_is_same(path, other));
	unlink(other);
	/* neither exists: by their folder */
	snprintf(absent, sizeof(absent), "/tmp/./%s.link", strrchr(path, '/') + 1);
	cr_expect(output_is_same(other, absent));
	cr_expect_not(output_is_same(path, other));
	cr_assert_eq(link(path, other), 0);
	cr_expect(output_is_same(path, other));
	unlink(other);
	cr_expect_not(output_is_same("/dev/null", "/dev/null"));
	cr_expect_not(output_is_same("/nowhere/x", "/nowhere/x"));
}
