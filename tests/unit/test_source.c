// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/compose.h"

#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LATER UINT64_MAX /* the recording began after any change */

static const char text[] = "import torch\n\n    return self.b(h)\r\nlast";

/* The line of a file with this name and mode; NULL, or the caller's to free. */
static char *line_of(const char *name, mode_t mode, uint32_t line, uint64_t recorded_unix_ns)
{
	struct source source = {0};
	char path[512], *found;

	fixture_write(name, text, sizeof(text) - 1);
	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	cr_assert_eq(chmod(path, mode), 0);
	found = source_line(&source, path, line, recorded_unix_ns);
	source_clear(&source);
	return found;
}

static void expect_line(uint32_t line, const char *expected)
{
	char *found = line_of("train.py", 0644, line, LATER);

	cr_assert_not_null(found, "%u", line);
	cr_expect_str_eq(found, expected);
	free(found);
}

Test(source, lines_without_indentation, .init = fixture_set_up, .fini = fixture_tear_down)
{
	expect_line(1, "import torch");
	expect_line(3, "return self.b(h)");
	expect_line(4, "last");
	cr_expect_null(line_of("train.py", 0644, 0, LATER));
	cr_expect_null(line_of("train.py", 0644, 2, LATER), "an empty line");
	cr_expect_null(line_of("train.py", 0644, 5, LATER), "behind the end");
}

/* Which file, the traced program says: a report shows none that its readers may not read. */
Test(source, only_what_anybody_may_read, .init = fixture_set_up, .fini = fixture_tear_down)
{
	struct source source = {0};
	char path[512];

	cr_expect_null(line_of("shadow", 0644, 1, LATER), "no source by its name");
	if (!geteuid())
		cr_expect_null(line_of("secret.py", 0600, 1, LATER));
	cr_expect_null(line_of("new.py", 0644, 1, 1), "changed since the recording");
	cr_expect_null(source_line(&source, "train.py", 1, LATER), "no whole path");
	snprintf(path, sizeof(path), "%s/pipe.py", fixture_dir);
	cr_assert_eq(mkfifo(path, 0644), 0);
	cr_expect_null(source_line(&source, path, 1, LATER), "nobody writes into it");
	snprintf(path, sizeof(path), "%s/folder.py", fixture_dir);
	cr_assert_eq(mkdir(path, 0755), 0);
	cr_expect_null(source_line(&source, path, 1, LATER));
	source_clear(&source);
}
