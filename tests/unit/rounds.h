/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that try thousands of damaged inputs: all of them in make test-all, a tenth in make test.
 */
#ifndef PERFX_TESTS_ROUNDS_H
#define PERFX_TESTS_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool rounds_all(void)
{
	const char *tests = getenv("PERFX_TESTS");

	return tests && !strcmp(tests, "all");
}

/* How many of `all` rounds of a test are to be made. */
static inline int rounds(int all)
{
	return rounds_all() ? all : all / 10;
}

/* Distance between the bytes or words that are damaged in turn, where it is `all` when all are
 * tried. */
static inline size_t rounds_stride(size_t all)
{
	return rounds_all() ? all : 10 * all + 1;
}

#endif
