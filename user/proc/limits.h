/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUs and memory that a process may use. */
#ifndef PERFX_PROC_LIMITS_H
#define PERFX_PROC_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* UINT64_MAX: no limit, or not known. */
struct process_limits {
	uint32_t cpus_count;	  /* on which its threads may run; 0: not known */
	uint64_t cpu_limit_milli; /* thousandths of a CPU: the lowest quota of its cgroups */
	/* The cgroup with the least room: its limit, and its use that cannot be reclaimed. */
	uint64_t memory_limit_bytes, memory_used_bytes;
	uint64_t address_limit_bytes, address_used_bytes; /* RLIMIT_AS */
	uint64_t host_available_bytes;
	uint64_t shm_limit_bytes, shm_used_bytes;      /* of its /dev/shm, by all processes */
	uint64_t descriptors_limit, descriptors_count; /* RLIMIT_NOFILE */
	uint64_t mappings_limit, mappings_count;       /* vm.max_map_count */
};

/* Limits that cannot be read are unknown. count_mappings: which takes 0.5 us for each mapping. */
struct process_limits process_limits(pid_t pid, bool count_mappings);

/* From the text of files. "max 100000": cpu.max; thousandths of a CPU. */
uint64_t cgroup_cpu_max_milli(const char *text);
/* The soft limit of a line: "Max address space        unlimited            unlimited   bytes" */
uint64_t limit_of(const char *limits, const char *name);

#endif
