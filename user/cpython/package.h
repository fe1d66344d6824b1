/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which Python files belong to installed packages. pip, uv and others put a NAME-VERSION.dist-info
 * folder beside what they install, in site-packages or in any other folder (pip install --target),
 * and list the files in its RECORD. A source tree has none: an editable install's lists only the
 * files that lead to the tree.
 *
 * Costs: 10 µs a file. Each folder that leads to one is read once: 1 ms for 1,000 files that lists
 * name (PyTorch with what it needs: 25 ms).
 */
#ifndef PERFX_CPYTHON_PACKAGE_H
#define PERFX_CPYTHON_PACKAGE_H

#include "base/grow.h"

#include <stdbool.h>
#include <sys/types.h>

/* What the folders said. All zero: nothing was read. */
struct packages {
	/* Hashes of the folders that were read, and of what is installed there. */
	struct map64 known;
	size_t lines_count; /* read of all lists */
};

/* file: as the process's interpreter names it. False also where it cannot be read. */
bool packages_have(struct packages *packages, pid_t pid, const char *file);
void packages_clear(struct packages *packages);

#endif
