// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process_stat.h"

#include "proc/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNEL_THREAD_FLAG = 0x00200000 }; /* PF_KTHREAD, include/linux/sched.h */

static void copy_comm(struct process_stat *stat, const char *from, const char *to)
{
	size_t size = (size_t)(to - from);

	if (size >= sizeof(stat->comm))
		size = sizeof(stat->comm) - 1;
	memcpy(stat->comm, from, size);
	stat->comm[size] = '\0';
}

/* The name ends at the last ')': behind it there are only numbers and the state's letter. */
int process_stat_parse(const char *text, struct process_stat *stat)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long minor, major, user, system, start;
	unsigned flags;
	int ppid;

	memset(stat, 0, sizeof(*stat));
	if (!open || !close || close < open)
		return -EINVAL;
	copy_comm(stat, open + 1, close);
	/* fields 3, 4, 9, 10, 12, 14, 15, 22 */
	if (sscanf(close + 1,
		   " %c %d %*d %*d %*d %*d %u %llu %*u %llu %*u %llu %llu "
		   "%*d %*d %*d %*d %*d %*d %llu",
		   &stat->state, &ppid, &flags, &minor, &major, &user, &system, &start) != 8)
		return -EINVAL;
	stat->ppid = ppid;
	stat->kernel_thread = flags & KERNEL_THREAD_FLAG;
	stat->minor_faults = minor;
	stat->major_faults = major;
	stat->user_ticks = user;
	stat->system_ticks = system;
	stat->start_ticks = start;
	return 0;
}

int process_stat_read(pid_t pid, struct process_stat *stat)
{
	char *text;
	ssize_t size = proc_read_pid(pid, "stat", &text, 0);
	int err;

	if (size < 0)
		return (int)size;
	err = process_stat_parse(text, stat);
	free(text);
	return err;
}

uint64_t ticks_to_ns(uint64_t ticks)
{
	static const uint64_t second_ns = 1000000000;
	long per_second = sysconf(_SC_CLK_TCK);

	return ticks * (second_ns / (per_second > 0 ? (uint64_t)per_second : 100));
}

uint64_t keyed_number(const char *text, const char *key)
{
	size_t size = strlen(key);

	for (; text && *text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
		if (strncmp(text, key, size) == 0 && strchr(" \t", text[size]))
			return strtoull(text + size, NULL, 10);
	return UINT64_MAX;
}

int host_cpu_parse(const char *text, struct host_cpu *cpu)
{
	unsigned long long user, nice, system, irq, softirq, steal;

	*cpu = (struct host_cpu){0};
	/* guests' time is in that of user; idle and iowait are skipped */
	if (sscanf(text, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq,
		   &softirq, &steal) != 6)
		return -EINVAL;
	cpu->busy_ns = ticks_to_ns(user + nice + system + irq + softirq);
	cpu->steal_ns = ticks_to_ns(steal);
	return 0;
}

struct host_cpu host_cpu_read(void)
{
	struct host_cpu cpu = {0};
	char *text;

	if (proc_read("/proc/stat", &text, 256) < 0)
		return cpu;
	host_cpu_parse(text, &cpu);
	free(text);
	return cpu;
}
