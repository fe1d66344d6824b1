/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_PEAKS_INTERNAL_H
#define PERFX_PEAKS_INTERNAL_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The machine: its CPUs, caches, memory and clock. */

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

/* Memory that may be used for a moment without harm: a quarter of what is free, here and in the
 * control groups that this process is in. */
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

/* The loops that a peak is measured with. Written in assembly, so that neither the optimiser nor
 * its absence (-O0, sanitizers) changes what they do. */

/* Raised when a kernel is changed or added: kept results of older ones are measured anew. */
#define PEAKS_KERNELS_VERSION 1

/* Multiplies and adds in registers, nothing else. */
struct fma_kernel {
	const char *name; /* of the instructions: "AVX-512" */
	uint64_t flops;	  /* of one iteration; one multiply-add is 2 */
	void (*run)(uint64_t iterations, const void *constants);
	const void *constants;
};

/* The fastest kernel for a type that this CPU and its operating system can run; NULL: none. */
const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype);

/* Half-wide types: the CPU has no units for them that there is no kernel for. They can always be
 * widened, so that the peak of f32 is one of theirs. */
bool fma_half_is_known(enum perfx_dtype dtype);
/* Tiles of such numbers are multiplied by a unit of their own (AMX). */
bool fma_has_amx(enum perfx_dtype dtype);

/* a[i] = b[i] + 3 c[i]; aligned to 16 bytes, count even. 24 bytes an element by STREAM's count. */
#define TRIAD_BYTES 24
void triad(double *a, const double *b, const double *c, size_t count);

/*
 * Threads that all do the same at appointed times.
 *
 * A measurement is a row of short bursts, each beginning at a time that was agreed upon before:
 * other programs on the CPUs disturb some of them, seldom all, and a thread that was kept from
 * running has less CPU time. Short also because a scheduler lets a thread that has
 * slept run for some milliseconds before it considers others.
 */

struct bench_threads;

/* One thread for each CPU that this process may use. NULL with errno. */
struct bench_threads *bench_threads__new(void);
void bench_threads__free(struct bench_threads *bench_threads);
size_t bench_threads__size(const struct bench_threads *bench_threads);

/* The result of a row of bursts. */
struct bench_rate {
	double per_s; /* 0: not measured */
	bool clean;   /* all threads had their CPUs for the whole of some burst */
};

/* Operations a second of the threads' CPU time: other programs on the CPUs do not lower it. */
struct bench_rate bench_threads__flops(struct bench_threads *bench_threads,
				       const struct fma_kernel *kernel, bool all);

/* Takes memory for bench_threads__bandwidth, each thread its own part: well beyond the last-level
 * caches, where there is as much memory and time. 0 or -errno. */
int bench_threads__allocate(struct bench_threads *bench_threads);
/* Bytes a second by STREAM's count, of elapsed time: other programs share the memory. */
struct bench_rate bench_threads__bandwidth(struct bench_threads *bench_threads, bool all);

#endif
