/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of a process in the order in which the dynamic linker looks for a name: executable,
 * preloads, libraries breadth first. From the list that it keeps for debuggers (struct r_debug).
 */
#ifndef PERFX_PROC_LINK_MAP_H
#define PERFX_PROC_LINK_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Addresses in the process, one in each file: where its dynamic section is mapped. Returns the
 * count, *out is malloc'd. -ENOENT: there is no list (static, or the linker has not run yet);
 * -ESRCH, -EACCES, -EPERM: the process may not be read. */
ssize_t link_map_read(pid_t pid, uint64_t **out);

#endif
