/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of code that a process made itself: /tmp/perf-PID.map, as JIT compilers write it for perf
 * (tools/perf/Documentation/jit-interface.txt in the kernel's source). A line is
 *
 *	7f1c9a200040 3c LazyCompile:~step train.js:12
 *
 * START and SIZE in hexadecimal, and the name. Anybody may write to /tmp, so the file counts only
 *if it is the process's own (or root's) and is no link, and at most PERF_MAP_BYTES_MAX are read of
 *it.
 */
#ifndef PERFX_PROC_PERF_MAP_H
#define PERFX_PROC_PERF_MAP_H

#include <stdint.h>
#include <sys/types.h>

#define PERF_MAP_BYTES_MAX (64u << 20)

struct perf_map;

/* root: of the process, as for rootfs_open(). own_pid: its id in its own pid namespace; owner: as
 * whom it writes files. NULL with errno: ENOENT there is none, EPERM it is somebody else's. */
struct perf_map *perf_map__read(const char *root, pid_t own_pid, uid_t owner);
void perf_map__free(struct perf_map *map);

/* Path of the file, as the process sees it. */
const char *perf_map__path(const struct perf_map *map);
/* The name of the code at an address. NULL: it has none, or it had several (code that was moved or
 * freed, and another's in its place) and which one was there when is not known. */
const char *perf_map__name(const struct perf_map *map, uint64_t address);

#endif
