/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that what is written is compared with; `make golden-update` writes them anew. */
#ifndef GOLDEN_FILE_H
#define GOLDEN_FILE_H

#include "base/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static inline char *golden_read(const char *path)
{
	FILE *file = fopen(path, "re");
	struct text text = {0};
	char buffer[4096];
	size_t count;

	if (!file)
		return NULL;
	while ((count = fread(buffer, 1, sizeof(buffer), file)))
		text_add_bytes(&text, buffer, count);
	fclose(file);
	return text_take(&text);
}

static inline void golden_write(const char *path, const char *data, size_t size)
{
	FILE *file = fopen(path, "we");

	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(data, 1, size, file), size);
	cr_assert_eq(fclose(file), 0);
}

static inline unsigned golden_difference(const char *a, const char *b)
{
	unsigned line = 1;

	for (; *a && *a == *b; a++, b++)
		line += *a == '\n';
	return line;
}

static inline void golden_expect(const char *path, const char *got, size_t size)
{
	char *expected;

	if (getenv("PERFX_GOLDEN_UPDATE"))
		golden_write(path, got, size);
	expected = golden_read(path);
	cr_assert_not_null(expected, "%s is missing: run the tests from the repository's root",
			   path);
	cr_expect_str_eq(got, expected, "%s differs from line %u on; got:\n%s", path,
			 golden_difference(got, expected), got);
	free(expected);
}

#endif
