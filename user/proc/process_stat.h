/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/stat and /proc/PID/task/TID/stat, see proc(5); and "Key: value" files. */
#ifndef PERFX_PROC_PROCESS_STAT_H
#define PERFX_PROC_PROCESS_STAT_H

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

/* What all CPUs did since the machine's start; 0: not known. */
struct host_cpu {
	uint64_t busy_ns;  /* by programs, the kernel and interrupts */
	uint64_t steal_ns; /* the hypervisor ran something else */
};

/* The first line of /proc/stat; 0 or -EINVAL. */
int host_cpu_parse(const char *text, struct host_cpu *cpu);
/* All 0 where it cannot be read. */
struct host_cpu host_cpu_read(void);

uint64_t ticks_to_ns(uint64_t ticks);

/* The number behind "key" at the start of a line ("VmRSS:", "read_bytes:", "nr_periods");
 * UINT64_MAX when there is no such line. */
uint64_t keyed_number(const char *text, const char *key);

#endif
