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

/* The last-level cache of a CPU; guessed if the kernel does not report it. */
struct host_cache host_cache_of(int cpu);

/* Bytes that a short measurement may use without harm: a quarter of the memory that is free, both
 * on this machine and in the control groups of this process. */
uint64_t host_spare_memory(void);

/* The number of physical cores behind these CPUs: SMT siblings share a core's units. */
uint32_t host_cores(const int *cpus, size_t count);
/* The clock rate, the highest one if the kernel reports it; 0: unknown. */
double host_hz(void);
/* The clock rate of the first CPU in the text of /proc/cpuinfo; 0: it has none. */
double host_hz_in(const char *cpuinfo);

/* The CPU's name (malloc'd) in the text of /proc/cpuinfo; "": unknown. */
char *host_cpu_name(const char *cpuinfo);

/* The loops that measure a peak. They are written in assembly, so that compiler options (-O0,
 * sanitizers) do not change them. */

/* Increased with each changed or new kernel: results of another version are measured again. */
#define PEAKS_KERNELS_VERSION 1

/* A loop of multiply-adds in registers. */
struct fma_kernel {
	const char *name; /* of the instructions: "AVX-512" */
	uint64_t flops;	  /* of one iteration; one multiply-add is 2 */
	void (*run)(uint64_t iterations, const void *constants);
	const void *constants;
};

/* The fastest kernel for a type that this CPU and its operating system can run; NULL: none. */
const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype);

/* Is there a kernel for every unit of this CPU that computes with this 16-bit type? Such numbers
 * can always be widened, so the peak of f32 is then a peak of theirs, too. */
bool fma_half_is_known(enum perfx_dtype dtype);
/* Does the CPU multiply tiles of this type in a unit of its own (AMX)? */
bool fma_has_amx(enum perfx_dtype dtype);

/* a[i] = b[i] + 3 c[i]; arrays aligned to 16 bytes, count even. STREAM counts 24 bytes an element.
 */
#define TRIAD_BYTES 24
void triad(double *a, const double *b, const double *c, size_t count);

/*
 * Threads that run the same loop at the same time.
 *
 * A measurement is a series of short bursts, each with a start time that all threads know before.
 * Other programs on the CPUs disturb some bursts, seldom all; the CPU time of a thread shows
 * whether it was preempted. Bursts are short also because a scheduler lets a thread that has slept
 * run for some milliseconds before it considers others.
 */

struct bench_threads;

/* One thread for each CPU that this process may use. NULL with errno. */
struct bench_threads *bench_threads__new(void);
void bench_threads__free(struct bench_threads *bench_threads);
size_t bench_threads__size(const struct bench_threads *bench_threads);

/* The result of a series of bursts. */
struct bench_rate {
	double per_s; /* 0: not measured */
	bool clean;   /* all threads had their CPUs for the whole of some burst */
};

/* Operations a second of the threads' CPU time: other programs on the CPUs do not lower it. */
struct bench_rate bench_threads__flops(struct bench_threads *bench_threads,
				       const struct fma_kernel *kernel, bool all);

/* Allocates the arrays of bench_threads__bandwidth, one part for each thread: much larger than the
 * last-level caches, as far as memory and time allow. 0 or -errno. */
int bench_threads__allocate(struct bench_threads *bench_threads);
/* Bytes a second by STREAM's count, of elapsed time: other programs share the memory. */
struct bench_rate bench_threads__bandwidth(struct bench_threads *bench_threads, bool all);

#endif
