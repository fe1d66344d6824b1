// SPDX-License-Identifier: BSD-2-Clause
#include "proc/perf_map.h"

#include "fixture.h"

#include <errno.h>
#include <unistd.h>

static void set_up(void)
{
	fixture_set_up();
	fixture_run("mkdir -p root/tmp");
}

TestSuite(perf_map, .init = set_up, .fini = fixture_tear_down);

static struct perf_map *read_map(const char *text, uid_t owner)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	if (text)
		fixture_text("root/tmp/perf-7.map", text);
	return perf_map__read(root, 7, owner);
}

Test(perf_map, names)
{
	struct perf_map *map =
		read_map("2000 10 second one\n0x1000 20 first\nno line\n3000 0 empty\n"
			 "4000 8\nfffffffffffffff0 20 behind the end\n5000 8 cut",
			 getuid());

	cr_assert_not_null(map);
	cr_expect_str_eq(perf_map__path(map), "/tmp/perf-7.map");
	cr_expect_str_eq(perf_map__name(map, 0x1000), "first");
	cr_expect_str_eq(perf_map__name(map, 0x101f), "first");
	cr_expect_null(perf_map__name(map, 0x1020));
	cr_expect_null(perf_map__name(map, 0xfff));
	cr_expect_str_eq(perf_map__name(map, 0x200f), "second one");
	cr_expect_null(perf_map__name(map, 0x3000));
	cr_expect_null(perf_map__name(map, 0x4000));
	cr_expect_null(perf_map__name(map, UINT64_MAX - 2));
	cr_expect_str_eq(perf_map__name(map, 0x5000), "cut");
	perf_map__free(map);
}

/* Which of two functions ran in one place is not known; one that is written twice is. */
Test(perf_map, code_that_was_replaced)
{
	struct perf_map *map =
		read_map("1000 40 old\n1020 40 new\n2000 10 same\n2000 10 same\n", getuid());

	cr_assert_not_null(map);
	cr_expect_str_eq(perf_map__name(map, 0x1010), "old");
	cr_expect_null(perf_map__name(map, 0x1030));
	cr_expect_str_eq(perf_map__name(map, 0x1050), "new");
	cr_expect_str_eq(perf_map__name(map, 0x2008), "same");
	perf_map__free(map);
}

Test(perf_map, long_names_are_cut)
{
	char text[2048] = "1000 10 ";
	struct perf_map *map;

	memset(text + 8, 'x', sizeof(text) - 9);
	map = read_map(text, getuid());
	cr_assert_not_null(map);
	cr_expect_eq(strlen(perf_map__name(map, 0x1000)), 512);
	perf_map__free(map);
}

Test(perf_map, none)
{
	cr_expect_null(read_map(NULL, getuid()));
	cr_expect_eq(errno, ENOENT);
}

/* Whoever may write to /tmp may not name the functions of others. */
Test(perf_map, of_somebody_else)
{
	fixture_text("root/tmp/perf-7.map", "1000 10 theirs\n");
	if (getuid() == 0)
		cr_assert_eq(chown(fixture_path("root/tmp/perf-7.map"), 12345, 12345), 0);
	cr_expect_null(read_map(NULL, 54321));
	cr_expect_eq(errno, EPERM);
}

Test(perf_map, links_and_pipes_are_not_followed)
{
	fixture_text("root/tmp/other", "1000 10 other\n");
	fixture_run("ln -s other root/tmp/perf-7.map");
	cr_expect_null(read_map(NULL, getuid()));
	cr_expect_eq(errno, ELOOP);
	fixture_run("rm root/tmp/perf-7.map && mkfifo root/tmp/perf-7.map");
	cr_expect_null(read_map(NULL, getuid()));
	cr_expect_eq(errno, EPERM);
}
