/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the CPU controller keeps its accounts: control groups, version 1 and 2, and both at
 * once. */
#ifndef PERFX_PROC_CGROUP_H
#define PERFX_PROC_CGROUP_H

#include "proc/process.h"

#include <stddef.h>

struct cgroup_place {
	char folder[4096]; /* of the process's own group */
	size_t mount_size; /* as much of it is the mount point: the topmost group in sight */
};

/* From the text of /proc/PID/cgroup and /proc/self/mountinfo. 0; -ENOENT: no CPU controller. */
int cgroup_cpu_place(const char *cgroup, const char *mountinfo, struct cgroup_place *place);

/* Adds what a cpu.stat says; -ENOENT when it knows nothing of throttling. */
int cgroup_add_cpu_stat(const char *text, struct cgroup_throttle *throttle);

#endif
