/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_SESSION_ENVIRONMENT_H
#define PERFX_SESSION_ENVIRONMENT_H

/* The environment of the user who called sudo (NULL-terminated, malloc'd as one block with its
 * strings): what sudo itself was started with, so with the shell's PATH and virtual environment,
 * which sudo hides from the command it runs. NULL when it cannot be read. */
char **caller_environment(void);

#endif
