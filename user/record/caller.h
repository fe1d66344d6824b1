/* SPDX-License-Identifier: BSD-2-Clause */
/* The user who called sudo. */
#ifndef PERFX_RECORD_CALLER_H
#define PERFX_RECORD_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

/* False when this was not started by sudo. */
bool caller_ids(uid_t *uid, gid_t *gid);

/* That user's environment (NULL-terminated, malloc'd as one block with its strings): what sudo
 * itself was started with, so with the shell's PATH and virtual environment, which sudo hides from
 * the command it runs. NULL when it cannot be read. */
char **caller_environment(void);

/* In a child before exec: becomes that user, groups included. 0 or -errno. */
int caller_become(uid_t uid, gid_t gid);

#endif
