/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who maps executable files, as it happens: perf's sideband (PERF_RECORD_MMAP of a dummy event on
 * each CPU). It costs nothing but on such a mapping, unlike system-call tracepoints, which slow
 * down every system call of the machine, and needs no tracefs.
 */
#ifndef PERFX_ATTACH_MAPPINGS_H
#define PERFX_ATTACH_MAPPINGS_H

#include <sys/types.h>

struct mappings;

/* NULL with errno: then libraries that arrive late are found by looking from time to time. */
struct mappings *mappings__new(void);
void mappings__free(struct mappings *mappings);

/* A descriptor for epoll, readable when there is something to take. */
int mappings__fd(const struct mappings *mappings);

/* Calls fn for each new executable mapping since the last call; pid 0: some were lost, look at
 * everybody. Returns how many. */
int mappings__take(struct mappings *mappings, void (*fn)(pid_t pid, void *ctx), void *ctx);

#endif
