/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traced files that are written to. A probe is put where an instruction of the old content was, and
 * the kernel executes what it read there: a program that maps the new content dies of it. So all
 * probes of a file go as soon as it is written to; programs that map it from then on get their
 * own, planned from what is there then.
 *
 * What remains: writes through a shared mapping are only heard of with the next program that maps
 * something, and a program that maps the file between the write and the tracer's turn still meets
 * the old probes. A program that ran on the old content has lost it by the write itself.
 */
#ifndef PERFX_ATTACH_OVERWRITTEN_H
#define PERFX_ATTACH_OVERWRITTEN_H

#include "plan/plan.h"

struct file_watch;

/* NULL with errno: then changes are found when something is mapped. */
struct file_watch *file_watch__new(void);
void file_watch__free(struct file_watch *watch);
/* A descriptor for epoll, readable when a file has been written to; -1 for NULL. */
int file_watch__fd(const struct file_watch *watch);
/* Watches what has been planned since the last time. */
void file_watch__follow(struct file_watch *watch, const struct plan *plan);
/* Empties the descriptor. */
void file_watch__take(struct file_watch *watch);

/* Does the process have in memory what the file has, wherever something of the module is planned?
 * Pages in which there have been probes are its own copies, and may be older. */
bool process_holds(pid_t pid, const struct plan *plan, size_t module);

#endif
