/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `run` puts into a program's environment so that it marks what cannot be probed from outside:
 * inlined NVTX 3 (a library that it calls instead), Python functions (a hook that Python imports as
 * it starts). Both lie beside perfx-trace: lib/perfx in its own folder, or in that one's parent.
 */
#ifndef PERFX_SESSION_INJECT_H
#define PERFX_SESSION_INJECT_H

#include <stdbool.h>
#include <stddef.h>

struct inject {
	char *entries[3]; /* NAME=value */
	size_t count;
	char *files[2]; /* libraries that it will map */
	size_t files_count;
	bool nvtx; /* NVTX 3 calls our library */
};

/* environment: the program's; NULL: this process's. What the user has set stays: said in one line.
 * False: Python functions are wanted and their hook is not there; said too. */
bool inject_prepare(struct inject *inject, char *const *environment, bool nvtx,
		    bool python_functions);
/* In the child. */
void inject_apply(const struct inject *inject);
void inject_clear(struct inject *inject);

#endif
