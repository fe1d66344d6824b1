/* SPDX-License-Identifier: BSD-2-Clause */
/* The machine: its CPUs, caches, memory and clock. */
#ifndef PERFX_PEAKS_HOST_H
#define PERFX_PEAKS_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The kernel's own limit (CONFIG_NR_CPUS). */
#define HOST_CPUS_MAX 8192

/* The CPUs that this process may use, ascending (malloc'd); their number, or -errno. */
ssize_t host_cpus(int **cpus);

struct host_cache {
	uint64_t bytes; /* of one last-level cache */
	int first_cpu;	/* of those that share it: identifies the cache */
};

/* The last-level cache of a CPU; a guess where the kernel does not say. */
struct host_cache host_cache_of(int cpu);

/* What may be taken for a moment without harm: a quarter of what is free, here and in the control
 * groups that this process is in. */
uint64_t host_spare_memory(void);

/* CPU time that all CPUs together have spent at work, ns, to the clock tick; 0: not known. */
uint64_t host_busy_ns(void);

/* How many cores these CPUs are: the threads of one share its units. */
uint32_t host_cores(const int *cpus, size_t count);
/* The clock, at its highest where the kernel says that; 0: not known. */
double host_hz(void);
/* From the text of /proc/cpuinfo, the first CPU's; 0: not there. */
double host_hz_in(const char *cpuinfo);

/* The CPU's name (malloc'd), "" unknown. From the text of /proc/cpuinfo. */
char *host_cpu_name(const char *cpuinfo);

#endif
