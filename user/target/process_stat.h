/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/stat and /proc/PID/task/TID/stat, see proc(5); and "Key: value" files. */
#ifndef PERFX_TARGET_PROCESS_STAT_H
#define PERFX_TARGET_PROCESS_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
	char comm[64];
	char state;
	pid_t ppid;
	bool kernel_thread;
	uint64_t minor_faults, major_faults;
	uint64_t user_ticks, system_ticks, start_ticks;
};

/* 0 or -EINVAL. The name may hold anything: spaces, brackets, newlines. */
int process_stat_parse(const char *text, struct process_stat *stat);
/* 0, -ESRCH, … */
int process_stat_read(pid_t pid, struct process_stat *stat);

uint64_t ticks_to_ns(uint64_t ticks);

/* The number behind "key" at the start of a line ("VmRSS:", "read_bytes:", "nr_periods");
 * UINT64_MAX when there is no such line. */
uint64_t keyed_number(const char *text, const char *key);

#endif
