/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scratch folder and small files built in it with the system's compiler, so that what a test
 * expects of an ELF file is written in the test. cc is there: it has just built the test.
 */
#ifndef PERFX_TESTS_FIXTURE_H
#define PERFX_TESTS_FIXTURE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fixture_dir[64];

/* A path in the folder; a few at a time may be in use. */
__attribute__((unused)) static const char *fixture_path(const char *name)
{
	static char paths[8][512];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", fixture_dir, name);
	return path;
}

/* A shell command, run in the folder; it must succeed. */
__attribute__((unused, format(printf, 1, 2))) static void fixture_run(const char *fmt, ...)
{
	char command[2048];
	size_t used = (size_t)snprintf(command, sizeof(command), "cd %s && ", fixture_dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + used, sizeof(command) - used, fmt, ap);
	va_end(ap);
	cr_assert_eq(system(command), 0, "failed: %s", command);
}

__attribute__((unused)) static void fixture_write(const char *name, const void *bytes, size_t size)
{
	FILE *file = fopen(fixture_path(name), "w");

	cr_assert_not_null(file);
	cr_assert_eq(fwrite(bytes, 1, size, file), size);
	cr_assert_eq(fclose(file), 0);
}

__attribute__((unused)) static void fixture_text(const char *name, const char *text)
{
	fixture_write(name, text, strlen(text));
}

__attribute__((unused)) static int fixture_open(const char *name)
{
	int fd = open(fixture_path(name), O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s", name);
	return fd;
}

__attribute__((unused)) static void fixture_set_up(void)
{
	snprintf(fixture_dir, sizeof(fixture_dir), "/tmp/perfx-test-XXXXXX");
	cr_assert_not_null(mkdtemp(fixture_dir));
}

__attribute__((unused)) static void fixture_tear_down(void)
{
	if (fixture_dir[0])
		fixture_run("rm -rf %s", fixture_dir);
}

#endif
