/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user named, found and checked: pids from -p, privilege and features of the kernel. */
#ifndef PERFX_CMD_TARGETS_H
#define PERFX_CMD_TARGETS_H

#include "attach/features.h"
#include "cmd/options.h"

#include <stddef.h>
#include <sys/types.h>

/* Pids of what -p names, malloc'd. EXIT_OK, or EXIT_FAILED (no such process, a kernel thread, our
 * own pid, 32-bit) after a message. */
int targets_find(const struct options *options, pid_t **pids, size_t *count);

/* --process names what may be traced, as far as that can be known before: EXIT_OK, or EXIT_USAGE
 * after a message. No pids: of a program that is yet to be started. */
int targets_check_process(const struct options *options, const pid_t *pids, size_t count);

/* EXIT_OK; EXIT_PRIVILEGE or EXIT_FAILED after a message. */
int features_check(struct features *features);

/* The plan's options as the command line gives them. */
struct plan_options plan_options_of(const struct options *options, const struct features *features);

/* The arguments as one string that a shell would take, malloc'd. */
char *shell_join(char *const *argv);

#endif
