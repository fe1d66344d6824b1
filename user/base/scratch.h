/* SPDX-License-Identifier: BSD-2-Clause */
/* A folder for files that are needed for a moment, in $TMPDIR or /tmp, that nobody else can look
 * into. It is locked as long as its owner lives, so that those of owners that were killed are known
 * and removed.
 */
#ifndef PERFX_BASE_SCRATCH_H
#define PERFX_BASE_SCRATCH_H

/* All zero: there is none. */
struct scratch {
	char *path;
	int lock_fd; /* of the folder itself; valid while there is a path */
};

/* 0 or -errno. */
int scratch_make(struct scratch *scratch);
/* The path of a file in it, to be freed; NULL with -ENOMEM. */
int scratch_file(const struct scratch *scratch, const char *name, char **path);
/* With the files in it. */
void scratch_remove(struct scratch *scratch);
/* Removes those of owners that are dead. */
void scratch_sweep(void);

#endif
