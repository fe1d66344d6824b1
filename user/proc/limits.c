// SPDX-License-Identifier: BSD-2-Clause
#include "proc/limits.h"

#include "base/order.h"
#include "proc/cgroup.h"
#include "proc/process.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* More threads of a process are not asked where they may run. */
#define THREADS_ASKED 64

/* The text of a small file; NULL: there is none. */
static char *read_file(const char *folder, const char *name)
{
	char path[4200], *text;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return proc_read(path, &text, 0) < 0 ? NULL : text;
}

/* A file that is one number; "max", or none: UINT64_MAX. */
static uint64_t read_number(const char *folder, const char *name)
{
	char *text = read_file(folder, name), *end = text;
	uint64_t number = text ? strtoull(text, &end, 10) : 0;
	bool found = end != text;

	free(text);
	return found ? number : UINT64_MAX;
}

/* Some threads of a pool may each be bound to a CPU: all that any of them may use. */
static uint32_t count_cpus(pid_t pid)
{
	pid_t *tids = NULL;
	ssize_t count = process_threads(pid, &tids);
	cpu_set_t all, one;

	CPU_ZERO(&all);
	for (ssize_t i = 0; i < count && i < THREADS_ASKED; i++)
		if (!sched_getaffinity(tids[i], sizeof(one), &one))
			CPU_OR(&all, &all, &one);
	if (count >= 0)
		free(tids);
	return (uint32_t)CPU_COUNT(&all);
}

uint64_t cgroup_cpu_max_milli(const char *text)
{
	unsigned long long quota_us, period_us;

	if (sscanf(text, "%llu %llu", &quota_us, &period_us) != 2 || !period_us)
		return UINT64_MAX;
	return quota_us * 1000 / period_us;
}

static void limit_cpus(const char *folder, void *ctx)
{
	struct process_limits *limits = ctx;
	char *text = read_file(folder, "cpu.max"); /* version 2 */
	uint64_t quota_us, period_us;

	if (text) {
		limits->cpu_limit_milli =
			min_u64(limits->cpu_limit_milli, cgroup_cpu_max_milli(text));
		free(text);
		return;
	}
	quota_us = read_number(folder, "cpu.cfs_quota_us"); /* version 1; -1: none */
	period_us = read_number(folder, "cpu.cfs_period_us");
	if (quota_us < INT64_MAX / 1000 && period_us && period_us != UINT64_MAX)
		limits->cpu_limit_milli =
			min_u64(limits->cpu_limit_milli, quota_us * 1000 / period_us);
}

/* Version 1 has a number near 2^63 for no limit. */
#define NO_LIMIT (1ULL << 62)

static void limit_memory(const char *folder, void *ctx)
{
	struct process_limits *limits = ctx;
	uint64_t limit = read_number(folder, "memory.max");
	uint64_t used = read_number(folder, "memory.current"), files;
	char *text;

	if (used == UINT64_MAX) {
		limit = read_number(folder, "memory.limit_in_bytes");
		used = read_number(folder, "memory.usage_in_bytes");
	}
	if (limit >= NO_LIMIT || used == UINT64_MAX)
		return;
	/* when memory is short the kernel first drops pages of files that were not used lately */
	text = read_file(folder, "memory.stat");
	files = keyed_number(text, "total_inactive_file"); /* version 1 */
	if (files == UINT64_MAX)
		files = keyed_number(text, "inactive_file");
	free(text);
	if (files != UINT64_MAX)
		used -= min_u64(used, files);
	if (limits->memory_limit_bytes != UINT64_MAX &&
	    limit - min_u64(limit, used) >=
		    limits->memory_limit_bytes -
			    min_u64(limits->memory_limit_bytes, limits->memory_used_bytes))
		return;
	limits->memory_limit_bytes = limit;
	limits->memory_used_bytes = used;
}

uint64_t limit_of(const char *limits, const char *name)
{
	const char *line = strstr(limits, name);
	unsigned long long number;

	return line && sscanf(line + strlen(name), "%llu", &number) == 1 ? number : UINT64_MAX;
}

static void limit_shared_memory(pid_t pid, struct process_limits *limits)
{
	struct statfs status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root/dev/shm", (int)pid);
	if (statfs(path, &status) || status.f_type != TMPFS_MAGIC || !status.f_blocks)
		return;
	limits->shm_limit_bytes = status.f_blocks * (uint64_t)status.f_bsize;
	limits->shm_used_bytes = (status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
}

/* Since Linux 6.2 the size of the folder (kernel commit f1f1f2569901). */
static uint64_t count_descriptors(pid_t pid)
{
	struct stat status;
	char path[64];
	uint64_t count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	if (stat(path, &status))
		return UINT64_MAX;
	if (status.st_size)
		return (uint64_t)status.st_size;
	folder = opendir(path);
	if (!folder)
		return UINT64_MAX;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - min_u64(count, 2); /* . and .. */
}

static uint64_t count_lines(pid_t pid, const char *name)
{
	uint64_t count = 0;
	char *text;

	if (proc_read_pid(pid, name, &text, 0) < 0)
		return UINT64_MAX;
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		count++;
	free(text);
	return count;
}

struct process_limits process_limits(pid_t pid, bool count_mappings)
{
	struct process_limits limits;
	char *text;

	memset(&limits, 0xff, sizeof(limits));
	limits.cpus_count = count_cpus(pid);
	cgroup_walk(pid, "cpu", limit_cpus, &limits);
	cgroup_walk(pid, "memory", limit_memory, &limits);
	if (proc_read_pid(pid, "limits", &text, 0) >= 0) {
		limits.address_limit_bytes = limit_of(text, "Max address space");
		limits.descriptors_limit = limit_of(text, "Max open files");
		free(text);
		if (proc_read_pid(pid, "status", &text, 0) >= 0) {
			limits.address_used_bytes = keyed_kilobytes(text, "VmSize:");
			free(text);
		}
	}
	limits.descriptors_count = count_descriptors(pid);
	limit_shared_memory(pid, &limits);
	limits.mappings_limit = read_number("/proc/sys/vm", "max_map_count");
	if (count_mappings)
		limits.mappings_count = count_lines(pid, "maps");
	text = read_file("/proc", "meminfo");
	limits.host_available_bytes = keyed_kilobytes(text, "MemAvailable:");
	free(text);
	return limits;
}
