/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups of a process: version 1, version 2, or both mounted at once. Their limits, and how
 * long they throttled it. */
#ifndef PERFX_PROC_CGROUP_H
#define PERFX_PROC_CGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_throttle {
	uint64_t periods_count, throttled_count, throttled_ns;
};

/* CPU throttling of the process's cgroup plus all visible ones above it (a quota on any of them
 * throttles the process). Totals: take the difference of two readings. -ENOENT: no cpu controller,
 * or the process is in version 2's root group, which has no quota. */
int process_throttle(pid_t pid, struct cgroup_throttle *throttle);

struct cgroup_place {
	char folder[4096]; /* of the process's own group */
	size_t mount_size; /* as much of it is the mount point: the topmost group in sight */
};

/* From the text of /proc/PID/cgroup and /proc/self/mountinfo. 0; -ENOENT: no such controller
 * ("cpu", "memory"). */
int cgroup_find_place(const char *cgroup, const char *mountinfo, const char *controller,
		      struct cgroup_place *place);

/* Calls visit with the folder of the process's group and of all visible ones above it: a limit of
 * any of them holds. As process_throttle(). */
typedef void cgroup_visit_fn(const char *folder, void *ctx);
int cgroup_walk(pid_t pid, const char *controller, cgroup_visit_fn *visit, void *ctx);

/* Finds a group of the memory controller by its inode number. 0; -ENOENT: no such group is in
 * sight; -errno. */
int cgroup_find_memory(uint64_t inode, struct cgroup_place *place);
/* How many processes of the group and of those below it the kernel has killed for lack of memory;
 * UINT64_MAX: not known. */
uint64_t cgroup_oom_kills(const char *folder);
/* The processes in the group and in those below it, as far as they are among the first 4,096.
 * Returns the count or -errno; *pids is malloc'd. */
ssize_t cgroup_members(const char *folder, pid_t **pids);

/* Adds the numbers of a cpu.stat file; -ENOENT when it has none of throttling. */
int cgroup_add_cpu_stat(const char *text, struct cgroup_throttle *throttle);

#endif
