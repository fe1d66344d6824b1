/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading /proc: files that have no size and may vanish while they are read. */
#ifndef PERFX_PROC_PROC_H
#define PERFX_PROC_PROC_H

#include <stddef.h>
#include <sys/types.h>

/* All of a file, NUL added behind it, in *out (free it). Stops at limit bytes; 0: no limit.
 * Returns the length; -ESRCH where a path under /proc/PID is gone. */
ssize_t proc_read(const char *path, char **out, size_t limit);

/* The same for "/proc/PID/name". */
ssize_t proc_read_pid(pid_t pid, const char *name, char **out, size_t limit);

#endif
