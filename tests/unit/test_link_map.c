// SPDX-License-Identifier: BSD-2-Clause
#include "proc/link_map.h"

#include "proc/maps.h"
#include "program_fixture.h"

#include <errno.h>
#include <sys/wait.h>

TestSuite(link_map, .init = fixture_set_up, .fini = fixture_tear_down);

static void build(const char *flags)
{
	fixture_text("p.c", PROGRAM_STAYS);
	fixture_text("l.c", "int l = 1;\n");
	fixture_run("cc -shared -fPIC -o first.so l.c && cc -shared -fPIC -o second.so l.c");
	fixture_run("cc %s -o p p.c", flags);
}

/* Base names in order, each followed by a space. The vDSO has no file. */
static void names_of(pid_t pid, char *text, size_t size)
{
	struct maps *maps = maps__read(pid);
	uint64_t *files;
	ssize_t count = link_map_read(pid, &files);
	size_t used = 0;

	cr_assert_not_null(maps);
	cr_assert_gt(count, 0, "%zd", count);
	text[0] = '\0';
	for (ssize_t i = 0; i < count; i++) {
		const struct mapping *mapping = maps__find(maps, files[i]);
		const char *slash = mapping ? strrchr(mapping->path, '/') : NULL;

		if (slash)
			used += (size_t)snprintf(text + used, size - used, "%s ", slash + 1);
	}
	free(files);
	maps__free(maps);
}

Test(link_map, executable_then_preloads_then_libraries)
{
	char names[512], preload[256];
	pid_t pid;

	build("-Wl,--no-as-needed -L. -l:second.so -Wl,-rpath,.");
	snprintf(preload, sizeof(preload), "%s", fixture_path("first.so"));
	cr_assert_eq(chdir(fixture_dir), 0);
	pid = program_start("./p", preload);
	names_of(pid, names, sizeof(names));
	cr_expect_str_eq(names, "p first.so second.so libc.so.6 ld-linux-x86-64.so.2 ", "%s",
			 names);
	program_stop(pid);
}

Test(link_map, fixed_addresses)
{
	char names[512];
	pid_t pid;

	build("-no-pie");
	pid = program_start(fixture_path("p"), NULL);
	names_of(pid, names, sizeof(names));
	cr_expect_eq(strncmp(names, "p libc.so", 9), 0, "%s", names);
	program_stop(pid);
}

Test(link_map, static_programs_have_none)
{
	uint64_t *files;
	pid_t pid;

	build("-static");
	pid = program_start(fixture_path("p"), NULL);
	cr_expect_eq(link_map_read(pid, &files), -ENOENT);
	cr_expect_null(files);
	program_stop(pid);
}

Test(link_map, static_programs_that_may_be_anywhere_are_alone)
{
	char names[512];
	pid_t pid;

	build("-static-pie");
	pid = program_start(fixture_path("p"), NULL);
	names_of(pid, names, sizeof(names));
	cr_expect_str_eq(names, "p ", "%s", names);
	program_stop(pid);
}

Test(link_map, nobody_there)
{
	uint64_t *files;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_expect_eq(link_map_read(pid, &files), -ESRCH);
}
